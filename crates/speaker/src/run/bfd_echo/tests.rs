use std::io::ErrorKind;

use netlink::route::{LinkChange, LinkName};

use super::*;

#[test]
fn local_address_in_no_network_with_the_peer_has_no_path() {
    testbed::in_namespace(|| {
        let mut connection = Connection::open().expect("a socket");
        let name: LinkName = "br0".parse().expect("a name");
        connection.add_bridge(&name).expect("a bridge");
        let link = connection.link_index(&name).expect("a link");
        connection.change_link(link, &LinkChange::up()).expect("up");
        for network in ["10.9.0.1/24", "10.8.0.1/32"] {
            let network = network.parse().expect("a network");
            connection.add_address(link, network).expect("an address");
        }
        let open = |source: &str| {
            let source = source.parse().expect("an address");
            let peer = "10.9.0.2:3784".parse().expect("a peer");
            let path = EchoPath::open(peer, Some(source), None, 50_000);
            path.map(|_| ()).map_err(|error| error.kind())
        };
        assert_eq!(open("10.9.0.1"), Ok(()));
        assert_eq!(open("10.8.0.1"), Err(ErrorKind::Unsupported));
    });
}
