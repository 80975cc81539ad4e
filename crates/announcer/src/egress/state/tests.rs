use netlink::route::LinkIndex;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn routed(node: &str, gateway: &str) -> PodEgress {
    PodEgress::Routed {
        node: NodeName::from(node),
        route: Action::ViaOnLink {
            gateway: ip(gateway),
            link: LinkIndex(7),
        },
    }
}

fn plan(pods: &[(&str, PodEgress)]) -> EgressPlan {
    EgressPlan {
        pods: pods
            .iter()
            .map(|(pod, egress)| (ip(pod), egress.clone()))
            .collect(),
        ..EgressPlan::default()
    }
}

#[test]
fn routed_pods_keep_their_address_and_owners_their_number() {
    let mut numbers = OwnerNumbers::default();
    let first = plan(&[
        ("10.244.1.7", routed("n2", "192.0.2.2")),
        ("10.244.1.8", PodEgress::Translated(ip("192.0.2.100"))),
        ("10.244.1.9", PodEgress::Blocked),
    ]);
    let before = EgressState::new(&first, &mut numbers);
    assert_eq!(before.sources[&ip("10.244.1.7")], ip("10.244.1.7"));
    assert_eq!(before.sources[&ip("10.244.1.8")], ip("192.0.2.100"));
    assert_eq!(before.blocked, BTreeSet::from([ip("10.244.1.9")]));
    let number = before.routed[&ip("10.244.1.7")];
    assert_eq!(OwnerNumber::of_table(number.table()), Some(number));
    assert_eq!(number.mark() & 0xc000, 0);
    let second = plan(&[
        ("10.244.1.7", routed("n1", "192.0.2.1")),
        ("10.244.1.8", routed("n2", "192.0.2.2")),
        ("fd00:244:1::8", routed("n2", "2001:db8::2")),
    ]);
    let after = EgressState::new(&second, &mut numbers);
    assert_eq!(after.routed[&ip("10.244.1.8")], number);
    assert_ne!(after.routed[&ip("10.244.1.7")], number);
    assert_eq!(after.routes.len(), 3);
    // The Pod that was blocked has no egress any more.
    let changed = ["10.244.1.8", "10.244.1.9", "fd00:244:1::8"].map(ip);
    assert_eq!(after.changed_pods(&before), BTreeSet::from(changed));
    let blocked = EgressState::new(&plan(&[("10.244.1.7", PodEgress::Blocked)]), &mut numbers);
    let changed = after.changed_pods(&blocked);
    assert!(changed.contains(&ip("10.244.1.7")), "{changed:?}");
    let changed = blocked.changed_pods(&after);
    assert!(!changed.contains(&ip("10.244.1.7")), "{changed:?}");
}

#[test]
fn tables_of_other_programs_have_no_number() {
    for table in [
        RouteTable::MAIN,
        RouteTable(NUMBER_BASE),
        RouteTable(NUMBER_BASE + NUMBER_MAX + 1),
    ] {
        assert_eq!(OwnerNumber::of_table(table), None);
    }
}

#[test]
fn pods_of_owners_without_a_number_are_blocked() {
    let mut numbers = OwnerNumbers::default();
    for number in 0..NUMBER_MAX {
        assert!(numbers.number(&NodeName::from(number.to_string())).is_some());
    }
    let state = EgressState::new(
        &plan(&[("10.244.1.7", routed("one more", "192.0.2.2"))]),
        &mut numbers,
    );
    assert_eq!(state.blocked, BTreeSet::from([ip("10.244.1.7")]));
    assert!(state.sources.is_empty() && !state.is_empty());
}
