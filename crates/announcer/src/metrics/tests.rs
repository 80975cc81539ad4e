use super::*;
use crate::egress::plan::EgressFault;

/// LBM-17: MetalLB's names and labels.
#[test]
fn messages_are_counted_for_owned_addresses() {
    let metrics = Metrics::default();
    let (owned, other): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    metrics.set_owned(owned, true);
    for address in [owned, other] {
        metrics.count_message(address, Message::Request);
    }
    metrics.count_message(owned, Message::Response);
    let lines = || {
        let text = metrics.render();
        assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
        let lines = text
            .lines()
            .filter(|line| line.starts_with("metallb_") || line.starts_with("portolan_announcer_requests"));
        lines.map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(
        lines(),
        [
            "portolan_announcer_requests_received_total 2",
            "metallb_layer2_requests_received{ip=\"192.0.2.1\"} 1",
            "metallb_layer2_responses_sent{ip=\"192.0.2.1\"} 1",
            "metallb_layer2_gratuitous_sent{ip=\"192.0.2.1\"} 0",
        ]
    );
    metrics.set_owned(owned, false);
    assert_eq!(lines(), ["portolan_announcer_requests_received_total 2"]);
}

#[test]
fn services_with_egress_are_ready_without_a_fault() {
    let metrics = Metrics::default();
    let key = |name: &str| ObjectKey::new("shop", name);
    let lines = || {
        let text = metrics.render();
        assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
        let lines = text
            .lines()
            .filter(|line| line.starts_with("portolan_announcer_egress_ready"));
        lines.map(str::to_owned).collect::<Vec<String>>()
    };
    assert!(lines().is_empty());
    metrics.set_egress_services(&BTreeMap::from([
        (key("mail"), ServiceEgress::Fault(EgressFault::TooManyPods)),
        (key("web"), ServiceEgress::Applied(BTreeSet::new())),
    ]));
    assert_eq!(
        lines(),
        [
            "portolan_announcer_egress_ready{namespace=\"shop\",service=\"mail\"} 0",
            "portolan_announcer_egress_ready{namespace=\"shop\",service=\"web\"} 1",
        ]
    );
    metrics.set_egress_services(&BTreeMap::new());
    assert!(lines().is_empty());
}

#[test]
fn deprecated_names_have_the_values_of_their_replacements() {
    let metrics = Metrics::default();
    Metrics::add(&metrics.flushed, 3);
    metrics.set_forwarded(2);
    metrics.set_forwarding_unavailable(vec!["IPv6".to_owned()]);
    let text = metrics.render();
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    for (value, names) in [
        (
            3,
            ["conntrack_entries_flushed_total", "connections_forgotten_total"],
        ),
        (2, ["forwarded_addresses", "led_addresses"]),
        (1, ["families_not_forwarded", "families_not_led"]),
    ] {
        for name in names {
            let line = format!("portolan_announcer_{name} {value}");
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }
}
