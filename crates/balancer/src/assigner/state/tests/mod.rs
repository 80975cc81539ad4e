use api::object::{Condition, LoadBalancerIngress};
use serde_json::{Value, json};

use super::*;
use crate::assigner::service_update::condition_message;
use crate::assigner::{
    ANNOTATIONS_CONDITION, ANNOUNCED_CONDITION, EXCLUDE_LABEL, IngressMode, NODE_ADDRESSES_REASON,
    ServiceUpdate, StatusChange,
};
use crate::edge_report::PortFault;
use crate::metallb::{POOL_ANNOTATION, POOL_ANNOTATION_BEFORE};

mod ip_mode;
mod metallb;
mod node_addresses;
mod pool_two_tier;
mod port_ranges;
mod withdrawal;

/// A state whose updates are applied to its own cache.
struct Fixture {
    state: AssignerState,
    version: u64,
    /// Reasons of the recorded Events, in order.
    reasons: Vec<&'static str>,
    /// True for the API server of a version before 1.29.
    drops_ip_mode: bool,
}

impl Fixture {
    fn new() -> Self {
        let mut this = Self {
            state: AssignerState::new(Options::default()),
            version: 1,
            reasons: Vec::new(),
            drops_ip_mode: false,
        };
        this.state
            .apply_namespace(read(json!({"metadata": {"name": "default"}})));
        this.state
            .apply_node(&read(json!({"metadata": {"name": "node-1"}})));
        this
    }

    fn with_pool(addresses: &[&str]) -> Self {
        let mut this = Self::new();
        this.pool("p", addresses, json!({}));
        this.initialize();
        this
    }

    fn initialize(&mut self) {
        let work = self.state.initialize();
        self.run(work);
    }

    fn pool(&mut self, name: &str, addresses: &[&str], more: Value) {
        let mut spec = more;
        spec["addresses"] = json!(addresses);
        let work = self
            .state
            .apply_pool(read(json!({"metadata": {"name": name}, "spec": spec})));
        self.run(work);
    }

    fn apply(&mut self, mut service: Service) {
        self.version += 1;
        service.metadata.resource_version = self.version.to_string();
        let work = self.state.apply_service(service);
        self.run(work);
    }

    /// Reconciles objects until none is left, once the state is initialized.
    fn run(&mut self, mut work: Vec<WorkItem>) {
        for _ in 0..1_000 {
            if !self.state.is_initialized {
                return;
            }
            let Some(next) = work.pop() else { return };
            let WorkItem::Service(key) = next else { continue };
            let (update, more) = self.state.reconcile(&key);
            work.extend(more);
            let (Some(update), Some(service)) = (update, self.state.service(&key).cloned()) else {
                continue;
            };
            match self.written(service, &update) {
                Some(service) => work.extend(self.state.apply_service(service)),
                None => work.extend(self.state.remove_service(&key)),
            }
        }
        panic!("no fixed point after 1,000 reconciliations");
    }

    /// The Service after an update; `None` if it is deleted.
    fn written(&mut self, mut service: Service, update: &ServiceUpdate) -> Option<Service> {
        let events = update.events_before.iter().chain(&update.events_after);
        self.reasons.extend(events.map(|event| event.reason));
        self.version += 1;
        service.metadata.resource_version = self.version.to_string();
        let finalizers = &mut service.metadata.finalizers;
        if update.adds_finalizer {
            finalizers.push(FINALIZER.to_owned());
        }
        if let Some(pools) = &update.pools {
            let annotations = &mut service.metadata.annotations;
            annotations.remove(POOL_ANNOTATION_BEFORE);
            match pools.as_str() {
                "" => annotations.remove(POOL_ANNOTATION),
                pools => annotations.insert(POOL_ANNOTATION.to_owned(), pools.to_owned()),
            };
        }
        pool_two_tier::record(&mut service.metadata.annotations, update);
        if update.removes_finalizer {
            finalizers.retain(|name| name != FINALIZER);
            if finalizers.is_empty() && service.metadata.deletion_timestamp.is_some() {
                return None;
            }
        }
        match &update.status {
            None => {}
            Some(StatusChange::Clear) => service.status = api::object::ServiceStatus::default(),
            Some(StatusChange::Set(assignment)) => {
                let ingress = assignment.addresses.iter().map(|ip| LoadBalancerIngress {
                    ip: ip.to_string(),
                    hostname: assignment.hostname.clone().unwrap_or_default(),
                    ip_mode: (!self.drops_ip_mode).then(|| assignment.mode.as_str().to_owned()),
                    ports: assignment.port_states.get(ip).cloned().unwrap_or_default(),
                });
                if !assignment.keeps_status {
                    service.status.load_balancer.ingress = ingress.collect();
                }
                let condition = |kind: &str, is_true: bool, message: &str| Condition {
                    kind: kind.to_owned(),
                    status: if is_true { "True" } else { "False" }.to_owned(),
                    message: message.to_owned(),
                    ..Condition::default()
                };
                let failure = &assignment.failure;
                let mut assigned = condition(ASSIGNED_CONDITION, failure.is_empty(), failure);
                if assignment.is_of_nodes {
                    NODE_ADDRESSES_REASON.clone_into(&mut assigned.reason);
                }
                service.status.conditions = vec![assigned];
                if !assignment.findings.is_empty() {
                    let findings = condition(ANNOTATIONS_CONDITION, false, &assignment.findings);
                    service.status.conditions.push(findings);
                }
                if !assignment.announcement_failure.is_empty() {
                    let announced = condition(ANNOUNCED_CONDITION, false, &assignment.announcement_failure);
                    service.status.conditions.push(announced);
                }
            }
        }
        Some(service)
    }

    fn service(&self, name: &str) -> Service {
        self.state
            .service(&ObjectKey::new("default", name))
            .expect("cached Service")
            .clone()
    }

    fn addresses(&self, name: &str) -> Vec<String> {
        addresses_of(&self.service(name))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn failure(&self, name: &str) -> String {
        self.service(name)
            .status
            .conditions
            .first()
            .map(|condition| condition.message.clone())
            .unwrap_or_default()
    }

    /// Reasons of the Events since the last call.
    fn reasons(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.reasons)
    }
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("object")
}

fn load_balancer(name: &str, more: Value) -> Service {
    let mut spec = json!({
        "type": "LoadBalancer", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP"}],
    });
    for (field, value) in more.as_object().expect("object") {
        spec[field] = value.clone();
    }
    read(json!({"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": spec}))
}

const ENSURED: [&str; 2] = ["EnsuringLoadBalancer", "EnsuredLoadBalancer"];
const ASSIGNED: [&str; 3] = ["EnsuringLoadBalancer", "EnsuredLoadBalancer", "IPAllocated"];
const FAILED: [&str; 2] = ["SyncLoadBalancerFailed", "AllocationFailed"];
const DELETED: [&str; 2] = ["DeletingLoadBalancer", "DeletedLoadBalancer"];

/// CCM-02: Events and finalizer.
#[test]
fn assigns_an_address_once() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.apply(load_balancer("a", json!({})));
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
    assert!(has_finalizer(&fixture.service("a")));
    assert_eq!(fixture.reasons(), ASSIGNED);
    let same = fixture.service("a");
    fixture.apply(same);
    assert_eq!(fixture.reasons(), [""; 0]);
    let update = fixture.state.pool_update("p").expect("change of the status");
    let PoolUpdate::AddressPool { status, .. } = update else {
        panic!("expected the status of an AddressPool, found {update:?}");
    };
    assert_eq!((status.usage[0].total, status.usage[0].assigned), (256, 1));
    assert_eq!(status.conditions[0].status, "True");
}

/// CCM-03: deletion.
#[test]
fn deletion_releases_the_address_for_waiting_services() {
    let mut fixture = Fixture::with_pool(&["192.0.2.1/32"]);
    fixture.apply(load_balancer("a", json!({})));
    fixture.apply(load_balancer("b", json!({})));
    assert_eq!(
        fixture.failure("b"),
        "all addresses of family IPv4 are in use in p"
    );
    assert!(!has_finalizer(&fixture.service("b")));
    fixture.reasons();
    let mut going = fixture.service("a");
    going.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
    fixture.apply(going);
    assert!(fixture.state.service(&ObjectKey::new("default", "a")).is_none());
    assert_eq!(fixture.addresses("b"), ["192.0.2.1"]);
    assert_eq!(fixture.reasons(), [&DELETED[..], &ASSIGNED].concat());
}

/// CCM-03: another type.
#[test]
fn change_of_type_releases_the_address() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.apply(load_balancer("a", json!({})));
    fixture.reasons();
    let mut other = fixture.service("a");
    other.spec.kind = "ClusterIP".to_owned();
    fixture.apply(other);
    assert_eq!(fixture.service("a").status, api::object::ServiceStatus::default());
    assert!(!has_finalizer(&fixture.service("a")));
    assert_eq!(fixture.reasons(), [&["Type"][..], &DELETED].concat());
    assert_eq!(fixture.state.allocations.of("default/a"), [] as [IpAddr; 0]);
}

/// CCM-01: classes.
#[test]
fn serves_only_its_classes() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.apply(load_balancer("a", json!({"loadBalancerClass": CLASS})));
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
    fixture.reasons();
    fixture.apply(load_balancer("b", json!({"loadBalancerClass": "example.com/lb"})));
    assert_eq!(fixture.reasons(), [""; 0]);
    fixture.apply(load_balancer(
        "c",
        json!({"loadBalancerClass": "portolan.dev/other"}),
    ));
    assert_eq!(fixture.reasons(), FAILED);
    assert!(
        fixture
            .failure("c")
            .starts_with("class portolan.dev/other is not served here")
    );

    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.state.options.serves_default_class = false;
    // The Service belongs to another controller.
    let mut foreign = load_balancer("d", json!({}));
    foreign.metadata.finalizers.push(FINALIZER.to_owned());
    fixture.apply(foreign);
    assert_eq!(fixture.reasons(), [""; 0]);
    assert!(has_finalizer(&fixture.service("d")));
}

#[test]
fn failure_is_reported_once_per_reason() {
    let mut fixture = Fixture::new();
    fixture.initialize();
    fixture.apply(load_balancer("a", json!({"ipFamilies": ["IPv6"]})));
    assert_eq!(
        fixture.failure("a"),
        "there is no AddressPool: create one with addresses of this network"
    );
    assert_eq!(fixture.reasons(), FAILED);
    let same = fixture.service("a");
    fixture.apply(same);
    assert_eq!(fixture.reasons(), [""; 0]);
    fixture.pool("p", &["192.0.2.0/24"], json!({}));
    assert_eq!(fixture.failure("a"), "no pool has an address of family IPv6");
    assert_eq!(fixture.reasons(), FAILED);
    fixture.pool("q", &["2001:db8::/64"], json!({}));
    assert_eq!(fixture.addresses("a"), ["2001:db8::"]);
    assert_eq!(fixture.reasons(), ASSIGNED);
}

#[test]
fn pools_serve_only_matching_services() {
    let mut fixture = Fixture::new();
    fixture.state.apply_namespace(read(
        json!({"metadata": {"name": "default", "labels": {"team": "a"}}}),
    ));
    let others = json!({"namespaceSelector": {"matchLabels": {"team": "b"}}});
    fixture.pool("others", &["192.0.2.0/24"], others);
    fixture.pool("inner", &["198.51.100.0/24"], json!({"scope": "Internal"}));
    fixture.initialize();
    fixture.apply(load_balancer("a", json!({})));
    assert_eq!(fixture.failure("a"), "no pool has an address of family IPv4");
    let mut internal = load_balancer("b", json!({}));
    let annotation = "service.beta.kubernetes.io/aws-load-balancer-internal";
    internal
        .metadata
        .annotations
        .insert(annotation.to_owned(), "true".to_owned());
    fixture.apply(internal);
    assert_eq!(fixture.addresses("b"), ["198.51.100.0"]);
    let work = fixture.state.apply_namespace(read(
        json!({"metadata": {"name": "default", "labels": {"team": "b"}}}),
    ));
    fixture.run(work);
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
}

#[test]
fn restart_keeps_all_addresses() {
    let mut before = Fixture::with_pool(&["192.0.2.0/24"]);
    for name in ["a", "b", "c"] {
        before.apply(load_balancer(name, json!({})));
    }
    let mut after = Fixture::new();
    // In another order, and with a Service that was created in between.
    after.apply(load_balancer("aa", json!({})));
    for name in ["c", "b", "a"] {
        after.apply(before.service(name));
    }
    after.pool("p", &["192.0.2.0/24"], json!({}));
    after.initialize();
    for name in ["a", "b", "c"] {
        assert_eq!(after.addresses(name), before.addresses(name));
    }
    assert_eq!(after.addresses("aa"), ["192.0.2.3"]);
    assert_eq!(after.reasons(), ASSIGNED);
}

/// CCM-06, CCM-07: Events about nodes.
#[test]
fn changes_of_nodes_are_reported() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.apply(load_balancer("a", json!({})));
    fixture.reasons();
    let work = fixture
        .state
        .apply_node(&read(json!({"metadata": {"name": "node-2"}})));
    fixture.run(work);
    assert_eq!(fixture.reasons(), ["UpdatedLoadBalancer"]);
    let labels = json!({ EXCLUDE_LABEL: "" });
    for name in ["node-1", "node-2"] {
        let work = fixture
            .state
            .apply_node(&read(json!({"metadata": {"name": name, "labels": labels}})));
        fixture.run(work);
    }
    assert_eq!(
        fixture.reasons(),
        ["UpdatedLoadBalancer", "UnAvailableLoadBalancer"]
    );
}

/// API-50: the value is a boolean of Go; text that is none excludes the node.
#[test]
fn false_exclusion_label_includes_node() {
    let is_included = |value: &str| {
        let labels = json!({EXCLUDE_LABEL: value});
        let node = read(json!({"metadata": {"name": "node-1", "labels": labels}}));
        super::super::takes_traffic(&node, false)
    };
    assert!(
        ["false", "False", "FALSE", "f", "F", "0"]
            .into_iter()
            .all(is_included)
    );
    assert!(!["", "true", "1", "no", "fAlse"].into_iter().any(is_included));
}

#[test]
fn condition_reports_that_no_node_may_announce() {
    let mut fixture = Fixture::new();
    let selectors = json!([{"matchLabels": {"role": "edge"}}, {"matchLabels": {"role": "dmz"}}]);
    fixture.pool("p", &["192.0.2.0/24"], json!({ "nodeSelectors": selectors }));
    fixture.initialize();
    let failure =
        |fixture: &Fixture| condition_message(&fixture.service("a"), ANNOUNCED_CONDITION).to_owned();
    let label = |fixture: &mut Fixture, name: &str, labels: Value| {
        let node = json!({"metadata": {"name": name, "labels": labels}});
        let work = fixture.state.apply_node(&read(node));
        fixture.run(work);
    };
    fixture.apply(load_balancer("a", json!({})));
    // The address is assigned nevertheless: a node may be added later.
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
    assert_eq!(
        failure(&fixture),
        "192.0.2.0 is announced by no node: none that takes traffic matches nodeSelectors of AddressPool \"p\""
    );
    let reasons = [
        "EnsuringLoadBalancer",
        "UnAvailableLoadBalancer",
        "EnsuredLoadBalancer",
        "IPAllocated",
    ];
    assert_eq!(fixture.reasons(), reasons);
    let same = fixture.service("a");
    fixture.apply(same);
    label(&mut fixture, "node-1", json!({"role": "none"}));
    assert_eq!(fixture.reasons(), [""; 0], "recorded once");

    // Labels, nodes, pools and annotations change the condition.
    label(&mut fixture, "node-1", json!({"role": "dmz"}));
    assert_eq!(failure(&fixture), "");
    label(&mut fixture, "node-1", json!({"role": "dmz", EXCLUDE_LABEL: ""}));
    assert!(failure(&fixture).contains("none that takes traffic"));
    fixture.reasons();
    label(&mut fixture, "node-2", json!({"role": "edge"}));
    assert_eq!(
        (failure(&fixture), fixture.reasons()),
        (String::new(), vec!["UpdatedLoadBalancer"])
    );
    let annotation = "service.beta.kubernetes.io/aws-load-balancer-target-node-labels";
    let chosen = annotated(fixture.service("a"), &[(annotation, "zone=a")]);
    fixture.apply(chosen);
    let text = failure(&fixture);
    assert!(
        text.ends_with("of AddressPool \"p\" and node selectors of annotations"),
        "{text}"
    );
    fixture.pool("p", &["192.0.2.0/24"], json!({}));
    let text = failure(&fixture);
    assert!(text.ends_with("matches node selectors of annotations"), "{text}");
    label(&mut fixture, "node-2", json!({"zone": "a"}));
    assert_eq!(failure(&fixture), "");
}

#[test]
fn ignores_older_versions() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.apply(load_balancer("a", json!({})));
    let mut old = load_balancer("a", json!({}));
    old.metadata.resource_version = "1".to_owned();
    assert!(fixture.state.apply_service(old).is_empty());
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
}

fn annotated(mut service: Service, annotations: &[(&str, &str)]) -> Service {
    let pairs = annotations
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    service.metadata.annotations = pairs.collect();
    service
}

#[test]
fn services_that_need_the_edge_get_mode_proxy() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.state.options.has_edges = true;
    let mode = |fixture: &Fixture, name: &str| {
        let ingress = fixture.service(name).status.load_balancer.ingress;
        ingress.first().map(IngressMode::of)
    };
    fixture.apply(load_balancer("a", json!({"loadBalancerClass": EDGE_CLASS})));
    assert_eq!(mode(&fixture, "a"), Some(IngressMode::Proxy));
    fixture.apply(load_balancer("b", json!({})));
    assert_eq!(mode(&fixture, "b"), Some(IngressMode::Vip));
    fixture.reasons();
    // The address stays when the Service moves to the edge.
    let changed = annotated(
        fixture.service("b"),
        &[
            ("portolan.dev/edge-proxy-protocol", "v2"),
            ("portolan.dev/load-balancer-hostname", "b.example.com"),
        ],
    );
    fixture.apply(changed);
    assert_eq!(mode(&fixture, "b"), Some(IngressMode::Proxy));
    assert_eq!(
        fixture.service("b").status.load_balancer.ingress[0].hostname,
        "b.example.com"
    );
    assert_eq!(fixture.addresses("b"), ["192.0.2.1"]);
    assert_eq!(fixture.reasons(), ENSURED);
    let again = fixture.service("b");
    fixture.apply(again);
    assert_eq!(fixture.reasons(), [""; 0]);
}

#[test]
fn missing_edge_is_reported() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.apply(load_balancer("a", json!({"loadBalancerClass": EDGE_CLASS})));
    assert_eq!(
        fixture.failure("a"),
        "class portolan.dev/edge is not served here: no node runs the edge, which `portolan balancer --edge` does"
    );
    fixture.reasons();
    let changed = annotated(
        load_balancer("b", json!({})),
        &[("portolan.dev/edge-proxy-protocol", "v2")],
    );
    fixture.apply(changed);
    assert_eq!(fixture.addresses("b"), ["192.0.2.0"]);
    assert_eq!(
        fixture.reasons(),
        [
            "EnsuringLoadBalancer",
            "InvalidAnnotation",
            "EnsuredLoadBalancer",
            "IPAllocated"
        ]
    );
}

#[test]
fn withholds_the_address_when_a_restriction_needs_the_missing_edge() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    let ranges = "service.beta.kubernetes.io/load-balancer-source-ranges";
    fixture.apply(annotated(
        load_balancer("a", json!({})),
        &[(ranges, "198.51.100.0/24")],
    ));
    assert_eq!(fixture.addresses("a"), [""; 0]);
    assert!(fixture.failure("a").contains(ranges), "{}", fixture.failure("a"));
    assert_eq!(fixture.reasons(), FAILED);
    let same = fixture.service("a");
    fixture.apply(same);
    assert_eq!(fixture.reasons(), [""; 0], "recorded once");
    let mut corrected = annotated(fixture.service("a"), &[]);
    corrected.spec.load_balancer_source_ranges = vec!["198.51.100.0/24".to_owned()];
    fixture.apply(corrected);
    assert_eq!(fixture.addresses("a"), ["192.0.2.0"]);
}

#[test]
fn port_states_follow_the_reports_of_edges() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.state.options.has_edges = true;
    let two =
        json!([{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 443, "protocol": "TCP"}]);
    fixture.apply(load_balancer(
        "a",
        json!({"loadBalancerClass": EDGE_CLASS, "ports": two}),
    ));
    fixture.apply(load_balancer("b", json!({})));
    fixture.reasons();
    let states = |fixture: &Fixture, name: &str| -> Vec<(u16, Option<String>)> {
        let ingress = fixture.service(name).status.load_balancer.ingress;
        let ports = ingress.into_iter().flat_map(|ingress| ingress.ports);
        ports.map(|state| (state.port, state.error)).collect()
    };
    let report = |fixture: &mut Fixture, node: &str, faulty: &[&str]| {
        let fault = |name: &&str| PortFault {
            namespace: "default".to_owned(),
            service: (*name).to_owned(),
            address: fixture.addresses(name)[0].parse().expect("address"),
            port: 443,
            protocol: api::object::Protocol::Tcp,
            error: "portolan.dev/CannotListen".to_owned(),
        };
        let report = faulty.iter().map(fault).collect();
        let work = fixture.state.apply_report(node, report);
        fixture.run(work);
    };
    let faulty = vec![(80, None), (443, Some("portolan.dev/CannotListen".to_owned()))];
    // Until all reports are read, states stay.
    report(&mut fixture, "node-1", &["a", "b"]);
    assert_eq!(states(&fixture, "a"), []);
    let work = fixture.state.reports_synced();
    fixture.run(work);
    assert_eq!(states(&fixture, "a"), faulty);
    assert_eq!(states(&fixture, "b"), [], "served by node proxies");
    assert_eq!(fixture.reasons(), [""; 0]);
    report(&mut fixture, "node-1", &[]);
    assert_eq!(states(&fixture, "a"), []);
    // Only reports of nodes that may announce the address count.
    report(&mut fixture, "stranger", &["a"]);
    assert_eq!(states(&fixture, "a"), []);
    let selectors = json!([{"matchLabels": {"role": "edge"}}]);
    fixture.pool("p", &["192.0.2.0/24"], json!({ "nodeSelectors": selectors }));
    report(&mut fixture, "node-1", &["a"]);
    assert_eq!(states(&fixture, "a"), []);
    let labels = json!({"role": "edge"});
    let node = json!({"metadata": {"name": "node-1", "labels": labels}});
    let work = fixture.state.apply_node(&read(node));
    fixture.run(work);
    assert_eq!(states(&fixture, "a"), faulty);
}

#[test]
fn annotations_without_effect_are_reported_once() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    let aws = |name: &str| format!("service.beta.kubernetes.io/aws-load-balancer-{name}");
    let (tags, policy) = (aws("additional-resource-tags"), aws("connection-idle-timeout"));
    let marked = annotated(
        load_balancer("a", json!({})),
        &[(&tags, "a=b"), (&policy, "never")],
    );
    fixture.apply(marked);
    let findings = |fixture: &Fixture| {
        let conditions = fixture.service("a").status.conditions;
        let findings = conditions
            .into_iter()
            .find(|condition| condition.kind == ANNOTATIONS_CONDITION);
        findings.map(|condition| condition.message)
    };
    assert_eq!(
        findings(&fixture),
        Some(format!(
            "annotation {policy} has the value \"never\", expected seconds from 1 to 4000; without effect outside of the \
             cloud: {tags}"
        ))
    );
    let reasons = fixture.reasons();
    assert!(reasons.contains(&"InvalidAnnotation") && reasons.contains(&"AnnotationsWithoutEffect"));
    // Other changes of the Service and a restart do not repeat the report.
    let mut changed = fixture.service("a");
    changed.spec.session_affinity = "ClientIP".to_owned();
    fixture.apply(changed);
    assert_eq!(fixture.reasons(), ENSURED);
    let mut after = Fixture::with_pool(&["192.0.2.0/24"]);
    after.apply(fixture.service("a"));
    assert_eq!(after.reasons(), [""; 0]);
    let corrected = annotated(fixture.service("a"), &[]);
    fixture.apply(corrected);
    assert_eq!(findings(&fixture), None);
    assert_eq!(fixture.reasons(), ENSURED);
}

/// CCM-08: changes with Events.
#[test]
fn changes_of_the_load_balancer_are_reported() {
    let mut fixture = Fixture::with_pool(&["192.0.2.0/24"]);
    fixture.apply(load_balancer("a", json!({})));
    fixture.reasons();
    let mut change = |change: fn(&mut Service)| {
        let mut service = fixture.service("a");
        change(&mut service);
        fixture.apply(service);
        fixture.reasons()
    };
    let ensured = |first: &[&'static str]| [first, &ENSURED].concat();
    assert_eq!(
        change(|service| service.spec.load_balancer_source_ranges = vec!["192.0.2.0/24".to_owned()]),
        ensured(&["LoadBalancerSourceRanges"])
    );
    assert_eq!(
        change(|service| service.spec.external_traffic_policy = "Local".to_owned()),
        ensured(&["ExternalTrafficPolicy"])
    );
    assert_eq!(
        change(|service| service.spec.health_check_node_port = 30_000),
        ensured(&["HealthCheckNodePort"])
    );
    assert_eq!(
        change(|service| service.spec.external_ips = vec!["192.0.2.9".to_owned()]),
        ensured(&["ExternalIP", "ExternalIP"])
    );
    assert_eq!(change(|service| service.spec.ports[0].port = 81), ensured(&[]));
    // The selector does not concern the load balancer.
    assert_eq!(
        change(|service| service.spec.selector = [("a".to_owned(), "b".to_owned())].into()),
        [""; 0]
    );
}
