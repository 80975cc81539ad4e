use std::net::IpAddr;
use std::os::fd::AsFd;

use ipnet::IpNet;

use super::message::{Request, ifinfomsg};
use super::*;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn name(text: &str) -> LinkName {
    text.parse().unwrap()
}

#[test]
fn rejects_link_names_that_kernel_rejects() {
    for invalid in ["", ".", "..", "a b", "a/b", "a:b", "sixteen-bytes-xx", "tab\t"] {
        assert!(
            matches!(invalid.parse::<LinkName>(), Err(RouteError::Name { .. })),
            "{invalid:?}"
        );
    }
    assert_eq!(name("fifteen-bytes-x").as_str().len(), NAME_BYTES_MAX);
}

#[test]
fn truncated_messages_decode_without_panic() {
    let mut request = Request::new(libc::RTM_NEWLINK, 0, &ifinfomsg(7, 1, 0));
    request
        .text(libc::IFLA_IFNAME, "eth0")
        .number(libc::IFLA_MTU, 1500);
    let bytes = request.finish(1);
    for length in 16..bytes.len() {
        let part = &bytes[16..length];
        let read = (
            link::parse(part),
            address::parse(part),
            routes::parse(part),
            neighbour::parse(part),
        );
        assert!(read.0.is_none_or(|link| link.mtu_bytes == 0), "{length}");
    }
    let whole = link::parse(&bytes[16..]).unwrap();
    assert_eq!(
        (whole.name.as_str(), whole.mtu_bytes, whole.is_up),
        ("eth0", 1500, true)
    );
}

#[test]
fn links_have_the_port_of_their_encapsulation() {
    let link = |kind: &str, attribute: u16| {
        let mut request = Request::new(libc::RTM_NEWLINK, 0, &ifinfomsg(7, 1, 0));
        request.nested(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, kind);
            info.nested(libc::IFLA_INFO_DATA, |data| {
                data.attribute(attribute, &8472_u16.to_be_bytes());
            });
        });
        link::parse(&request.finish(1)[16..]).unwrap().encapsulation_port
    };
    let kinds = [("vxlan", 15), ("geneve", 5), ("bareudp", 1)];
    for (kind, attribute) in kinds {
        assert_eq!(link(kind, attribute), Some(8472), "{kind}");
    }
    assert_eq!(link("vxlan", 5), None);
    assert_eq!(link("bridge", 15), None);
}

#[test]
fn veth_pair_joins_two_namespaces() {
    testbed::in_namespace(|| {
        let other = NetworkNamespace::create().unwrap();
        let mut here = Connection::open().unwrap();
        let mut there = Connection::open_in(&other).unwrap();
        here.add_veth(&name("near"), &name("far"), Some(other.as_fd()))
            .unwrap();
        let near = here.link(&name("near")).unwrap().unwrap();
        assert_eq!((near.kind.as_str(), near.is_up), ("veth", false));
        assert!(here.link(&name("far")).unwrap().is_none());
        let far = there.link_index(&name("far")).unwrap();
        let change = LinkChange {
            up: Some(true),
            mtu_bytes: Some(1400),
            name: Some(name("eth0")),
            ..LinkChange::default()
        };
        there
            .change_link(
                far,
                &LinkChange {
                    name: change.name.clone(),
                    ..LinkChange::default()
                },
            )
            .unwrap();
        there
            .change_link(far, &LinkChange { name: None, ..change })
            .unwrap();
        here.change_link(near.index, &LinkChange::up()).unwrap();
        let far = there.link(&name("eth0")).unwrap().unwrap();
        assert_eq!((far.mtu_bytes, far.is_up), (1400, true));
        here.delete_link(&name("near")).unwrap();
        assert!(there.link(&name("eth0")).unwrap().is_none());
        assert!(here.delete_link(&name("near")).unwrap_err().is_absent());
    });
}

#[test]
fn links_move_and_join_bridges() {
    testbed::in_namespace(|| {
        let other = NetworkNamespace::create().unwrap();
        let mut here = Connection::open().unwrap();
        here.add_bridge(&name("bridge0")).unwrap();
        assert!(
            here.add_bridge(&name("bridge0"))
                .unwrap_err()
                .is_already_present()
        );
        let bridge = here.link_index(&name("bridge0")).unwrap();
        here.add_veth(&name("a"), &name("b"), None).unwrap();
        let a = here.link_index(&name("a")).unwrap();
        let join = |master| LinkChange {
            master: Some(master),
            ..LinkChange::default()
        };
        here.change_link(a, &join(Master::Of(bridge))).unwrap();
        let port = here.link(&name("a")).unwrap().unwrap();
        assert_eq!((port.master, port.is_hairpin), (Some(bridge), Some(false)));
        assert!(port.lower.is_some() && !port.is_promiscuous);
        let hairpin = LinkChange {
            hairpin: Some(true),
            ..LinkChange::default()
        };
        here.change_link(a, &hairpin).unwrap();
        assert_eq!(here.link(&name("a")).unwrap().unwrap().is_hairpin, Some(true));
        assert_eq!(here.link(&name("b")).unwrap().unwrap().is_hairpin, None);
        here.change_link(a, &join(Master::None)).unwrap();
        assert_eq!(here.link(&name("a")).unwrap().unwrap().master, None);
        let b = here.link_index(&name("b")).unwrap();
        let away = LinkChange {
            namespace: Some(other.as_fd()),
            ..LinkChange::default()
        };
        here.change_link(b, &away).unwrap();
        assert!(here.link(&name("b")).unwrap().is_none());
        assert!(
            Connection::open_in(&other)
                .unwrap()
                .link(&name("b"))
                .unwrap()
                .is_some()
        );
    });
}

#[test]
fn addresses_are_added_and_removed_in_both_families() {
    testbed::in_namespace(|| {
        let mut here = Connection::open().unwrap();
        here.add_veth(&name("a"), &name("b"), None).unwrap();
        let link = here.link_index(&name("a")).unwrap();
        here.change_link(link, &LinkChange::up()).unwrap();
        for network in [net("192.0.2.1/24"), net("2001:db8::1/64")] {
            here.add_address(link, network).unwrap();
            let listed = here.addresses().unwrap();
            let found = listed.iter().find(|address| address.network == network).unwrap();
            assert!(found.is_global() && !found.is_tentative && found.link == link);
            assert!(here.add_address(link, network).unwrap_err().is_already_present());
            here.delete_address(link, network).unwrap();
            assert!(here.delete_address(link, network).unwrap_err().is_absent());
        }
    });
}

#[test]
fn routes_are_added_replaced_and_removed() {
    testbed::in_namespace(|| {
        let mut here = Connection::open().unwrap();
        here.add_veth(&name("a"), &name("b"), None).unwrap();
        let (a, b) = (
            here.link_index(&name("a")).unwrap(),
            here.link_index(&name("b")).unwrap(),
        );
        here.change_link(a, &LinkChange::up()).unwrap();
        here.change_link(b, &LinkChange::up()).unwrap();
        here.add_address(a, net("192.0.2.1/24")).unwrap();
        here.add_address(a, net("2001:db8::1/64")).unwrap();
        let via = |to: &str, gateway: &str| {
            let action = Action::Via {
                gateway: ip(gateway),
                link: Some(a),
            };
            Route::new(net(to), action)
        };
        let routes = [
            via("10.1.0.0/16", "192.0.2.9"),
            via("0.0.0.0/0", "192.0.2.254"),
            via("fd00:1::/64", "2001:db8::9"),
            via("::/0", "2001:db8::254"),
            Route::on_link(net("10.2.0.7/32"), a),
            Route::on_link(net("fd00:2::7/128"), a),
            Route::new(net("10.3.0.0/16"), Action::Blackhole),
            Route::new(net("10.4.0.0/16"), Action::Unreachable),
        ];
        for route in &routes {
            here.add_route(route).unwrap();
            assert!(here.routes().unwrap().contains(route), "{route:?}");
            assert!(
                here.add_route(route).unwrap_err().is_already_present(),
                "{route:?}"
            );
        }
        let changed = via("10.1.0.0/16", "192.0.2.10");
        here.replace_route(&changed).unwrap();
        let listed = here.routes().unwrap();
        assert!(listed.contains(&changed) && !listed.contains(&routes[0]));
        for route in routes.iter().skip(1) {
            here.delete_route(route).unwrap();
            assert!(here.delete_route(route).unwrap_err().is_absent(), "{route:?}");
        }
    });
}

#[test]
fn routes_of_other_tables_are_separate() {
    testbed::in_namespace(|| {
        let mut here = Connection::open().unwrap();
        here.add_veth(&name("a"), &name("b"), None).unwrap();
        let link = here.link_index(&name("a")).unwrap();
        here.change_link(link, &LinkChange::up()).unwrap();
        here.add_address(link, net("192.0.2.1/24")).unwrap();
        let default = |gateway: &str| {
            let gateway = ip(gateway);
            Route::new(net("0.0.0.0/0"), Action::ViaOnLink { gateway, link })
        };
        let before = here.routes().unwrap();
        for table in [RouteTable(112), RouteTable(70_000)] {
            here.replace_route_of(table, &default("192.0.2.9")).unwrap();
            here.replace_route_of(table, &default("192.0.2.10")).unwrap();
            assert_eq!(here.routes_of(table).unwrap(), [default("192.0.2.10")]);
            let blackhole = Route::new(net("::/0"), Action::Blackhole);
            here.replace_route_of(table, &blackhole).unwrap();
            assert!(here.routes_of(table).unwrap().contains(&blackhole));
            assert_eq!(here.routes().unwrap(), before);
            here.delete_route_of(table, &default("192.0.2.10")).unwrap();
            let error = here.delete_route_of(table, &default("192.0.2.10")).unwrap_err();
            assert!(error.is_absent(), "{error}");
        }
    });
}

#[test]
fn neighbours_are_set_and_deleted() {
    testbed::in_namespace(|| {
        let mut here = Connection::open().unwrap();
        here.add_veth(&name("a"), &name("b"), None).unwrap();
        let link = here.link_index(&name("a")).unwrap();
        here.change_link(link, &LinkChange::up()).unwrap();
        here.replace_neighbour(link, ip("192.0.2.7"), [2, 0, 0, 0, 0, 7])
            .unwrap();
        let found = here
            .neighbours()
            .unwrap()
            .into_iter()
            .find(|neighbour| neighbour.address == ip("192.0.2.7"));
        assert_eq!(found.unwrap().ethernet, Some([2, 0, 0, 0, 0, 7]));
        here.delete_neighbour(link, ip("192.0.2.7")).unwrap();
        assert!(
            here.neighbours()
                .unwrap()
                .iter()
                .all(|neighbour| neighbour.address != ip("192.0.2.7"))
        );
    });
}

#[test]
fn work_runs_in_namespace_and_panics_propagate() {
    testbed::in_namespace(|| {
        let other = NetworkNamespace::create().unwrap();
        let links = |mut c: Connection| c.links().unwrap().len();
        let mut here = Connection::open().unwrap();
        here.add_bridge(&name("only-here")).unwrap();
        assert_eq!(links(here), 2);
        assert_eq!(other.enter(|| links(Connection::open().unwrap())).unwrap(), 1);
        let panicked = std::panic::catch_unwind(|| other.enter(|| panic!("inside")));
        assert!(panicked.is_err());
    });
}

#[test]
fn own_routes_have_protocol_number() {
    testbed::in_namespace(|| {
        const OWN_PROTOCOL: u8 = 112;
        let mut here = Connection::open().unwrap();
        here.add_bridge(&name("br0")).unwrap();
        let link = here.link_index(&name("br0")).unwrap();
        here.change_link(link, &LinkChange::up()).unwrap();
        here.add_address(link, net("192.0.2.1/24")).unwrap();
        let ours = Route {
            protocol: OWN_PROTOCOL,
            ..Route::via(net("10.244.1.0/24"), ip("192.0.2.2"))
        };
        here.add_route(&ours).unwrap();
        here.add_route(&Route::via(net("10.244.2.0/24"), ip("192.0.2.2")))
            .unwrap();
        let found: Vec<Route> = here
            .routes()
            .unwrap()
            .into_iter()
            .filter(|route| route.protocol == OWN_PROTOCOL)
            .collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].destination, ours.destination);
        // A foreign route to the same destination is not affected.
        let foreign = Route {
            protocol: OWN_PROTOCOL,
            ..Route::via(net("10.244.2.0/24"), ip("192.0.2.2"))
        };
        assert!(here.delete_route(&foreign).unwrap_err().is_absent());
        here.delete_route(&ours).unwrap();
    });
}

#[test]
fn vxlan_sends_packets_to_configured_host() {
    testbed::in_namespace(|| {
        let mut here = Connection::open().unwrap();
        here.add_bridge(&name("br0")).unwrap();
        let underlay = here.link_index(&name("br0")).unwrap();
        here.change_link(underlay, &LinkChange::up()).unwrap();
        here.add_address(underlay, net("192.0.2.1/24")).unwrap();
        let vxlan = Vxlan {
            id: 4096,
            port: 8472,
            local: ip("192.0.2.1"),
            underlay,
        };
        let ethernet = [2, 0, 0, 0, 0, 1];
        if let Err(error) = here.add_vxlan(&name("vx0"), &vxlan, ethernet, 1450) {
            testbed::skip_inside(&format!("no VXLAN here: {error}"));
        }
        let link = here.link(&name("vx0")).unwrap().unwrap();
        assert_eq!(
            (link.vxlan, link.ethernet, link.mtu_bytes),
            (Some(vxlan), Some(ethernet), 1450)
        );
        here.change_link(link.index, &LinkChange::up()).unwrap();
        let entry = ForwardingEntry {
            ethernet: [2, 0, 0, 0, 0, 2],
            host: ip("192.0.2.2"),
        };
        here.replace_forwarding_entry(link.index, &entry).unwrap();
        let moved = ForwardingEntry {
            host: ip("192.0.2.3"),
            ..entry
        };
        here.replace_forwarding_entry(link.index, &moved).unwrap();
        assert_eq!(here.forwarding_entries(link.index).unwrap(), [moved]);
        for (destination, gateway) in [
            ("10.244.1.0/24", "10.244.1.0"),
            ("fd00:244:1::/64", "fd00:244:1::"),
        ] {
            let action = Action::ViaOnLink {
                gateway: ip(gateway),
                link: link.index,
            };
            let route = Route::new(net(destination), action);
            here.replace_neighbour(link.index, ip(gateway), entry.ethernet)
                .unwrap();
            here.add_route(&route).unwrap();
            assert!(here.routes().unwrap().contains(&route), "{destination}");
        }
        here.delete_forwarding_entry(link.index, &moved).unwrap();
        assert!(
            here.delete_forwarding_entry(link.index, &moved)
                .unwrap_err()
                .is_absent()
        );
    });
}
