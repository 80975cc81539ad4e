use serde_json::{Value, json};

use super::*;
use crate::schema::Endpoint;
use crate::tests::test_plans::*;

/// Desired state of a plan, for observed endpoints.
struct Case {
    kind: &'static str,
    settings: Settings,
    features: Features,
    endpoints: Vec<Endpoint>,
    preserves: bool,
}

impl Case {
    fn new(kind: &'static str) -> Self {
        Self {
            kind,
            settings: settings(),
            features: features(),
            endpoints: vec![pod_endpoint(1, &[LOCAL_POD])],
            preserves: false,
        }
    }

    fn desired(&self, plan: &Plan) -> Desired {
        let network = HnsNetwork::read(&network(self.kind));
        let preserving = if self.preserves {
            HashSet::from([key("web")])
        } else {
            HashSet::new()
        };
        Planner {
            settings: &self.settings,
            network: &network,
            features: self.features,
            endpoints: &EndpointIndex::new(&self.endpoints, &network.id),
        }
        .desired(plan, &preserving)
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn of_kind(desired: &Desired, kind: BalancerKind) -> Option<&Balancer> {
    desired.balancers.values().find(|balancer| balancer.kind == kind)
}

/// Addresses of the endpoints of a load balancer; empty if there is no such load balancer.
fn members(desired: &Desired, kind: BalancerKind) -> Vec<String> {
    let found = of_kind(desired, kind)
        .into_iter()
        .flat_map(|balancer| &balancer.members);
    let text = |member: &Member| match member {
        Member::Address(address) => address.to_string(),
        Member::Endpoint(id) => id.as_str().to_owned(),
    };
    found.map(text).collect()
}

/// A Service with all kinds of frontends.
fn all_kinds(more: &Value) -> Value {
    let mut spec = json!({
        "type": "LoadBalancer", "externalIPs": ["192.0.2.1"],
        "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080, "nodePort": 30080}],
    });
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

const EXTERNAL: [BalancerKind; 3] = [
    BalancerKind::NodePort,
    BalancerKind::ExternalIp,
    BalancerKind::LoadBalancerIp,
];

#[test]
fn cluster_ip_has_local_and_remote_endpoints() {
    let desired = Case::new("L2Bridge").desired(&web(&json!({}), &json!({})));
    let balancer = of_kind(&desired, BalancerKind::ClusterIp).unwrap();
    assert_eq!(desired.balancers.len(), 1);
    assert_eq!(
        members(&desired, BalancerKind::ClusterIp),
        [LOCAL_POD, REMOTE_POD]
    );
    assert_eq!(
        balancer.key,
        BalancerKey {
            family: Family::V4,
            vip: Some(ip(CLUSTER_IP)),
            protocol: 6,
            port: 80,
        }
    );
    assert_eq!(
        (balancer.internal_port, balancer.flags, balancer.mapping_flags),
        (8080, 0, 0)
    );
    assert_eq!(balancer.source_vip, None);
    assert!(desired.faults.is_empty());
}

#[test]
fn bridged_network_needs_remote_endpoints_only() {
    let desired = Case::new("L2Bridge").desired(&web(&json!({}), &json!({})));
    let expected = NewEndpoint {
        address: ip(REMOTE_POD),
        mac: "02-11-0a-f4-02-07".parse().unwrap(),
        provider_address: None,
        is_remote: true,
    };
    assert_eq!(desired.new_endpoints, [expected]);
    assert_eq!(
        desired.used_addresses,
        BTreeSet::from([ip(LOCAL_POD), ip(REMOTE_POD)])
    );
}

#[test]
fn overlay_network_needs_source_vip_cluster_ip_and_remote_hosts() {
    let desired = Case::new("Overlay").desired(&web(&json!({}), &json!({})));
    let host = settings().host_mac.unwrap();
    let endpoint = |address, mac, provider: Option<&str>, is_remote| NewEndpoint {
        address: ip(address),
        mac,
        provider_address: provider.map(ip),
        is_remote,
    };
    assert_eq!(
        desired.new_endpoints,
        [
            endpoint(SOURCE_VIP, host, None, false),
            endpoint(CLUSTER_IP, host, Some(NODE_IP), true),
            endpoint(
                REMOTE_POD,
                MacAddress::of_remote_endpoint(ip(REMOTE_POD)),
                Some("172.30.0.12"),
                true
            ),
        ]
    );
    let balancer = of_kind(&desired, BalancerKind::ClusterIp).unwrap();
    assert_eq!(balancer.source_vip, Some(ip(SOURCE_VIP)));
}

#[test]
fn hosts_and_outside_addresses_need_the_source_address_of_the_node() {
    for outside in ["172.30.0.12", "192.0.2.77"] {
        let mut plan = web(&json!({}), &json!({}));
        put_endpoints(
            &mut plan,
            "web",
            &[(LOCAL_POD, "node-a", ready()), (outside, "", ready())],
        );
        plan.take_changes();
        let desired = Case::new("Overlay").desired(&plan);
        let balancer = of_kind(&desired, BalancerKind::ClusterIp).unwrap();
        assert_eq!(balancer.source_vip, Some(ip(NODE_IP)), "{outside}");
        let created = desired
            .new_endpoints
            .iter()
            .find(|new| new.address == ip(outside));
        let provider = if outside == "172.30.0.12" {
            outside
        } else {
            NODE_IP
        };
        assert_eq!(created.unwrap().provider_address, Some(ip(provider)));
    }
}

#[test]
fn all_frontends_have_the_flags_of_upstream() {
    let mut case = Case::new("L2Bridge");
    case.settings.enable_dsr = true;
    let desired = case.desired(&web(&all_kinds(&json!({})), &ingress("198.51.100.1")));
    let mut found: Vec<_> = desired
        .balancers
        .values()
        .map(|of| (of.key.vip, of.key.port, of.flags, of.mapping_flags))
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            (None, 30080, 0, 18),
            (Some(ip(CLUSTER_IP)), 80, 1, 0),
            (Some(ip("192.0.2.1")), 80, 0, 16),
            (Some(ip("198.51.100.1")), 80, 0, 16),
        ]
    );
    for kind in EXTERNAL {
        assert_eq!(members(&desired, kind), [LOCAL_POD, REMOTE_POD], "{kind:?}");
    }
}

#[test]
fn external_policy_local_uses_local_endpoints_and_direct_server_return() {
    let spec = all_kinds(&json!({"externalTrafficPolicy": "Local"}));
    let desired = Case::new("L2Bridge").desired(&web(&spec, &ingress("198.51.100.1")));
    for kind in EXTERNAL {
        assert_eq!(members(&desired, kind), [LOCAL_POD], "{kind:?}");
        assert_eq!(of_kind(&desired, kind).unwrap().flags, 1, "{kind:?}");
    }
    assert_eq!(
        members(&desired, BalancerKind::ClusterIp),
        [LOCAL_POD, REMOTE_POD]
    );
}

#[test]
fn external_policy_local_without_local_endpoints_has_no_load_balancer() {
    let spec = all_kinds(&json!({"externalTrafficPolicy": "Local"}));
    let mut plan = web(&spec, &ingress("198.51.100.1"));
    put_endpoints(&mut plan, "web", &[(REMOTE_POD, "node-b", ready())]);
    plan.take_changes();
    let desired = Case::new("L2Bridge").desired(&plan);
    assert_eq!(desired.balancers.len(), 1);
    assert_eq!(members(&desired, BalancerKind::ClusterIp), [REMOTE_POD]);
}

#[test]
fn internal_policy_local_uses_local_endpoints() {
    let spec = all_kinds(&json!({"internalTrafficPolicy": "Local"}));
    let desired = Case::new("L2Bridge").desired(&web(&spec, &ingress("198.51.100.1")));
    assert_eq!(members(&desired, BalancerKind::ClusterIp), [LOCAL_POD]);
    assert_eq!(members(&desired, BalancerKind::NodePort), [LOCAL_POD, REMOTE_POD]);
}

#[test]
fn both_policies_local_need_no_remote_endpoint() {
    let spec = all_kinds(&json!({"internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local"}));
    let desired = Case::new("L2Bridge").desired(&web(&spec, &ingress("198.51.100.1")));
    assert_eq!((desired.balancers.len(), desired.new_endpoints.len()), (4, 0));
}

#[test]
fn preserved_destination_uses_local_endpoints_for_external_traffic() {
    let mut case = Case::new("L2Bridge");
    case.preserves = true;
    let desired = case.desired(&web(&all_kinds(&json!({})), &ingress("198.51.100.1")));
    assert_eq!(members(&desired, BalancerKind::NodePort), [LOCAL_POD]);
    assert_eq!(members(&desired, BalancerKind::LoadBalancerIp), [LOCAL_POD]);
    assert_eq!(
        members(&desired, BalancerKind::ExternalIp),
        [LOCAL_POD, REMOTE_POD]
    );
    let balancer = of_kind(&desired, BalancerKind::LoadBalancerIp).unwrap();
    assert_eq!((balancer.flags, balancer.mapping_flags), (1, 28));
    assert!(desired.faults.is_empty());

    case.features.dsr = false;
    let desired = case.desired(&web(&all_kinds(&json!({})), &ingress("198.51.100.1")));
    assert_eq!(members(&desired, BalancerKind::NodePort), [LOCAL_POD, REMOTE_POD]);
}

#[test]
fn annotation_of_preserved_destinations_is_read() {
    let service = |value: &str| {
        serde_json::from_value::<Service>(json!({
            "metadata": {"annotations": {"preserve-destination": value}},
        }))
        .unwrap()
    };
    assert!(preserves_destination(&service("true")));
    assert!(!preserves_destination(&service("True")) && !preserves_destination(&Service::default()));
}

#[test]
fn affinity_distributes_by_the_clients_address() {
    let plan = web(&json!({"sessionAffinity": "ClientIP"}), &json!({}));
    let mut case = Case::new("L2Bridge");
    let distribution = |desired: &Desired| of_kind(desired, BalancerKind::ClusterIp).unwrap().distribution;
    assert_eq!(distribution(&case.desired(&plan)), DISTRIBUTION_SOURCE_IP);
    case.features.session_affinity = false;
    let desired = case.desired(&plan);
    assert_eq!(distribution(&desired), DISTRIBUTION_CONNECTION);
    let service = key("web");
    assert_eq!(
        desired.faults,
        BTreeSet::from([Fault::AffinityNotSupported { service }])
    );
}

#[test]
fn terminating_endpoints_serve_if_none_is_ready() {
    let spec = all_kinds(&json!({}));
    let mut plan = web(&spec, &ingress("198.51.100.1"));
    put_endpoints(
        &mut plan,
        "web",
        &[
            (LOCAL_POD, "node-a", terminating()),
            (REMOTE_POD, "node-b", ready()),
        ],
    );
    plan.take_changes();
    let case = Case::new("L2Bridge");
    assert_eq!(
        members(&case.desired(&plan), BalancerKind::LoadBalancerIp),
        [REMOTE_POD]
    );
    put_endpoints(
        &mut plan,
        "web",
        &[
            (LOCAL_POD, "node-a", terminating()),
            (
                REMOTE_POD,
                "node-b",
                json!({"ready": false, "serving": false, "terminating": true}),
            ),
        ],
    );
    plan.take_changes();
    assert_eq!(
        members(&case.desired(&plan), BalancerKind::LoadBalancerIp),
        [LOCAL_POD]
    );
}

#[test]
fn services_without_endpoints_have_a_remote_endpoint_in_overlays_only() {
    let mut plan = empty_plan();
    put_service(&mut plan, "web", &[CLUSTER_IP], &json!({}), &json!({}));
    plan.take_changes();
    let bridged = Case::new("L2Bridge").desired(&plan);
    assert!(bridged.balancers.is_empty() && bridged.new_endpoints.is_empty());
    let overlay = Case::new("Overlay").desired(&plan);
    assert!(overlay.balancers.is_empty());
    assert_eq!(
        overlay.used_addresses,
        BTreeSet::from([ip(SOURCE_VIP), ip(CLUSTER_IP)])
    );
}

#[test]
fn missing_endpoint_of_a_local_pod_is_a_fault_and_never_created() {
    let mut case = Case::new("L2Bridge");
    case.endpoints.clear();
    let desired = case.desired(&web(&json!({}), &json!({})));
    assert_eq!(members(&desired, BalancerKind::ClusterIp), [REMOTE_POD]);
    assert_eq!(desired.new_endpoints.len(), 1);
    let (service, address) = (key("web"), ip(LOCAL_POD));
    assert_eq!(
        desired.faults,
        BTreeSet::from([Fault::LocalEndpointMissing { service, address }])
    );
}

#[test]
fn endpoints_without_node_are_remote_outside_of_the_subnets_of_the_node() {
    let mut plan = web(&json!({}), &json!({}));
    put_endpoints(
        &mut plan,
        "web",
        &[("10.244.1.99", "", ready()), ("192.0.2.77", "", ready())],
    );
    plan.take_changes();
    let desired = Case::new("L2Bridge").desired(&plan);
    assert_eq!(members(&desired, BalancerKind::ClusterIp), ["192.0.2.77"]);
    assert_eq!(desired.faults.len(), 1);
}

#[test]
fn endpoints_with_another_port_are_left_out() {
    let mut plan = web(&json!({}), &json!({}));
    let slice = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "other", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 9090}],
        "endpoints": [{"addresses": [SECOND_REMOTE_POD], "nodeName": "node-b"}],
    }))
    .unwrap();
    plan.apply_slice(&slice);
    plan.take_changes();
    let desired = Case::new("L2Bridge").desired(&plan);
    assert_eq!(
        members(&desired, BalancerKind::ClusterIp),
        [LOCAL_POD, REMOTE_POD]
    );
    let expected = Fault::OtherPort {
        service: key("web"),
        endpoint: format!("{SECOND_REMOTE_POD}:9090").parse().unwrap(),
        expected: 8080,
    };
    assert_eq!(desired.faults, BTreeSet::from([expected]));
}

#[test]
fn source_ranges_and_port_ranges_are_faults() {
    let spec = all_kinds(&json!({"loadBalancerSourceRanges": ["203.0.113.0/24"]}));
    let desired = Case::new("L2Bridge").desired(&web(&spec, &ingress("198.51.100.1")));
    let service = key("web");
    assert_eq!(
        desired.faults,
        BTreeSet::from([Fault::SourceRangesNotSupported { service }])
    );
    assert_eq!(desired.balancers.len(), 4);
}

#[test]
fn both_families_have_load_balancers_of_their_own() {
    let mut plan = empty_plan();
    let spec = all_kinds(&json!({"externalIPs": []}));
    put_service(
        &mut plan,
        "web",
        &[CLUSTER_IP, "fd00:10:96::10"],
        &spec,
        &json!({}),
    );
    put_endpoints(&mut plan, "web", &[(LOCAL_POD, "node-a", ready())]);
    put_endpoints(&mut plan, "web", &[("fd00:244:1::7", "node-a", ready())]);
    plan.take_changes();
    let mut case = Case::new("L2Bridge");
    case.endpoints = vec![pod_endpoint(1, &[LOCAL_POD, "fd00:244:1::7"])];
    let desired = case.desired(&plan);
    let found: Vec<_> = desired
        .balancers
        .values()
        .map(|of| (of.key.family, of.kind, of.flags))
        .collect();
    assert_eq!(
        found,
        [
            (Family::V4, BalancerKind::NodePort, 0),
            (Family::V4, BalancerKind::ClusterIp, 0),
            (Family::V6, BalancerKind::NodePort, 2),
            (Family::V6, BalancerKind::ClusterIp, 2),
        ]
    );
    case.features.dual_stack = false;
    assert_eq!(case.desired(&plan).balancers.len(), 2);
}

#[test]
fn health_checks_are_forwarded_to_the_endpoint_of_the_host() {
    let mut host = pod_endpoint(9, &["10.244.1.1"]);
    host.name = "cbr0".to_owned();
    let mut case = Case::new("L2Bridge");
    case.endpoints.push(host.clone());
    let plan = web(&all_kinds(&json!({})), &ingress("198.51.100.1"));
    assert_eq!(of_kind(&case.desired(&plan), BalancerKind::HealthCheck), None);

    case.settings.forward_health_check_vip = true;
    let desired = case.desired(&plan);
    let check = of_kind(&desired, BalancerKind::HealthCheck).unwrap();
    assert_eq!((check.key.vip, check.key.port), (Some(ip("198.51.100.1")), 10256));
    assert_eq!(check.members, BTreeSet::from([Member::Endpoint(host.id)]));
    assert_eq!(
        (check.internal_port, check.flags, check.mapping_flags),
        (10256, 0, 0)
    );
    assert!(!desired.used_addresses.contains(&ip("10.244.1.1")));

    let local = all_kinds(&json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 31000}));
    let desired = case.desired(&web(&local, &ingress("198.51.100.1")));
    let check = of_kind(&desired, BalancerKind::HealthCheck).unwrap();
    assert_eq!((check.key.port, check.internal_port), (31000, 31000));

    case.endpoints.pop();
    assert_eq!(of_kind(&case.desired(&plan), BalancerKind::HealthCheck), None);
}

#[test]
fn port_of_a_service_precedes_that_of_a_health_check() {
    let mut case = Case::new("L2Bridge");
    let mut host = pod_endpoint(9, &["10.244.1.1"]);
    host.name = "cbr0".to_owned();
    case.endpoints.push(host);
    case.settings.forward_health_check_vip = true;
    case.settings.healthz_port = 80;
    let desired = case.desired(&web(&all_kinds(&json!({})), &ingress("198.51.100.1")));
    assert_eq!(of_kind(&desired, BalancerKind::HealthCheck), None);
    assert_eq!(
        members(&desired, BalancerKind::LoadBalancerIp),
        [LOCAL_POD, REMOTE_POD]
    );
}
