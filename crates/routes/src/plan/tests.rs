#[path = "../../tests/machines/mod.rs"]
mod machines;

use machines::{created, ip, machine, net, settings};

use super::*;

const VXLAN: Network = Network::Vxlan { id: 1, port: 4789 };

/// The kernel after changes.
fn after(present: &Present, changes: &Changes) -> Present {
    let mut present = present.clone();
    present
        .routes
        .retain(|route| !changes.removed_routes.contains(route));
    present.routes.extend(changes.routes.iter().copied());
    if let Some(link) = &mut present.link {
        link.entries
            .retain(|entry| !changes.removed_entries.contains(entry));
        link.entries.extend(changes.entries.iter().copied());
        link.neighbours
            .retain(|router, _| !changes.removed_neighbours.contains(router));
        link.neighbours.extend(changes.neighbours.iter().copied());
        link.addresses
            .retain(|address| !changes.removed_addresses.contains(address));
        link.addresses.extend(changes.addresses.iter().copied());
    }
    present
}

#[test]
fn on_one_segment_the_others_are_the_routers() {
    let plan = Plan::new(&settings(Network::HostGw), &[machine(1), machine(2), machine(3)]);
    let expected = [
        (net("10.244.2.0/24"), ip("192.0.2.2")),
        (net("10.244.3.0/24"), ip("192.0.2.3")),
        (net("fd00:244:0:2::/64"), ip("2001:db8::2")),
        (net("fd00:244:0:3::/64"), ip("2001:db8::3")),
    ];
    assert_eq!(plan.routers, expected.into());
    assert!(plan.entries.is_empty() && plan.addresses.is_empty() && plan.doubts.is_empty());
}

#[test]
fn wrapped_packets_go_to_the_machine_whose_range_it_is() {
    let plan = Plan::new(&settings(VXLAN), &[machine(1), machine(2)]);
    let expected = [
        (net("10.244.2.0/24"), ip("10.244.2.0")),
        (net("fd00:244:0:2::/64"), ip("fd00:244:0:2::")),
    ];
    assert_eq!(plan.routers, expected.into());
    let ethernet = ethernet_of("n2");
    let neighbours = [(ip("10.244.2.0"), ethernet), (ip("fd00:244:0:2::"), ethernet)];
    assert_eq!(plan.neighbours, neighbours.into());
    let machine = ip("192.0.2.2");
    assert_eq!(plan.entries, [ForwardingEntry { ethernet, machine }].into());
    assert_eq!(plan.sources, [machine, ip("2001:db8::2")].into());
    assert_eq!(
        plan.addresses,
        [net("10.244.1.0/32"), net("fd00:244:0:1::/128")].into()
    );
    assert_ne!(ethernet_of("n1"), ethernet);
    assert_eq!(ethernet[0] & 3, 2, "a local address of one machine");
}

#[test]
fn no_node_takes_what_is_not_its_own() {
    let (mut greedy, mut thief) = (machine(2), machine(3));
    greedy.ranges = vec![net("0.0.0.0/0"), net("192.0.2.0/24")];
    thief.ranges = vec![net("10.244.1.0/24"), net("10.244.4.128/25"), net("10.244.3.0/24")];
    (greedy.created, thief.created) = (created(100), created(101));
    let machines = [thief, greedy, machine(4), machine(1)];
    let plan = Plan::new(&settings(Network::HostGw), &machines);
    let name = |number: u8| format!("n{number}");
    let doubts = [
        Doubt::Outside(name(2), net("0.0.0.0/0")),
        Doubt::Outside(name(2), net("192.0.2.0/24")),
        Doubt::Taken(name(3), net("10.244.1.0/24"), name(1)),
        Doubt::Taken(name(3), net("10.244.4.128/25"), name(4)),
    ];
    assert_eq!(plan.doubts, doubts.into());
    assert!(!plan.routers.contains_key(&net("10.244.1.0/24")));
}

#[test]
fn oldest_node_keeps_a_contested_range() {
    let contested = |created: Creation| Machine {
        ranges: vec![net("10.244.9.0/24")],
        created,
        ..machine(2)
    };
    let named = |name: &str, machine: Machine| Machine {
        name: name.to_owned(),
        ..machine
    };
    let time = Some("2026-01-01T00:00:00Z");
    for (younger, older) in [
        (created(2), created(1)),
        (Creation::new(time, "b"), Creation::new(time, "a")),
        (Creation::new(None, "a"), created(3000)),
    ] {
        let machines = [named("a", contested(younger)), named("z", contested(older))];
        let plan = Plan::new(&settings(Network::HostGw), &machines);
        let doubt = Doubt::Taken("a".to_owned(), net("10.244.9.0/24"), "z".to_owned());
        assert_eq!(plan.doubts, [doubt].into());
    }
}

#[test]
fn without_an_address_of_the_family_there_is_no_way() {
    let mut one_family = machine(2);
    one_family.addresses.truncate(1);
    let plan = Plan::new(&settings(Network::HostGw), std::slice::from_ref(&one_family));
    assert_eq!(plan.routers.len(), 1);
    assert_eq!(
        plan.doubts,
        [Doubt::NoAddress("n2".to_owned(), net("fd00:244:0:2::/64"))].into()
    );
    // Wrapped, both families go by the one address.
    assert_eq!(Plan::new(&settings(VXLAN), &[one_family]).routers.len(), 2);
}

#[test]
fn changes_lead_to_the_plan_and_touch_nothing_else() {
    let foreign = [
        Route::via(net("0.0.0.0/0"), ip("192.0.2.254")),
        Route::via(net("10.244.3.0/24"), ip("192.0.2.200")),
    ];
    let link = PresentLink {
        index: LinkIndex(7),
        entries: BTreeSet::new(),
        neighbours: BTreeMap::new(),
        addresses: [net("10.9.9.9/32")].into(),
    };
    for (network, link) in [(Network::HostGw, None), (VXLAN, Some(link))] {
        let mut present = Present {
            routes: foreign.to_vec(),
            link,
        };
        for numbers in [&[1, 2, 3][..], &[1, 2], &[1, 3, 4], &[1]] {
            let machines: Vec<Machine> = numbers.iter().map(|number| machine(*number)).collect();
            let plan = Plan::new(&settings(network), &machines);
            let changes = Changes::new(&plan, &present);
            present = after(&present, &changes);
            assert!(foreign.iter().all(|route| present.routes.contains(route)));
            let again = Changes::new(&plan, &present);
            assert!(again.is_empty(), "{again:?}");
            let is_blocked = numbers.contains(&3);
            assert_eq!(
                again.foreign,
                if is_blocked {
                    vec![net("10.244.3.0/24")]
                } else {
                    vec![]
                }
            );
            let ours = present
                .routes
                .iter()
                .filter(|route| route.protocol == PROTOCOL)
                .count();
            assert_eq!(ours, plan.routers.len() - usize::from(is_blocked));
        }
    }
}
