use api::object::{Condition, LoadBalancerIngress};
use serde_json::{Value, json};

use super::judge::said_by;
use super::*;
use crate::edge_report::PortFault;

/// A core with a pool, which sees all that it writes.
struct Setting {
    core: Core,
    version: u64,
    /// Reasons of what was told, in order.
    told: Vec<&'static str>,
}

impl Setting {
    fn new() -> Self {
        let mut this = Self {
            core: Core::new(Options::default()),
            version: 1,
            told: Vec::new(),
        };
        this.core
            .namespace_applied(read(json!({"metadata": {"name": "default"}})));
        this.core
            .node_applied(&read(json!({"metadata": {"name": "node-1"}})));
        this
    }

    fn with_pool(addresses: &[&str]) -> Self {
        let mut this = Self::new();
        this.pool("p", addresses, json!({}));
        this.settle();
        this
    }

    fn settle(&mut self) {
        let work = self.core.settle();
        self.work_off(work);
    }

    fn pool(&mut self, name: &str, addresses: &[&str], more: Value) {
        let mut spec = more;
        spec["addresses"] = json!(addresses);
        let work = self
            .core
            .pool_applied(read(json!({"metadata": {"name": name}, "spec": spec})));
        self.work_off(work);
    }

    fn apply(&mut self, mut service: Service) {
        self.version += 1;
        service.metadata.resource_version = self.version.to_string();
        let work = self.core.service_applied(service);
        self.work_off(work);
    }

    /// Does what is to be done until nothing is, if the book may be used already.
    fn work_off(&mut self, mut work: Vec<Work>) {
        for _ in 0..1_000 {
            if !self.core.is_settled {
                return;
            }
            let Some(next) = work.pop() else { return };
            let Work::Service(key) = next else { continue };
            let (step, more) = self.core.look_at(&key);
            work.extend(more);
            let (Some(step), Some(service)) = (step, self.core.service(&key).cloned()) else {
                continue;
            };
            match self.written(service, &step) {
                Some(service) => work.extend(self.core.service_applied(service)),
                None => work.extend(self.core.service_deleted(&key)),
            }
        }
        panic!("there is always something to do");
    }

    /// The Service as it is when a step has been carried out; none if it is gone.
    fn written(&mut self, mut service: Service, step: &Step) -> Option<Service> {
        self.told
            .extend(step.before.iter().chain(&step.after).map(|told| told.reason));
        self.version += 1;
        service.metadata.resource_version = self.version.to_string();
        let finalizers = &mut service.metadata.finalizers;
        if step.adds_finalizer {
            finalizers.push(FINALIZER.to_owned());
        }
        if step.removes_finalizer {
            finalizers.retain(|name| name != FINALIZER);
            if service.metadata.deletion_timestamp.is_some() {
                return None;
            }
        }
        match &step.status {
            None => {}
            Some(StatusChange::Clear) => service.status = api::object::ServiceStatus::default(),
            Some(StatusChange::Say(assigned)) => {
                let ingress = assigned.addresses.iter().map(|ip| LoadBalancerIngress {
                    ip: ip.to_string(),
                    hostname: assigned.hostname.clone().unwrap_or_default(),
                    ip_mode: Some(assigned.mode.as_str().to_owned()),
                    ports: assigned.ports.get(ip).cloned().unwrap_or_default(),
                });
                service.status.load_balancer.ingress = ingress.collect();
                let condition = |kind: &str, is_true: bool, message: &str| Condition {
                    kind: kind.to_owned(),
                    status: if is_true { "True" } else { "False" }.to_owned(),
                    message: message.to_owned(),
                    ..Condition::default()
                };
                let why_not = &assigned.why_not;
                service.status.conditions = vec![condition(CONDITION, why_not.is_empty(), why_not)];
                if !assigned.remarks.is_empty() {
                    let remarks = condition(REMARKS_CONDITION, false, &assigned.remarks);
                    service.status.conditions.push(remarks);
                }
                if !assigned.unannounced.is_empty() {
                    let unannounced = condition(ANNOUNCED_CONDITION, false, &assigned.unannounced);
                    service.status.conditions.push(unannounced);
                }
            }
        }
        Some(service)
    }

    fn is(&self, name: &str) -> Service {
        self.core
            .service(&ObjectKey::new("default", name))
            .expect("the Service")
            .clone()
    }

    fn addresses(&self, name: &str) -> Vec<String> {
        addresses_of(&self.is(name))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn why_not(&self, name: &str) -> String {
        self.is(name)
            .status
            .conditions
            .first()
            .map(|c| c.message.clone())
            .unwrap_or_default()
    }

    fn told(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.told)
    }
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object")
}

fn balanced(name: &str, more: Value) -> Service {
    let mut spec = json!({
        "type": "LoadBalancer", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP"}],
    });
    for (field, value) in more.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    read(json!({"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": spec}))
}

const ENSURED: [&str; 2] = ["EnsuringLoadBalancer", "EnsuredLoadBalancer"];
const CLEANED: [&str; 2] = ["DeletingLoadBalancer", "DeletedLoadBalancer"];

#[test]
fn a_service_is_ensured_once() {
    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    setting.apply(balanced("a", json!({})));
    assert_eq!(setting.addresses("a"), ["192.0.2.0"]);
    assert!(has_finalizer(&setting.is("a")));
    assert_eq!(setting.told(), ENSURED);
    let same = setting.is("a");
    setting.apply(same);
    assert_eq!(setting.told(), [""; 0]);
    let (_, usage) = setting
        .core
        .pool_usage("p")
        .expect("another usage than the status says");
    assert_eq!((usage[0].total, usage[0].assigned), (256, 1));
}

#[test]
fn what_is_deleted_is_cleaned_up_and_frees_its_address() {
    let mut setting = Setting::with_pool(&["192.0.2.1/32"]);
    setting.apply(balanced("a", json!({})));
    setting.apply(balanced("b", json!({})));
    assert_eq!(
        setting.why_not("b"),
        "all addresses of family IPv4 are in use in p"
    );
    assert!(!has_finalizer(&setting.is("b")));
    setting.told();
    let mut going = setting.is("a");
    going.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
    setting.apply(going);
    assert!(setting.core.service(&ObjectKey::new("default", "a")).is_none());
    assert_eq!(setting.addresses("b"), ["192.0.2.1"]);
    assert_eq!(setting.told(), [CLEANED, ENSURED].concat());
}

#[test]
fn another_type_is_cleaned_up() {
    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    setting.apply(balanced("a", json!({})));
    setting.told();
    let mut other = setting.is("a");
    other.spec.kind = "ClusterIP".to_owned();
    setting.apply(other);
    assert_eq!(setting.is("a").status, api::object::ServiceStatus::default());
    assert!(!has_finalizer(&setting.is("a")));
    assert_eq!(setting.told(), [&["Type"][..], &CLEANED].concat());
    assert_eq!(setting.core.book.of("default/a"), [] as [IpAddr; 0]);
}

#[test]
fn classes() {
    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    setting.apply(balanced("a", json!({"loadBalancerClass": CLASS})));
    assert_eq!(setting.addresses("a"), ["192.0.2.0"]);
    setting.told();
    setting.apply(balanced("b", json!({"loadBalancerClass": "example.com/lb"})));
    assert_eq!(setting.told(), [""; 0]);
    setting.apply(balanced("c", json!({"loadBalancerClass": "portolan.dev/other"})));
    assert_eq!(setting.told(), ["SyncLoadBalancerFailed"]);
    assert!(
        setting
            .why_not("c")
            .starts_with("class portolan.dev/other is not served here")
    );

    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    setting.core.options.serves_default_class = false;
    // Another controller's: finalizer and addresses are left alone.
    let mut theirs = balanced("d", json!({}));
    theirs.metadata.finalizers.push(FINALIZER.to_owned());
    setting.apply(theirs);
    assert_eq!(setting.told(), [""; 0]);
    assert!(has_finalizer(&setting.is("d")));
}

#[test]
fn the_reason_is_told_once_and_again_when_it_changes() {
    let mut setting = Setting::new();
    setting.settle();
    setting.apply(balanced("a", json!({"ipFamilies": ["IPv6"]})));
    assert_eq!(
        setting.why_not("a"),
        "there is no AddressPool: create one with addresses of this network"
    );
    assert_eq!(setting.told(), ["SyncLoadBalancerFailed"]);
    let same = setting.is("a");
    setting.apply(same);
    assert_eq!(setting.told(), [""; 0]);
    setting.pool("p", &["192.0.2.0/24"], json!({}));
    assert_eq!(setting.why_not("a"), "no pool has an address of family IPv6");
    assert_eq!(setting.told(), ["SyncLoadBalancerFailed"]);
    setting.pool("q", &["2001:db8::/64"], json!({}));
    assert_eq!(setting.addresses("a"), ["2001:db8::"]);
    assert_eq!(setting.told(), ENSURED);
}

#[test]
fn pools_are_for_some_services_only() {
    let mut setting = Setting::new();
    setting.core.namespace_applied(read(
        json!({"metadata": {"name": "default", "labels": {"team": "a"}}}),
    ));
    let others = json!({"namespaceSelector": {"matchLabels": {"team": "b"}}});
    setting.pool("others", &["192.0.2.0/24"], others);
    setting.pool("inner", &["198.51.100.0/24"], json!({"scope": "Internal"}));
    setting.settle();
    setting.apply(balanced("a", json!({})));
    assert_eq!(setting.why_not("a"), "no pool has an address of family IPv4");
    let mut internal = balanced("b", json!({}));
    let annotation = "service.beta.kubernetes.io/aws-load-balancer-internal";
    internal
        .metadata
        .annotations
        .insert(annotation.to_owned(), "true".to_owned());
    setting.apply(internal);
    assert_eq!(setting.addresses("b"), ["198.51.100.0"]);
    let work = setting.core.namespace_applied(read(
        json!({"metadata": {"name": "default", "labels": {"team": "b"}}}),
    ));
    setting.work_off(work);
    assert_eq!(setting.addresses("a"), ["192.0.2.0"]);
}

#[test]
fn a_restart_keeps_every_address() {
    let mut before = Setting::with_pool(&["192.0.2.0/24"]);
    for name in ["a", "b", "c"] {
        before.apply(balanced(name, json!({})));
    }
    let mut after = Setting::new();
    // In another order, and with one that came meanwhile.
    after.apply(balanced("aa", json!({})));
    for name in ["c", "b", "a"] {
        after.apply(before.is(name));
    }
    after.pool("p", &["192.0.2.0/24"], json!({}));
    after.settle();
    for name in ["a", "b", "c"] {
        assert_eq!(after.addresses(name), before.addresses(name));
    }
    assert_eq!(after.addresses("aa"), ["192.0.2.3"]);
    assert_eq!(after.told(), ENSURED);
}

#[test]
fn nodes_are_told_of() {
    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    setting.apply(balanced("a", json!({})));
    setting.told();
    let work = setting
        .core
        .node_applied(&read(json!({"metadata": {"name": "node-2"}})));
    setting.work_off(work);
    assert_eq!(setting.told(), ["UpdatedLoadBalancer"]);
    let labels = json!({ EXCLUDE_LABEL: "" });
    for name in ["node-1", "node-2"] {
        let work = setting
            .core
            .node_applied(&read(json!({"metadata": {"name": name, "labels": labels}})));
        setting.work_off(work);
    }
    assert_eq!(setting.told(), ["UpdatedLoadBalancer", "UnAvailableLoadBalancer"]);
}

#[test]
fn it_is_said_that_no_node_may_announce_an_address() {
    let mut setting = Setting::new();
    let selectors = json!([{"matchLabels": {"role": "edge"}}, {"matchLabels": {"role": "dmz"}}]);
    setting.pool("p", &["192.0.2.0/24"], json!({ "nodeSelectors": selectors }));
    setting.settle();
    let unannounced = |setting: &Setting| said_by(&setting.is("a"), ANNOUNCED_CONDITION).to_owned();
    let label = |setting: &mut Setting, name: &str, labels: Value| {
        let node = json!({"metadata": {"name": name, "labels": labels}});
        let work = setting.core.node_applied(&read(node));
        setting.work_off(work);
    };
    setting.apply(balanced("a", json!({})));
    // It has its address all the same: nodes come and go.
    assert_eq!(setting.addresses("a"), ["192.0.2.0"]);
    assert_eq!(
        unannounced(&setting),
        "192.0.2.0 is announced by no node: none that takes traffic matches nodeSelectors of AddressPool \"p\""
    );
    let told = [
        "EnsuringLoadBalancer",
        "UnAvailableLoadBalancer",
        "EnsuredLoadBalancer",
    ];
    assert_eq!(setting.told(), told);
    let same = setting.is("a");
    setting.apply(same);
    label(&mut setting, "node-1", json!({"role": "none"}));
    assert_eq!(setting.told(), [""; 0], "it is told once");

    // A label, another node, a pool and an annotation are all news.
    label(&mut setting, "node-1", json!({"role": "dmz"}));
    assert_eq!(unannounced(&setting), "");
    label(&mut setting, "node-1", json!({"role": "dmz", EXCLUDE_LABEL: ""}));
    assert!(unannounced(&setting).contains("none that takes traffic"));
    setting.told();
    label(&mut setting, "node-2", json!({"role": "edge"}));
    assert_eq!(
        (unannounced(&setting), setting.told()),
        (String::new(), vec!["UpdatedLoadBalancer"])
    );
    let annotation = "service.beta.kubernetes.io/aws-load-balancer-target-node-labels";
    let chosen = annotated(setting.is("a"), &[(annotation, "zone=a")]);
    setting.apply(chosen);
    let text = unannounced(&setting);
    assert!(
        text.ends_with("of AddressPool \"p\" and what annotations say of nodes"),
        "{text}"
    );
    setting.pool("p", &["192.0.2.0/24"], json!({}));
    let text = unannounced(&setting);
    assert!(text.ends_with("matches what annotations say of nodes"), "{text}");
    label(&mut setting, "node-2", json!({"zone": "a"}));
    assert_eq!(unannounced(&setting), "");
}

#[test]
fn old_news_is_dropped() {
    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    setting.apply(balanced("a", json!({})));
    let mut old = balanced("a", json!({}));
    old.metadata.resource_version = "1".to_owned();
    assert!(setting.core.service_applied(old).is_empty());
    assert_eq!(setting.addresses("a"), ["192.0.2.0"]);
}

fn annotated(mut service: Service, annotations: &[(&str, &str)]) -> Service {
    let pairs = annotations
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    service.metadata.annotations = pairs.collect();
    service
}

#[test]
fn services_that_ask_for_the_edge_are_left_to_it() {
    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    setting.core.options.has_edges = true;
    let mode = |setting: &Setting, name: &str| {
        let ingress = setting.is(name).status.load_balancer.ingress;
        ingress.first().map(IngressMode::of)
    };
    setting.apply(balanced("a", json!({"loadBalancerClass": EDGE_CLASS})));
    assert_eq!(mode(&setting, "a"), Some(IngressMode::Proxy));
    setting.apply(balanced("b", json!({})));
    assert_eq!(mode(&setting, "b"), Some(IngressMode::Vip));
    setting.told();
    // Asked for later: the address stays.
    let asks = annotated(
        setting.is("b"),
        &[
            ("portolan.dev/edge-proxy-protocol", "v2"),
            ("portolan.dev/load-balancer-hostname", "b.example.com"),
        ],
    );
    setting.apply(asks);
    assert_eq!(mode(&setting, "b"), Some(IngressMode::Proxy));
    assert_eq!(
        setting.is("b").status.load_balancer.ingress[0].hostname,
        "b.example.com"
    );
    assert_eq!(setting.addresses("b"), ["192.0.2.1"]);
    assert_eq!(setting.told(), ENSURED);
    let again = setting.is("b");
    setting.apply(again);
    assert_eq!(setting.told(), [""; 0]);
}

#[test]
fn without_edges_it_is_said_that_one_is_missing() {
    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    setting.apply(balanced("a", json!({"loadBalancerClass": EDGE_CLASS})));
    assert_eq!(
        setting.why_not("a"),
        "class portolan.dev/edge is not served here: no node runs the edge, which `portolan balancer --edge` does"
    );
    setting.told();
    let asks = annotated(
        balanced("b", json!({})),
        &[("portolan.dev/edge-proxy-protocol", "v2")],
    );
    setting.apply(asks);
    assert_eq!(setting.addresses("b"), ["192.0.2.0"]);
    assert_eq!(
        setting.told(),
        ["EnsuringLoadBalancer", "InvalidAnnotation", "EnsuredLoadBalancer"]
    );
}

#[test]
fn withholds_the_address_when_a_restriction_needs_the_missing_edge() {
    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    let ranges = "service.beta.kubernetes.io/load-balancer-source-ranges";
    setting.apply(annotated(
        balanced("a", json!({})),
        &[(ranges, "198.51.100.0/24")],
    ));
    assert_eq!(setting.addresses("a"), [""; 0]);
    assert!(setting.why_not("a").contains(ranges), "{}", setting.why_not("a"));
    assert_eq!(setting.told(), ["SyncLoadBalancerFailed"]);
    let same = setting.is("a");
    setting.apply(same);
    assert_eq!(setting.told(), [""; 0], "it is told once");
    let mut mended = annotated(setting.is("a"), &[]);
    mended.spec.load_balancer_source_ranges = vec!["198.51.100.0/24".to_owned()];
    setting.apply(mended);
    assert_eq!(setting.addresses("a"), ["192.0.2.0"]);
}

#[test]
fn withdraws_the_address_when_a_restriction_becomes_unreadable() {
    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    setting.core.options.has_edges = true;
    let ranges = "service.beta.kubernetes.io/azure-allowed-ip-ranges";
    setting.apply(annotated(
        balanced("a", json!({})),
        &[(ranges, "198.51.100.0/24")],
    ));
    assert_eq!(setting.addresses("a"), ["192.0.2.0"]);
    let slipped = annotated(setting.is("a"), &[(ranges, "198.51.100.0/240")]);
    setting.apply(slipped);
    assert_eq!(setting.addresses("a"), [""; 0]);
    assert!(setting.why_not("a").contains(ranges), "{}", setting.why_not("a"));
    let mended = annotated(setting.is("a"), &[(ranges, "198.51.100.0/24")]);
    setting.apply(mended);
    assert_eq!(setting.addresses("a"), ["192.0.2.0"]);
}

#[test]
fn states_of_ports_are_as_edges_report_them() {
    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    setting.core.options.has_edges = true;
    let two =
        json!([{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 443, "protocol": "TCP"}]);
    setting.apply(balanced(
        "a",
        json!({"loadBalancerClass": EDGE_CLASS, "ports": two}),
    ));
    setting.apply(balanced("b", json!({})));
    setting.told();
    let states = |setting: &Setting, name: &str| -> Vec<(u16, Option<String>)> {
        let ingress = setting.is(name).status.load_balancer.ingress;
        let ports = ingress.into_iter().flat_map(|ingress| ingress.ports);
        ports.map(|state| (state.port, state.error)).collect()
    };
    let report = |setting: &mut Setting, node: &str, faulty: &[&str]| {
        let fault = |name: &&str| PortFault {
            namespace: "default".to_owned(),
            service: (*name).to_owned(),
            address: setting.addresses(name)[0].parse().expect("an address"),
            port: 443,
            protocol: api::object::Protocol::Tcp,
            error: "portolan.dev/CannotListen".to_owned(),
        };
        let report = faulty.iter().map(fault).collect();
        let work = setting.core.report_applied(node, report);
        setting.work_off(work);
    };
    let faulty = vec![(80, None), (443, Some("portolan.dev/CannotListen".to_owned()))];
    // Before all reports are read, nothing is changed.
    report(&mut setting, "node-1", &["a", "b"]);
    assert_eq!(states(&setting, "a"), []);
    let work = setting.core.reports_synced();
    setting.work_off(work);
    assert_eq!(states(&setting, "a"), faulty);
    assert_eq!(states(&setting, "b"), [], "node proxies serve it");
    assert_eq!(setting.told(), [""; 0]);
    report(&mut setting, "node-1", &[]);
    assert_eq!(states(&setting, "a"), []);
    // Nodes that do not announce the address are not believed.
    report(&mut setting, "stranger", &["a"]);
    assert_eq!(states(&setting, "a"), []);
    let selectors = json!([{"matchLabels": {"role": "edge"}}]);
    setting.pool("p", &["192.0.2.0/24"], json!({ "nodeSelectors": selectors }));
    report(&mut setting, "node-1", &["a"]);
    assert_eq!(states(&setting, "a"), []);
    let labels = json!({"role": "edge"});
    let node = json!({"metadata": {"name": "node-1", "labels": labels}});
    let work = setting.core.node_applied(&read(node));
    setting.work_off(work);
    assert_eq!(states(&setting, "a"), faulty);
}

#[test]
fn annotations_that_are_not_in_force_are_named_once() {
    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    let aws = |name: &str| format!("service.beta.kubernetes.io/aws-load-balancer-{name}");
    let (tags, policy) = (aws("additional-resource-tags"), aws("connection-idle-timeout"));
    let marked = annotated(balanced("a", json!({})), &[(&tags, "a=b"), (&policy, "never")]);
    setting.apply(marked);
    let remarks = |setting: &Setting| {
        let conditions = setting.is("a").status.conditions;
        let remarks = conditions.into_iter().find(|c| c.kind == REMARKS_CONDITION);
        remarks.map(|condition| condition.message)
    };
    assert_eq!(
        remarks(&setting),
        Some(format!(
            "annotation {policy} has the value \"never\", expected seconds from 1 to 4000; without meaning outside of the \
             cloud: {tags}"
        ))
    );
    let told = setting.told();
    assert!(told.contains(&"InvalidAnnotation") && told.contains(&"AnnotationsWithoutEffect"));
    // Once, also when the Service changes otherwise, and after a restart.
    let mut changed = setting.is("a");
    changed.spec.session_affinity = "ClientIP".to_owned();
    setting.apply(changed);
    assert_eq!(setting.told(), ENSURED);
    let mut after = Setting::with_pool(&["192.0.2.0/24"]);
    after.apply(setting.is("a"));
    assert_eq!(after.told(), [""; 0]);
    let mended = annotated(setting.is("a"), &[]);
    setting.apply(mended);
    assert_eq!(remarks(&setting), None);
    assert_eq!(setting.told(), ENSURED);
}

#[test]
fn changes_that_concern_the_load_balancer_are_told() {
    let mut setting = Setting::with_pool(&["192.0.2.0/24"]);
    setting.apply(balanced("a", json!({})));
    setting.told();
    let mut change = |change: fn(&mut Service)| {
        let mut service = setting.is("a");
        change(&mut service);
        setting.apply(service);
        setting.told()
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
    // What backends are is not its business.
    assert_eq!(
        change(|service| service.spec.selector = [("a".to_owned(), "b".to_owned())].into()),
        [""; 0]
    );
}
