//! Plans in a real kernel, in a separate network namespace.

mod nodes;

use std::net::IpAddr;

use ipnet::IpNet;
use netlink::nftables::{Element, Nftables};
use netlink::route::{Connection, LinkChange, Route};
use routes::{ClusterNode, Creation, Kernel, LINK, Network, PROTOCOL, Plan, Settings, remove_all};

use nodes::{ip, net, node, settings};

/// Creates a link with this node's addresses, and a foreign route.
fn underlay() -> (Connection, Route) {
    let mut network = Connection::open().expect("a socket");
    network
        .add_bridge(&"br0".parse().expect("a name"))
        .expect("a bridge");
    let link = network
        .link_index(&"br0".parse().expect("a name"))
        .expect("a link");
    network
        .change_link(link, &LinkChange::up())
        .expect("a link that is up");
    for address in ["192.0.2.1/24", "2001:db8::1/64"] {
        network.add_address(link, net(address)).expect("an address");
    }
    let foreign = Route::via(net("10.244.9.0/24"), ip("192.0.2.9"));
    network.add_route(&foreign).expect("a route");
    (network, foreign)
}

fn ours(network: &mut Connection) -> Vec<IpNet> {
    let routes = network.routes().expect("routes").into_iter();
    let mut ours: Vec<IpNet> = routes
        .filter(|route| route.protocol == PROTOCOL)
        .map(|route| route.destination)
        .collect();
    ours.sort();
    ours
}

/// Returns the IPv4 addresses that the filter admits; `None` without a table.
fn applied_filter() -> Option<Vec<IpAddr>> {
    let mut nftables = Nftables::open().expect("a socket");
    nftables.table("portolan-vxlan").expect("tables")?;
    let address = |element: Element<'_>| {
        let octets: [u8; 4] = element.key.try_into().ok()?;
        Some(IpAddr::from(octets))
    };
    let found = nftables.elements("portolan-vxlan", "nodes4", address);
    let mut found: Vec<IpAddr> = found.expect("elements").into_iter().flatten().collect();
    found.sort();
    Some(found)
}

#[test]
fn host_gw_routes_follow_plan_and_are_removed() {
    testbed::in_namespace(|| {
        let (mut network, foreign) = underlay();
        let settings = settings(Network::HostGw);
        let mut kernel = Kernel::open().expect("a socket");
        let mut nodes = vec![node(1), node(2), node(9)];
        let changes = kernel
            .apply(&settings, &Plan::new(&settings, &nodes))
            .expect("applied");
        assert_eq!(changes.foreign, [net("10.244.9.0/24")]);
        let expected = [
            net("10.244.2.0/24"),
            net("fd00:244:0:2::/64"),
            net("fd00:244:0:9::/64"),
        ];
        assert_eq!(ours(&mut network), expected);
        let again = kernel
            .apply(&settings, &Plan::new(&settings, &nodes))
            .expect("applied");
        assert!(again.is_empty(), "{again:?}");
        // A node receives another address, and another one disappears.
        nodes[1].addresses = vec![ip("192.0.2.22"), ip("2001:db8::22")];
        nodes.pop();
        kernel
            .apply(&settings, &Plan::new(&settings, &nodes))
            .expect("applied");
        assert_eq!(ours(&mut network), expected[..2]);
        assert_eq!(remove_all().expect("removed").len(), 2);
        assert_eq!(ours(&mut network), []);
        let routes = network.routes().expect("routes");
        assert!(
            routes
                .iter()
                .any(|route| route.destination == foreign.destination)
        );
    });
}

#[test]
fn vxlan_link_follows_plan_and_is_removed() {
    testbed::in_namespace(|| {
        let (mut network, _) = underlay();
        let vxlan = settings(Network::Vxlan { id: 7, port: 4789 });
        let mut kernel = Kernel::open().expect("a socket");
        let plan = Plan::new(&vxlan, &[node(1), node(2), node(3)]);
        match kernel.apply(&vxlan, &plan) {
            Err(error) if error.to_string().contains("not supported") => {
                testbed::skip_inside(&format!("no VXLAN here: {error}"));
            }
            applied => applied.expect("applied"),
        };
        let again = kernel.apply(&vxlan, &plan).expect("applied");
        assert!(again.is_empty(), "{again:?}");
        let link = network
            .link(&LINK.parse().expect("a name"))
            .expect("links")
            .expect("the link");
        assert!(link.is_up && link.mtu_bytes == 1450, "{link:?}");
        assert_eq!(network.forwarding_entries(link.index).expect("entries").len(), 2);
        assert_eq!(applied_filter(), Some(vec![ip("192.0.2.2"), ip("192.0.2.3")]));
        assert_eq!(ours(&mut network).len(), 4);
        let fewer = Plan::new(&vxlan, &[node(1), node(3)]);
        kernel.apply(&vxlan, &fewer).expect("applied");
        assert_eq!(network.forwarding_entries(link.index).expect("entries").len(), 1);
        assert_eq!(ours(&mut network).len(), 2);
        assert_eq!(applied_filter(), Some(vec![ip("192.0.2.3")]));
        // Another port needs another link; without VXLAN there is none.
        let moved = settings(Network::Vxlan { id: 7, port: 8472 });
        kernel.apply(&moved, &fewer).expect("applied");
        let link = network
            .link(&LINK.parse().expect("a name"))
            .expect("links")
            .expect("the link");
        assert_eq!(link.vxlan.map(|vxlan| vxlan.port), Some(8472));
        assert_eq!(ours(&mut network).len(), 2);
        let plain = settings(Network::HostGw);
        kernel
            .apply(&plain, &Plan::new(&plain, &[node(1), node(3)]))
            .expect("applied");
        assert!(
            network
                .link(&LINK.parse().expect("a name"))
                .expect("links")
                .is_none()
        );
        assert_eq!(applied_filter(), None);
        assert_eq!(ours(&mut network).len(), 2);
    });
}
