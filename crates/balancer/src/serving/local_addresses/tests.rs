use super::*;

#[test]
fn addresses_stay_local_for_a_successor_until_they_are_removed() {
    testbed::in_namespace(|| {
        let addresses: [IpAddr; 2] = ["192.0.2.7", "2001:db8::7"].map(|text| text.parse().unwrap());
        let mut connection = Connection::open().unwrap();
        let loopback = connection.link_index(&"lo".parse().unwrap()).unwrap();
        let up = netlink::route::LinkChange::up();
        connection.change_link(loopback, &up).unwrap();
        // IPv4 only: an IPv6 socket can bind only to an address of a link, or with IP_FREEBIND.
        let can_bind = || std::net::TcpListener::bind((addresses[0], 0)).is_ok();
        let mut local = LocalAddresses::open().unwrap();
        assert!(local.present().is_empty() && !can_bind());
        for address in addresses {
            local.add(address).unwrap();
            local.add(address).unwrap();
        }
        assert!(can_bind());
        // A successor finds the addresses of a process that was killed.
        drop(local);
        let mut next = LocalAddresses::open().unwrap();
        assert_eq!(*next.present(), BTreeSet::from(addresses));
        for address in addresses {
            next.remove(address).unwrap();
            next.remove(address).unwrap();
        }
        assert!(LocalAddresses::open().unwrap().present().is_empty() && !can_bind());
    });
}
