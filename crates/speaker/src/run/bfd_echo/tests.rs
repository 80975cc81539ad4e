use std::io::ErrorKind;

use netlink::route::{LinkChange, LinkName};

use super::*;

#[test]
fn local_address_in_no_network_with_the_peer_has_no_path() {
    testbed::in_namespace(|| {
        // IPv6 addresses are usable at once.
        for setting in ["all", "default"] {
            let setting = format!("net.ipv6.conf.{setting}.accept_dad");
            testbed::write_sysctl(&setting, "0").expect("a kernel parameter");
        }
        let mut connection = Connection::open().expect("a socket");
        let name: LinkName = "br0".parse().expect("a name");
        connection.add_bridge(&name).expect("a bridge");
        let link = connection.link_index(&name).expect("a link");
        connection
            .change_link(link, &LinkChange::up())
            .expect("a link that is up");
        for network in ["10.9.0.1/24", "10.8.0.1/32", "fd00:9::1/64", "fd00:8::1/128"] {
            let network = network.parse().expect("a network");
            connection.add_address(link, network).expect("an address");
        }
        let open = |source: &str, peer: &str| {
            let source = source.parse().expect("an address");
            let peer = peer.parse().expect("a peer");
            let path = EchoPath::open(peer, Some(source), None, 50_000);
            path.map(|_| ()).map_err(|error| error.kind())
        };
        assert_eq!(open("10.9.0.1", "10.9.0.2:3784"), Ok(()));
        assert_eq!(open("10.8.0.1", "10.9.0.2:3784"), Err(ErrorKind::Unsupported));
        assert_eq!(open("fd00:9::1", "[fd00:9::2]:3784"), Ok(()));
        assert_eq!(open("fd00:8::1", "[fd00:9::2]:3784"), Err(ErrorKind::Unsupported));
    });
}

#[test]
fn link_local_address_has_no_path() {
    let own = "fe80::1".parse().expect("an address");
    let peer = "fe80::2".parse().expect("an address");
    let error = link_of(own, peer, None).expect_err("no path");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("fe80::1"), "{error}");
}
