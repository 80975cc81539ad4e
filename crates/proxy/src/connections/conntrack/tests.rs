use netlink::conntrack::{Direction, TcpState};
use plan::Settings;
use serde_json::json;

use super::*;

fn flow(destination: &str, endpoint: &str, tcp_state: TcpState) -> Flow {
    let address = |text: &str| text.parse().expect("an address");
    Flow {
        protocol: 6,
        original: Direction {
            source: address("10.244.0.2:40000"),
            destination: address(destination),
        },
        reply: Direction {
            source: address(endpoint),
            destination: address("10.244.0.2:40000"),
        },
        counters: None,
        tcp_state: Some(tcp_state),
        expires_in_seconds: 0,
        began_at_nanoseconds: None,
        is_replied: true,
        is_assured: true,
        id: 0,
        zone: 0,
    }
}

/// A slice of one namespace may have the address of a Pod of another one.
#[test]
fn connections_reach_endpoints_of_their_own_service_only() {
    let mut plan = Plan::new(Settings::default());
    for (namespace, ip) in [("ours", "10.96.0.5"), ("theirs", "10.96.0.6")] {
        let service = json!({
            "metadata": {"namespace": namespace, "name": "web"},
            "spec": {"clusterIP": ip, "ports": [{"port": 80}]},
        });
        plan.apply_service(&serde_json::from_value(service).expect("a Service"));
    }
    plan.take_changes();
    let endpoint = "10.244.1.2".parse().expect("IP");
    let lost = HashSet::from([(ObjectKey::new("ours", "web"), endpoint)]);
    for (destination, endpoint, state, expected) in [
        ("10.96.0.5:80", "10.244.1.2:8080", TcpState::Established, true),
        ("10.96.0.6:80", "10.244.1.2:8080", TcpState::Established, false),
        ("10.96.0.5:80", "10.244.1.3:8080", TcpState::Established, false),
        ("10.96.0.5:80", "10.244.1.2:8080", TcpState::TimeWait, false),
        ("10.96.0.7:80", "10.244.1.2:8080", TcpState::Established, false),
        ("10.96.0.5:80", "10.96.0.5:80", TcpState::Established, false),
    ] {
        let flow = flow(destination, endpoint, state);
        assert_eq!(
            reaches_endpoint(&plan, &flow, &lost),
            expected,
            "{destination} {endpoint} {state:?}"
        );
    }
}
