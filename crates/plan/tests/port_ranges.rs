//! Port ranges of Services: decisions about packets, conflicts, changes.

use api::object::{EndpointSlice, ObjectKey, Protocol, Service};
use plan::{Fault, NodeFacts, Packet, Plan, PodDetection, Settings, Verdict};
use serde_json::{Value, json};

const CLIENT: &str = "198.51.100.7";

fn plan() -> Plan {
    Plan::new(Settings {
        node_name: "node-a".to_owned(),
        pods: PodDetection::Ranges(vec!["10.244.0.0/16".parse().expect("CIDR")]),
        service_cidrs: vec!["10.96.0.0/16".parse().expect("CIDR")],
        ..Settings::default()
    })
}

/// A Service with the annotation, an external IP and a port 5060 of UDP; `order` is its age.
fn service(name: &str, order: u8, ranges: &str) -> Value {
    json!({
        "metadata": {"namespace": "ns", "name": name,
            "creationTimestamp": format!("2026-01-0{order}T00:00:00Z"),
            "annotations": {"service.portolan.dev/port-ranges": ranges}},
        "spec": {"type": "LoadBalancer", "clusterIP": format!("10.96.0.{order}"),
            "externalIPs": ["203.0.113.5"],
            "ports": [{"name": "sip", "protocol": "UDP", "port": 5060 + u16::from(order), "nodePort": 30000 + u16::from(order)}]},
    })
}

fn apply(plan: &mut Plan, service: &Value) {
    let service: Service = serde_json::from_value(service.clone()).expect("a Service");
    plan.apply_service(&service);
}

fn apply_slice(plan: &mut Plan, service: &str, addresses: &[&str]) {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| json!({"addresses": [address], "nodeName": "node-b"}))
        .collect();
    let slice = json!({
        "metadata": {"namespace": "ns", "name": format!("{service}-1"),
            "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "sip", "protocol": "UDP", "port": 6060}],
        "endpoints": endpoints,
    });
    let slice: EndpointSlice = serde_json::from_value(slice).expect("a slice");
    plan.apply_slice(&slice);
}

fn shown(plan: &Plan, destination: &str, protocol: Protocol, port: u16) -> String {
    let packet = Packet {
        source: CLIENT.parse().expect("IP"),
        destination: destination.parse().expect("IP"),
        port,
        protocol,
        interface: None,
    };
    plan.decide(&packet).to_string()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: "ns".into(),
        name: name.into(),
    }
}

#[test]
fn range_keeps_the_port_of_the_client() {
    let mut plan = plan();
    apply(&mut plan, &service("rtp", 1, "10000-20000/UDP"));
    apply_slice(&mut plan, "rtp", &["10.244.1.2"]);
    plan.take_changes();
    let expected = |port: u16| {
        format!("ns/rtp:*/udp by external IP, from outside: one of 10.244.1.2:{port} (masqueraded)")
    };
    for port in [10_000, 10_001, 20_000] {
        assert_eq!(shown(&plan, "203.0.113.5", Protocol::Udp, port), expected(port));
    }
    assert_eq!(
        shown(&plan, "203.0.113.5", Protocol::Udp, 20_001),
        "not a Service"
    );
    assert_eq!(
        shown(&plan, "203.0.113.5", Protocol::Tcp, 10_000),
        "not a Service"
    );
    assert_eq!(
        shown(&plan, "10.96.0.1", Protocol::Udp, 9_999),
        "rejected, the cluster IP does not have this port"
    );
    assert_eq!(
        shown(&plan, "10.96.0.1", Protocol::Udp, 12_000),
        "ns/rtp:*/udp by cluster IP, from outside: one of 10.244.1.2:12000 (masqueraded)"
    );
}

#[test]
fn named_port_precedes_a_range() {
    let mut plan = plan();
    apply(&mut plan, &service("rtp", 1, "all"));
    apply_slice(&mut plan, "rtp", &["10.244.1.2"]);
    plan.take_changes();
    let named = shown(&plan, "203.0.113.5", Protocol::Udp, 5061);
    assert!(
        named.starts_with("ns/rtp:sip/udp") && named.contains("10.244.1.2:6060"),
        "{named}"
    );
    for (protocol, port) in [
        (Protocol::Udp, 5062),
        (Protocol::Tcp, 5061),
        (Protocol::Sctp, 1),
        (Protocol::Tcp, 65_535),
    ] {
        let text = shown(&plan, "203.0.113.5", protocol, port);
        assert!(text.contains(&format!("10.244.1.2:{port}")), "{text}");
    }
}

#[test]
fn port_of_another_service_precedes_a_range() {
    let mut plan = plan();
    apply(&mut plan, &service("old", 1, "5000-6000/UDP"));
    apply(&mut plan, &service("new", 2, "7000/UDP"));
    apply_slice(&mut plan, "new", &["10.244.1.3"]);
    plan.take_changes();
    let text = shown(&plan, "203.0.113.5", Protocol::Udp, 5062);
    assert!(text.starts_with("ns/new:sip/udp"), "{text}");
    assert_eq!(plan.faults().count(), 0);
}

#[test]
fn range_without_endpoints_is_rejected() {
    let mut plan = plan();
    apply(&mut plan, &service("rtp", 1, "10000-20000/UDP"));
    plan.take_changes();
    assert_eq!(
        shown(&plan, "203.0.113.5", Protocol::Udp, 10_000),
        "ns/rtp:*/udp by external IP, from outside: rejected, the Service has no usable endpoint"
    );
}

#[test]
fn older_service_owns_an_overlapping_range() {
    let mut plan = plan();
    apply(&mut plan, &service("new", 2, "10500-11000/UDP,12000/UDP"));
    apply_slice(&mut plan, "new", &["10.244.1.3"]);
    plan.take_changes();
    assert_eq!(plan.faults().count(), 0);
    apply(&mut plan, &service("old", 1, "10000-10600/UDP"));
    apply_slice(&mut plan, "old", &["10.244.1.2"]);
    let changes = plan.take_changes();
    assert_eq!(changes.services, [key("new"), key("old")]);
    let faults: Vec<&Fault> = plan.faults_of(&key("new")).collect();
    assert_eq!(
        faults,
        [&Fault::RangeConflict {
            address: "203.0.113.5".parse().expect("IP"),
            first: 10_500,
            last: 11_000,
            protocol: Protocol::Udp,
            by: key("old"),
        }]
    );
    let at = |plan: &Plan, port| shown(plan, "203.0.113.5", Protocol::Udp, port);
    assert!(at(&plan, 10_550).starts_with("ns/old:"));
    assert_eq!(at(&plan, 10_700), "not a Service");
    assert!(at(&plan, 12_000).starts_with("ns/new:"));
    let gone: Vec<(u16, u16)> = changes
        .withdrawn
        .iter()
        .map(|gone| (gone.port, gone.last_port))
        .collect();
    assert_eq!(gone, [(10_500, 11_000)]);

    plan.remove_service(&key("old"));
    plan.take_changes();
    assert!(at(&plan, 10_700).starts_with("ns/new:"));
    assert_eq!(plan.faults().count(), 0);
}

#[test]
fn ranges_do_not_take_addresses_of_other_nodes() {
    let mut plan = plan();
    let mut service = service("web", 1, "all");
    service["spec"]["externalIPs"] = json!([]);
    service["status"] = json!({
        "loadBalancer": {"ingress": [{"ip": "192.0.2.20", "ipMode": "VIP"}]},
        "conditions": [{"type": "portolan.dev/AddressAssigned", "status": "True", "reason": "NodeAddresses"}],
    });
    apply(&mut plan, &service);
    apply_slice(&mut plan, "web", &["10.244.1.1"]);
    plan.take_changes();
    assert_eq!(shown(&plan, "192.0.2.20", Protocol::Tcp, 6443), "not a Service");
    service["status"]["conditions"] = json!([]);
    apply(&mut plan, &service);
    plan.take_changes();
    assert!(shown(&plan, "192.0.2.20", Protocol::Tcp, 6443).contains("10.244.1.1:6443"));
}

#[test]
fn ranges_do_not_take_addresses_of_the_node() {
    let mut plan = plan();
    apply(&mut plan, &service("rtp", 1, "all"));
    apply_slice(&mut plan, "rtp", &["10.244.1.2"]);
    let address = vec!["203.0.113.5".parse().expect("IP")];
    for (ips, addresses) in [(address.clone(), Vec::new()), (Vec::new(), address)] {
        plan.set_node(NodeFacts {
            zone: None,
            ips,
            addresses,
        });
        plan.take_changes();
        assert_eq!(shown(&plan, "203.0.113.5", Protocol::Tcp, 22), "not a Service");
    }
    assert!(shown(&plan, "10.96.0.1", Protocol::Tcp, 22).contains("10.244.1.2:22"));
    let faults: Vec<String> = plan.faults().map(|(_, fault)| fault.to_string()).collect();
    assert_eq!(
        faults,
        [
            "port ranges are not served at 203.0.113.5, which is an address of a node; use an address that no node has"
        ]
    );
}

#[test]
fn ranges_with_too_many_elements_are_not_served() {
    for (source_ranges, is_served) in [(30, true), (31, false)] {
        let mut plan = plan();
        let ranges: Vec<String> = (0..128)
            .map(|index| format!("{}/UDP", 10_000 + 2 * index))
            .collect();
        let mut service = service("rtp", 2, &ranges.join(","));
        let sources: Vec<String> = (0..source_ranges)
            .map(|index| format!("192.0.{index}.0/24"))
            .collect();
        service["spec"]["loadBalancerSourceRanges"] = json!(sources);
        service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.6"}]}});
        // One element for each of the cluster IP and the external IP, and one for each source range.
        let elements = 128 * (2 + source_ranges);
        apply(&mut plan, &service);
        apply_slice(&mut plan, "rtp", &["10.244.1.2"]);
        plan.take_changes();
        assert_eq!(plan.ranges_of(&key("rtp")).count(), usize::from(is_served));
        let faults: Vec<&Fault> = plan.faults_of(&key("rtp")).collect();
        let expected = Fault::RangeElements { elements };
        let expected: Vec<&Fault> = Some(&expected).filter(|_| !is_served).into_iter().collect();
        assert_eq!(faults, expected);
    }
}

/// EPT-22: the annotation has the same effect on ranges as on ports.
#[test]
fn flows_of_a_range_to_unready_endpoints_continue_with_the_annotation() {
    for keeps in [true, false] {
        let mut plan = plan();
        let mut service = service("rtp", 1, "10000-20000/UDP");
        service["metadata"]["annotations"]["service.portolan.dev/keep-unready-flows"] =
            json!(keeps.to_string());
        apply(&mut plan, &service);
        let slice = json!({
            "metadata": {"namespace": "ns", "name": "rtp-1", "labels": {"kubernetes.io/service-name": "rtp"}},
            "addressType": "IPv4", "ports": [{"name": "sip", "protocol": "UDP", "port": 6060}],
            "endpoints": [{"addresses": ["10.244.1.2"], "conditions": {"ready": false, "serving": false}}],
        });
        let slice: EndpointSlice = serde_json::from_value(slice).expect("a slice");
        plan.apply_slice(&slice);
        plan.take_changes();
        let endpoint = "10.244.1.2:10001".parse().expect("address and port");
        let serves: Vec<bool> = plan
            .ranges_of(&key("rtp"))
            .map(|range| range.serves(endpoint, 10_001))
            .collect();
        assert_eq!(serves, [keeps]);
    }
}

#[test]
fn source_ranges_restrict_a_range() {
    let mut plan = plan();
    let mut service = service("rtp", 1, "10000-20000/UDP");
    service["spec"]["loadBalancerSourceRanges"] = json!(["192.0.2.0/24"]);
    service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.6"}]}});
    apply(&mut plan, &service);
    apply_slice(&mut plan, "rtp", &["10.244.1.2"]);
    plan.take_changes();
    let text = shown(&plan, "203.0.113.6", Protocol::Udp, 10_000);
    assert!(
        text.ends_with("dropped, the source is in no load balancer source range"),
        "{text}"
    );
}

#[test]
fn invalid_annotation_is_a_fault_and_changes_nothing_else() {
    let mut plan = plan();
    apply(&mut plan, &service("rtp", 1, "20000-10000/UDP"));
    apply_slice(&mut plan, "rtp", &["10.244.1.2"]);
    plan.take_changes();
    let faults: Vec<&Fault> = plan.faults_of(&key("rtp")).collect();
    assert!(matches!(faults[..], [Fault::Annotation { .. }]), "{faults:?}");
    assert!(shown(&plan, "203.0.113.5", Protocol::Udp, 5061).contains("10.244.1.2:6060"));
    assert_eq!(plan.ranges().count(), 0);
}

#[test]
fn flow_is_served_at_its_own_port_only() {
    let mut plan = plan();
    apply(&mut plan, &service("rtp", 1, "10000-20000/UDP"));
    apply_slice(&mut plan, "rtp", &["10.244.1.2"]);
    plan.take_changes();
    let ranges: Vec<_> = plan.ranges_of(&key("rtp")).collect();
    let [range] = ranges[..] else {
        panic!("one entry for UDP, not {ranges:?}");
    };
    let endpoint = |text: &str| text.parse().expect("address and port");
    assert!(range.serves(endpoint("10.244.1.2:10001"), 10_001));
    assert!(!range.serves(endpoint("10.244.1.2:10002"), 10_001));
    assert!(!range.serves(endpoint("10.244.1.3:10001"), 10_001));
    let verdict = plan.decide(&Packet {
        source: CLIENT.parse().expect("IP"),
        destination: "203.0.113.5".parse().expect("IP"),
        port: 10_001,
        protocol: Protocol::Udp,
        interface: None,
    });
    assert!(matches!(verdict.verdict, Verdict::Balanced { .. }));
}
