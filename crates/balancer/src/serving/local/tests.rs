use super::*;

#[test]
fn addresses_are_local_while_they_are_and_leftovers_are_found() {
    testbed::in_namespace(|| {
        let addresses: [IpAddr; 2] = ["192.0.2.7", "2001:db8::7"].map(|text| text.parse().unwrap());
        let mut connection = Connection::open().unwrap();
        let loopback = connection.link_index(&"lo".parse().unwrap()).unwrap();
        let up = netlink::route::LinkChange::up();
        connection.change_link(loopback, &up).unwrap();
        // For IPv6 a link must have the address, or the socket ask for none.
        let can_bind = || std::net::TcpListener::bind((addresses[0], 0)).is_ok();
        let mut local = LocalAddresses::open().unwrap();
        assert!(local.are().is_empty() && !can_bind());
        for address in addresses {
            local.add(address).unwrap();
            local.add(address).unwrap();
        }
        assert!(can_bind());
        // Killed: the next one finds them.
        drop(local);
        let mut next = LocalAddresses::open().unwrap();
        assert_eq!(*next.are(), BTreeSet::from(addresses));
        for address in addresses {
            next.remove(address).unwrap();
            next.remove(address).unwrap();
        }
        assert!(LocalAddresses::open().unwrap().are().is_empty() && !can_bind());
    });
}
