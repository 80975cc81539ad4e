use std::net::IpAddr;

use netlink::route::{LinkChange, LinkIndex, LinkName, RouteTable};

use super::*;
use crate::NodeName;
use crate::egress::plan::{EgressPlan, PodEgress};
use crate::egress::state::OwnerNumbers;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn state(numbers: &mut OwnerNumbers, pods: &[(&str, &str, &str)], link: LinkIndex) -> EgressState {
    let routed = |node: &str, gateway: &str| PodEgress::Routed {
        node: NodeName::from(node),
        route: Action::ViaOnLink {
            gateway: ip(gateway),
            link,
        },
    };
    let mut plan = EgressPlan {
        inside: [ip("10.244.1.1"), ip("fd00:244:1::1")].map(IpNet::from).into(),
        ..EgressPlan::default()
    };
    let pods = pods
        .iter()
        .map(|(pod, node, gateway)| (ip(pod), routed(node, gateway)));
    plan.pods.extend(pods);
    plan.pods.insert(ip("10.244.1.9"), PodEgress::Blocked);
    plan.pods
        .insert(ip("10.244.1.10"), PodEgress::Translated(ip("192.0.2.100")));
    EgressState::new(&plan, numbers)
}

/// Families with a rule that drops packets without a route.
fn dropping(connection: &mut Connection) -> Vec<RuleFamily> {
    let rules = connection.rules().expect("rules").into_iter();
    rules
        .filter(|rule| *rule == drop_rule(rule.family))
        .map(|rule| rule.family)
        .collect()
}

/// Tables of the announcer's rules.
fn tables(connection: &mut Connection) -> Vec<RouteTable> {
    let rules = connection.rules().expect("rules").into_iter();
    rules
        .map(|rule| rule.table)
        .filter(|table| OwnerNumber::of_table(*table).is_some())
        .collect()
}

#[test]
fn kernel_follows_state_and_is_cleaned() {
    testbed::in_namespace(|| {
        let mut connection = Connection::open().expect("a socket");
        connection
            .add_bridge(&"br0".parse().expect("a name"))
            .expect("a bridge");
        let link = connection
            .link_index(&"br0".parse().expect("a name"))
            .expect("a link");
        connection
            .change_link(link, &LinkChange::up())
            .expect("a link that is up");
        for network in ["192.0.2.1/24", "2001:db8::1/64"] {
            let network = network.parse().expect("a network");
            connection.add_address(link, network).expect("an address");
        }
        let (mut kernel, mut numbers) = (EgressKernel::default(), OwnerNumbers::default());
        let two = [
            ("10.244.1.7", "n2", "192.0.2.2"),
            ("10.244.1.8", "n3", "192.0.2.3"),
            ("fd00:244:1::7", "n2", "2001:db8::2"),
        ];
        let first = state(&mut numbers, &two, link);
        kernel.apply(&first).expect("applied");
        assert_eq!(tables(&mut connection).len(), 3);
        assert_eq!(dropping(&mut connection), FAMILIES);
        let number = first.routed[&ip("10.244.1.8")];
        let routes = connection.routes_of(number.table()).expect("routes");
        assert_eq!(routes.len(), 1);
        assert_eq!(routes[0].action, first.routes[&(RuleFamily::V4, number)]);
        // The same again, as after a deletion by another program.
        kernel.write_again();
        kernel.apply(&first).expect("applied");
        assert_eq!(tables(&mut connection).len(), 3);
        let second = state(&mut numbers, &two[..1], link);
        kernel.apply(&second).expect("applied");
        assert_eq!(tables(&mut connection).len(), 1);
        assert_eq!(dropping(&mut connection), [RuleFamily::V4]);
        let drops = connection.routes_of(TABLE_WITHOUT_OWNER).expect("routes");
        assert_eq!(
            drops.iter().map(|route| route.action).collect::<Vec<_>>(),
            [Action::Blackhole]
        );
        assert!(connection.routes_of(number.table()).expect("routes").is_empty());
        let mut nftables = Nftables::open().expect("a socket");
        let mut pods = || {
            let family = table::table_family(RuleFamily::V4);
            let keys =
                nftables.elements_of_family(family, table::TABLE, "routed", |element| element.key.to_vec());
            keys.ok()
        };
        assert_eq!(pods(), Some(vec![vec![10, 244, 1, 7]]));
        kernel.apply(&EgressState::default()).expect("applied");
        assert!(tables(&mut connection).is_empty() && pods().is_none());
        assert!(dropping(&mut connection).is_empty());
        kernel.apply(&first).expect("applied");
        assert_eq!(remove_egress().expect("removed").len(), 2);
        assert!(tables(&mut connection).is_empty());
        assert!(remove_egress().expect("removed").is_empty());
        assert!(dropping(&mut connection).is_empty());
    });
}

#[test]
fn refused_route_of_one_owner_leaves_the_others_applied() {
    testbed::in_namespace(|| {
        let mut connection = Connection::open().expect("a socket");
        let name: LinkName = "br0".parse().expect("a name");
        connection.add_bridge(&name).expect("a bridge");
        let link = connection.link_index(&name).expect("a link");
        connection
            .change_link(link, &LinkChange::up())
            .expect("a link that is up");
        let network = "192.0.2.1/24".parse().expect("a network");
        connection.add_address(link, network).expect("an address");
        let (mut kernel, mut numbers) = (EgressKernel::default(), OwnerNumbers::default());
        let mut desired = state(&mut numbers, &[("10.244.1.7", "n2", "192.0.2.2")], link);
        let other = state(
            &mut numbers,
            &[("10.244.1.8", "n3", "192.0.2.3")],
            LinkIndex(link.0 + 1_000),
        );
        desired.routed.extend(other.routed);
        desired.routes.extend(other.routes);
        let refused = desired.routed[&ip("10.244.1.8")];
        for _ in 0..2 {
            assert_eq!(kernel.apply(&desired).expect("applied"), [refused]);
            assert_eq!(tables(&mut connection).len(), 2);
            assert_eq!(dropping(&mut connection), [RuleFamily::V4]);
        }
        let served = desired.routed[&ip("10.244.1.7")];
        assert_eq!(connection.routes_of(served.table()).expect("routes").len(), 1);
        assert!(connection.routes_of(refused.table()).expect("routes").is_empty());
        let owners = BTreeSet::from([NodeName::from("n3")]);
        assert_eq!(numbers.nodes(&[refused]), owners);
    });
}

#[test]
fn table_of_an_earlier_process_stays_until_the_first_write() {
    testbed::in_namespace(|| {
        let pods = |egress: PodEgress| EgressPlan {
            pods: [(ip("10.244.1.7"), egress)].into(),
            ..EgressPlan::default()
        };
        let mut numbers = OwnerNumbers::default();
        let translated = EgressState::new(&pods(PodEgress::Translated(ip("192.0.2.100"))), &mut numbers);
        let mut earlier = EgressKernel::default();
        earlier.apply(&translated).expect("applied");
        drop(earlier);
        let mut nftables = Nftables::open().expect("a socket");
        let mut keys = |set: &str| {
            let family = table::table_family(RuleFamily::V4);
            let keys = nftables.elements_of_family(family, table::TABLE, set, |element| element.key.to_vec());
            keys.expect("a set")
        };
        let pod: Vec<Vec<u8>> = vec![vec![10, 244, 1, 7]];
        let mut next = EgressKernel::default();
        assert_eq!(keys("sources"), pod);
        // A process that has not received the owner yet.
        let blocked = EgressState::new(&pods(PodEgress::Blocked), &mut OwnerNumbers::default());
        next.apply(&blocked).expect("applied");
        assert_eq!(keys("blocked"), pod);
        assert!(keys("sources").is_empty());
    });
}
