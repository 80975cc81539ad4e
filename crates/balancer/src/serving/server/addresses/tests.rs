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

fn addresses() -> [IpAddr; 2] {
    ["192.0.2.7", "2001:db8::7"].map(|text| text.parse().expect("an address"))
}

/// Runs a test after the loopback link is up.
fn run(test: impl Future<Output = ()>) {
    let mut connection = Connection::open().expect("a socket");
    let loopback = connection
        .link_index(&"lo".parse().expect("a name"))
        .expect("a link");
    connection
        .change_link(loopback, &LinkChange::up())
        .expect("a link that is up");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test);
}

#[test]
fn ending_process_leaves_its_addresses_to_a_successor_only() {
    testbed::in_namespace(|| {
        run(async {
            let addresses = Addresses::from(addresses());
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

#[test]
fn address_that_a_predecessor_added_late_stays_only_if_it_is_announced() {
    testbed::in_namespace(|| {
        run(async {
            let [kept, moved] = addresses();
            let (kept, both) = (Addresses::from([kept]), Addresses::from([kept, moved]));
            let mut predecessor = open();
            let mut successor = open();
            predecessor.add(&both);
            predecessor.remove_all().await;
            drop(predecessor);
            let start = Instant::now();
            let mut announce = |now| successor.update(now, Some(kept.clone()), Addresses::new);
            announce(start);
            assert_eq!(present(), both);
            announce(start + INHERITANCE_DURATION);
            assert_eq!(present(), kept);
        });
    });
}
