use std::net::IpAddr;

use netlink::route::{Connection, LinkChange};

use super::*;

/// Opens the addresses of a process.
fn open() -> NodeAddresses {
    NodeAddresses::open(true).expect("addresses").0
}

/// Returns the addresses that the kernel holds.
fn present() -> Addresses {
    LocalAddresses::open().expect("routes").present().clone()
}

#[test]
fn ending_process_leaves_its_addresses_to_a_successor_only() {
    testbed::in_namespace(|| {
        let mut connection = Connection::open().expect("a socket");
        let loopback = connection
            .link_index(&"lo".parse().expect("a name"))
            .expect("a link");
        connection
            .change_link(loopback, &LinkChange::up())
            .expect("a link that is up");
        let addresses: [IpAddr; 2] =
            ["192.0.2.7", "2001:db8::7"].map(|text| text.parse().expect("an address"));
        let addresses = Addresses::from(addresses);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut predecessor = open();
            predecessor.add(&addresses);
            let mut successor = open();
            predecessor.remove_all().await;
            drop(predecessor);
            assert_eq!(present(), addresses);
            // A successor that is killed has ended, too.
            drop(open());
            successor.remove_all().await;
            assert_eq!(present(), Addresses::new());
        });
    });
}
