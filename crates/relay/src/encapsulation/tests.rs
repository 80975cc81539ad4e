use std::net::IpAddr;

use netlink::route::{LinkChange, LinkName, Vxlan};

use super::*;

fn name(text: &str) -> LinkName {
    text.parse().expect("a name")
}

#[test]
fn ports_of_links_are_those_of_the_kernel() {
    testbed::in_namespace(|| {
        let mut host = Connection::open().expect("a socket");
        host.add_bridge(&name("br0")).expect("a bridge");
        let underlay = host.link_index(&name("br0")).expect("a link");
        host.change_link(underlay, &LinkChange::up()).expect("up");
        let local: IpAddr = [192, 0, 2, 1].into();
        let network = "192.0.2.1/24".parse().expect("a network");
        host.add_address(underlay, network).expect("an address");
        let without_links = EncapsulationPorts::default();
        assert!(!without_links.contains(8472));
        assert!(without_links.contains(TWO_TIER_PORT));
        let vxlan = Vxlan {
            id: 7,
            port: 8472,
            local,
            underlay,
        };
        if let Err(error) = host.add_vxlan(&name("vx0"), &vxlan, [2, 0, 0, 0, 0, 1], 1450) {
            testbed::skip_inside(&format!("no VXLAN here: {error}"));
        }
        let ports = EncapsulationPorts::default();
        assert!(ports.contains(8472));
        assert!(!ports.contains(4789));
    });
}
