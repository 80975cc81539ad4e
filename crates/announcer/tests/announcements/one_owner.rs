//! An address has one owner through failures.

use std::time::Duration;

use announcer::{NodeName, rendezvous};
use client::Config;
use testbed::Cluster;

use crate::arp_observer::ArpObserver;
use crate::fixture::{
    ADDRESS, Announcer, Fixture, Signal, set_link, start_announcer, start_successor, wait_for_members,
    wait_for_object,
};

#[test]
fn address_has_one_owner_through_failures() {
    testbed::in_namespace(|| {
        let Fixture { cluster, api, .. } = &Fixture::start(3);
        let (config, announcer) = (&api.admin, &api.announcer);
        let start = |name: &str| start_announcer(cluster, announcer, name);
        let mut announcers: Vec<Announcer> = ["node-1", "node-2", "node-3"].map(start).into();
        let mut observer = ArpObserver::start(cluster);
        // While the three discover each other, the address may move.
        wait_for_members(cluster, config);
        observer.observe(Duration::from_secs(2));
        observer.owners.clear();
        let names = ["node-1", "node-2", "node-3"].map(NodeName::from);
        let winner = rendezvous::winner(ADDRESS.into(), names.iter());
        let owner_number = names.iter().position(|name| Some(name) == winner);
        let owner_number = owner_number.expect("a winner");
        let owner = announcers[owner_number].hardware;
        observer.wait_for_owner(|last| *last == owner);

        // While the owner is frozen, another node announces. After it resumes, the address is handed back.
        let send =
            |announcer: &Announcer, signal| announcer.signals.send(signal).expect("a running announcer");
        send(&announcers[owner_number], Signal::Freeze(Duration::from_secs(4)));
        let second = observer.wait_for_owner(|last| *last != owner);
        observer.wait_for_owner(|last| *last == owner);

        // Partitioned: another node announces; the same again.
        let port = owner_number + 1;
        set_link(cluster, port, false);
        observer.wait_for_owner(|last| *last == second);
        set_link(cluster, port, true);
        observer.wait_for_owner(|last| *last == owner);

        // Killed and restarted.
        send(&announcers[owner_number], Signal::Kill);
        observer.wait_for_owner(|last| *last == second);
        let name = format!("node-{}", owner_number + 1);
        announcers[owner_number] = start(&name);
        observer.wait_for_owner(|last| *last == owner);

        // Shut down: released.
        send(&announcers[owner_number], Signal::ShutDown);
        observer.wait_for_owner(|last| *last == second);

        // Two owners at a time would alternate in the responses. A busy host may have moved the address once or twice
        // more than the test did.
        observer.observe(Duration::from_secs(1));
        let moves = 8;
        assert!(observer.owners.len() < 2 * moves, "{:?}", observer.owners);
        await_event(cluster, config);
    });
}

#[test]
fn successor_on_a_node_that_is_alone_waits_and_takes_over() {
    testbed::in_namespace(|| {
        let Fixture { cluster, api, .. } = &Fixture::start(1);
        let mut present = start_announcer(cluster, &api.announcer, "node-1");
        let mut observer = ArpObserver::start(cluster);
        let owner = present.hardware;
        observer.wait_for_owner(|last| *last == owner);
        for is_killed in [false, true] {
            let successor = start_successor(cluster, &api.announcer, "node-1");
            // The successor is likely to wait by now. One that does not wait yet takes over, too.
            std::thread::sleep(Duration::from_millis(500));
            let ended = std::mem::replace(&mut present, successor);
            if is_killed {
                ended.kill();
            } else {
                ended.shut_down();
            }
            // Replies of the former process.
            observer.observe(Duration::from_millis(100));
            observer.wait_for_owner(|last| *last == owner);
        }
        present.shut_down();
    });
}

/// The successor ends while it waits. Then others start after the end of their predecessors.
#[test]
fn process_continues_to_announce_after_its_successor_exits() {
    testbed::in_namespace(|| {
        let Fixture { cluster, api, .. } = &Fixture::start(1);
        let mut present = start_announcer(cluster, &api.announcer, "node-1");
        let mut observer = ArpObserver::start(cluster);
        let owner = present.hardware;
        observer.wait_for_owner(|last| *last == owner);
        let successor = start_successor(cluster, &api.announcer, "node-1");
        // The successor is likely to wait by now.
        std::thread::sleep(Duration::from_millis(500));
        successor.kill();
        observer.observe(Duration::from_millis(100));
        observer.wait_for_owner(|last| *last == owner);
        for is_killed in [false, true] {
            if is_killed {
                present.kill();
            } else {
                present.shut_down();
            }
            present = start_announcer(cluster, &api.announcer, "node-1");
            // Replies of the former process.
            observer.observe(Duration::from_millis(100));
            observer.wait_for_owner(|last| *last == owner);
        }
        present.shut_down();
    });
}

/// Waits for the Event with the announcing node.
fn await_event(cluster: &Cluster, config: &Config) {
    wait_for_object(cluster, config, "/api/v1/namespaces/default/events", |list| {
        let events = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        events.iter().any(|event| {
            event["reason"] == "nodeAssigned"
                && event["message"]
                    .as_str()
                    .is_some_and(|text| text.starts_with("announcing from node"))
        })
    });
}
