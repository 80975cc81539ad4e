//! A flood of ARP requests on the network.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::arp_observer::ArpObserver;
use crate::fixture::{ADDRESS, Fixture, start_announcer};

/// An address without an owner.
const NOBODYS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 250);

/// A node that starts during a flood of requests must read its addresses from the API and keep its timers.
#[test]
fn flood_of_requests_does_not_block_the_announcer() {
    testbed::in_namespace(|| {
        let Fixture { cluster, api, .. } = &Fixture::start(1);
        let flooder = ArpObserver::start(cluster);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    flooder.flood(NOBODYS);
                }
            });
            let announcer = start_announcer(cluster, &api.announcer, "node-1");
            let mut observer = ArpObserver::start(cluster);
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                observer.wait_until_owned(ADDRESS, announcer.hardware);
            }));
            is_over.store(true, Ordering::Relaxed);
            answer.expect("an answer");
        });
    });
}
