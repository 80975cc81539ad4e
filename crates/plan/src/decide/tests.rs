use api::object::{Protocol, Service};

use super::*;
use crate::settings::{NodePortAddresses, PodDetection, Settings};

fn plan() -> Plan {
    let mut plan = Plan::new(Settings {
        node_name: "node-a".to_owned(),
        pods: PodDetection::Ranges(vec!["10.244.0.0/16".parse().expect("CIDR")]),
        service_cidrs: vec!["10.96.0.0/16".parse().expect("CIDR")],
        node_addresses: vec![
            "172.30.0.11".parse().expect("IP"),
            "10.244.1.1".parse().expect("IP"),
        ],
        ..Settings::default()
    });
    let service: Service = serde_json::from_str(
        r#"{"metadata":{"namespace":"ns","name":"web"},
            "spec":{"type":"NodePort","clusterIP":"10.96.0.5","ports":[{"port":80,"nodePort":30080}]}}"#,
    )
    .expect("a Service");
    plan.apply_service(&service);
    let slice = r#"{"metadata":{"namespace":"ns","name":"web-1","labels":{"kubernetes.io/service-name":"web"}},
        "addressType":"IPv4","ports":[{"name":"","port":8080}],
        "endpoints":[{"addresses":["10.244.1.2"],"nodeName":"node-a"}]}"#;
    plan.apply_slice(&serde_json::from_str(slice).expect("a slice"));
    plan.take_changes();
    plan
}

fn decision_text(plan: &Plan, source: &str, destination: &str, port: u16) -> String {
    let packet = Packet {
        source: source.parse().expect("IP"),
        destination: destination.parse().expect("IP"),
        port,
        protocol: Protocol::Tcp,
        interface: None,
    };
    plan.decide(&packet).to_string()
}

#[test]
fn decisions_print_readable_reasons() {
    let plan = plan();
    for (source, destination, port, expected) in [
        (
            "10.244.2.9",
            "10.96.0.5",
            80,
            "ns/web/tcp by cluster IP, from a Pod: one of 10.244.1.2:8080",
        ),
        (
            "172.30.0.11",
            "10.96.0.5",
            80,
            "ns/web/tcp by cluster IP, from this node: one of 10.244.1.2:8080 (masqueraded)",
        ),
        (
            "10.244.1.2",
            "10.96.0.5",
            80,
            "ns/web/tcp by cluster IP, from a Pod: one of 10.244.1.2:8080 (masqueraded)",
        ),
        (
            "10.244.1.1",
            "10.96.0.5",
            80,
            "ns/web/tcp by cluster IP, from a Pod: one of 10.244.1.2:8080",
        ),
        (
            "192.0.2.1",
            "172.30.0.11",
            30080,
            "ns/web/tcp by node port, from outside: one of 10.244.1.2:8080 (masqueraded)",
        ),
        (
            "192.0.2.1",
            "10.96.0.5",
            81,
            "rejected, the cluster IP does not have this port",
        ),
        (
            "192.0.2.1",
            "10.96.0.6",
            80,
            "dropped, no Service has this cluster IP",
        ),
        ("192.0.2.1", "172.30.0.12", 30080, "not a Service"),
        ("127.0.0.1", "127.0.0.1", 30080, "not a Service"),
    ] {
        assert_eq!(decision_text(&plan, source, destination, port), expected);
    }
}

/// EPT-15: a slice that an operator or another controller writes may lack the name of the node.
#[test]
fn endpoint_without_node_is_masqueraded_when_it_reaches_itself() {
    let mut plan = plan();
    let slice = |node: &str| {
        let text = r#"{"metadata":{"namespace":"ns","name":"web-1","labels":{"kubernetes.io/service-name":"web"}},
            "addressType":"IPv4","ports":[{"name":"","port":8080}],"endpoints":[{"addresses":["10.244.1.2"]NODE}]}"#;
        serde_json::from_str(&text.replace("NODE", node)).expect("a slice")
    };
    for (node, expected) in [
        (
            "",
            "ns/web/tcp by cluster IP, from a Pod: one of 10.244.1.2:8080 (masqueraded)",
        ),
        (
            r#","nodeName":"node-b""#,
            "ns/web/tcp by cluster IP, from a Pod: one of 10.244.1.2:8080",
        ),
    ] {
        plan.apply_slice(&slice(node));
        plan.take_changes();
        assert_eq!(decision_text(&plan, "10.244.1.2", "10.96.0.5", 80), expected);
    }
    let other = "ns/web/tcp by cluster IP, from a Pod: one of 10.244.1.2:8080";
    assert_eq!(decision_text(&plan, "10.244.1.3", "10.96.0.5", 80), other);
}

#[test]
fn node_ports_answer_on_selected_addresses() {
    let mut plan = plan();
    let addresses = plan.settings().node_addresses.clone();
    let within = NodePortAddresses::Within(vec!["172.30.0.0/24".parse().expect("CIDR")]);
    plan.set_node_addresses(addresses, within);
    assert!(plan.take_changes().needs_full_write);
    assert!(decision_text(&plan, "192.0.2.1", "172.30.0.11", 30080).contains("node port"));
    assert_eq!(
        decision_text(&plan, "192.0.2.1", "10.244.1.1", 30080),
        "not a Service"
    );
}
