use super::*;

fn address(ip: &str, services: &[&str], candidates: usize) -> AddressStatus {
    AddressStatus {
        ip: ip.parse().expect("an address"),
        node: None,
        forwarded_to: None,
        withheld: None,
        candidates,
        services: services.iter().map(ToString::to_string).collect(),
        waits_for_edge: false,
    }
}

fn member(node: &str, is_this: bool, is_reachable: bool) -> MemberStatus {
    MemberStatus {
        node: node.into(),
        address: "192.0.2.1:7947".parse().expect("an address"),
        is_this,
        is_joining: false,
        probe_age_milliseconds: None,
        is_reachable,
        is_leaving: false,
    }
}

#[test]
fn metrics_show_members_and_addresses_of_services() {
    let status = Status {
        is_quorate: true,
        members: vec![member("node-1", true, true), member("node-2", false, false)],
        forwarding_unavailable: Vec::new(),
        addresses: vec![
            address("192.0.2.10", &["shop/web", "shop/dns"], 2),
            address("192.0.2.11", &["shop/api"], 0),
            address("192.0.2.12", &[], 2),
        ],
    };
    let owned = ["192.0.2.10".parse().expect("an address")].into();
    let mut text = MetricsText::default();
    status.write_metrics(&owned, &mut text);
    let text = text.finish();
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        samples,
        [
            "portolan_announcer_quorate 1",
            "portolan_announcer_members{state=\"reachable\"} 1",
            "portolan_announcer_members{state=\"suspected\"} 1",
            "portolan_announcer_assigned{ip=\"192.0.2.10\"} 2",
            "portolan_announcer_assigned{ip=\"192.0.2.11\"} 0",
            "metallb_speaker_announced{ip=\"192.0.2.10\",node=\"node-1\",protocol=\"layer2\",service=\"shop/web\"} 1",
            "metallb_speaker_announced{ip=\"192.0.2.10\",node=\"node-1\",protocol=\"layer2\",service=\"shop/dns\"} 1",
        ]
    );
}
