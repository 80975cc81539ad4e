//! Scenarios of connections that stay open when an address moves: forwarding to previous owners, and conntrack flushes.

use std::cell::Cell;

use super::scenarios::{address, assert_owned, settled};
use super::*;

/// Moves an address to a node by a change of candidates.
fn move_to(cluster: &mut Cluster, address: IpAddr, node: usize) {
    cluster.set_candidates(address, &[node]);
    cluster.run(Duration::from_secs(3));
    assert_owned(cluster);
}

#[test]
fn new_owner_forwards_to_the_previous_owner() {
    for seed in seeds(20) {
        // Addresses that never moved, since the nodes have found each other before.
        let mut cluster = settled(seed, 4, 0);
        for number in 0..2 {
            cluster.set_candidates(address(number), &[0, 1, 2, 3]);
        }
        cluster.run(Duration::from_secs(3));
        assert_owned(&cluster);
        let first = cluster.expected_owner(address(0)).expect("an owner");
        let [second, third] = [1, 2].map(|more| (first + more) % 4);
        assert_eq!(cluster.forwardings(address(0)).count(), 0, "no previous owner");
        for (to, forwardings) in [
            (second, vec![(second, first)]),
            // The address returns: the second node tracks the connections that began there.
            (first, vec![(first, second)]),
            (second, vec![(second, first)]),
            // The third node forwards to the second, which forwards to the first.
            (third, vec![(second, first), (third, second)]),
            (first, vec![(first, third), (third, second)]),
        ] {
            cluster.set_candidates(address(0), &[to]);
            let end = cluster.now + Duration::from_secs(3);
            let is_there = |cluster: &Cluster| cluster.owners(address(0)) == [to];
            assert!(
                cluster.run_until(end, is_there),
                "the address moves at once, seed {seed}"
            );
            cluster.run(Duration::from_secs(3));
            assert_owned(&cluster);
            let mut forwardings = forwardings;
            forwardings.sort_unstable();
            assert_eq!(
                cluster.forwardings(address(0)).collect::<Vec<_>>(),
                forwardings,
                "seed {seed}"
            );
        }
        assert_eq!(
            cluster.forwardings(address(1)).count(),
            0,
            "the other address never moved"
        );
    }
}

/// Moves an address while no message of the previous owner reaches the next one.
fn move_without_message(cluster: &mut Cluster, from: usize, to: usize, check: impl Fn(&Cluster) -> bool) {
    // The next owner receives the change last.
    cluster.set_api(to, false);
    cluster.set_candidates(address(0), &[to]);
    cluster.run(milliseconds(400));
    cluster.disconnect(from, to);
    cluster.set_api(to, true);
    // The next owner does not suspect the previous one before the end.
    let end = cluster.now + milliseconds(150);
    cluster.run_until(end, check);
    cluster.reconnect_all();
}

/// Holds for either order: message of the previous owner first, or votes of others first. Three of five nodes are a
/// majority without both owners.
#[test]
fn unattributed_packets_are_dropped_or_forwarded_from_the_start() {
    let have_waited = Cell::new(0);
    for seed in seeds(20) {
        let mut cluster = settled(seed, 3 + (seed % 3) as usize, 1);
        let first = cluster.expected_owner(address(0)).expect("an owner");
        let second = (first + 1) % cluster.size();
        let is_waiting = |cluster: &Cluster| {
            let is_owner = cluster.owners(address(0)) == [second];
            let is_waiting = is_owner && cluster.forwarded_to(second, address(0)) != Some(first);
            assert!(
                !is_waiting || cluster.is_unsettled(second, address(0)),
                "seed {seed}"
            );
            have_waited.update(|count| count + usize::from(is_waiting));
            is_waiting
        };
        if cluster.size() == 5 {
            move_without_message(&mut cluster, first, second, is_waiting);
        }
        cluster.loss = 0.1;
        cluster.set_candidates(address(0), &[second]);
        let end = cluster.now + Duration::from_secs(5);
        cluster.run_until(end, |cluster| {
            is_waiting(cluster);
            false
        });
        assert_eq!(
            cluster.forwarded_to(second, address(0)),
            Some(first),
            "seed {seed}"
        );
        assert!(!cluster.is_unsettled(second, address(0)), "seed {seed}");

        // No node waits for a failed one.
        cluster.loss = 0.0;
        cluster.set_candidates(address(0), &[first, second]);
        let owner = cluster.expected_owner(address(0)).expect("an owner");
        cluster.run(Duration::from_secs(5));
        cluster.kill(owner);
        let end = cluster.now + Duration::from_secs(2);
        let is_replaced = |cluster: &Cluster| !cluster.owners(address(0)).is_empty();
        assert!(cluster.run_until(end, is_replaced), "seed {seed}");
        cluster.run(milliseconds(300));
        for node in 0..cluster.size() {
            assert!(!cluster.is_unsettled(node, address(0)), "seed {seed}");
        }
    }
    assert_ne!(have_waited.get(), 0, "no votes preceded the message");
}

/// Event that takes an address from its owner temporarily: description, event, and check of the flush that follows.
type Disturbance = (&'static str, fn(&mut Cluster, usize), fn(ConntrackFlush) -> bool);

fn disturbances() -> [Disturbance; 6] {
    [
        (
            "moved away",
            |cluster, first| {
                let other = (first + 1) % 3;
                move_to(cluster, address(0), other);
                cluster.set_candidates(address(0), &[0, 1, 2]);
            },
            |flush| flush == ConntrackFlush::Closed,
        ),
        (
            "moved away twice",
            |cluster, first| {
                move_to(cluster, address(0), (first + 1) % 3);
                move_to(cluster, address(0), (first + 2) % 3);
                cluster.set_candidates(address(0), &[0, 1, 2]);
            },
            |flush| flush == ConntrackFlush::Closed,
        ),
        (
            "moved away twice, one node restarted",
            |cluster, first| {
                let next = (first + 1) % 3;
                move_to(cluster, address(0), next);
                move_to(cluster, address(0), (first + 2) % 3);
                cluster.kill(next);
                cluster.run(Duration::from_secs(2));
                cluster.start_process(next);
                cluster.run(Duration::from_secs(5));
                cluster.set_candidates(address(0), &[0, 1, 2]);
            },
            |flush| match flush {
                ConntrackFlush::ActiveWithin(lasts) => lasts < Duration::from_mins(1),
                ConntrackFlush::Closed => false,
            },
        ),
        (
            "shut down",
            |cluster, first| {
                cluster.shut_down(first);
                cluster.run(milliseconds(500));
                cluster.kill(first);
                cluster.run(Duration::from_secs(5));
                cluster.start_process(first);
            },
            |flush| flush == ConntrackFlush::Closed,
        ),
        (
            "killed",
            |cluster, first| {
                cluster.kill(first);
                cluster.run(Duration::from_secs(5));
                cluster.start_process(first);
            },
            |flush| flush == ConntrackFlush::ActiveWithin(Duration::MAX),
        ),
        (
            "frozen",
            |cluster, first| cluster.freeze(first, Duration::from_secs(4)),
            |flush| match flush {
                ConntrackFlush::ActiveWithin(lasts) => lasts < Duration::from_secs(20),
                ConntrackFlush::Closed => false,
            },
        ),
    ]
}

/// Votes of others can precede the message of the last owner. Then the node flushes closed connections twice.
#[test]
fn returning_owner_flushes_connections_that_ended_elsewhere() {
    for (subject, disturb_owner, is_expected) in disturbances() {
        let mut informed = 0;
        for seed in 0..9 {
            let mut cluster = settled(seed, 3, 1);
            let first = cluster.expected_owner(address(0)).expect("an owner");
            cluster.flushes.clear();
            disturb_owner(&mut cluster, first);
            cluster.run(Duration::from_secs(15));
            assert_owned(&cluster);
            assert_eq!(cluster.owners(address(0)), [first]);
            let of_first = cluster.flushes.iter().filter(|(node, ..)| *node == first);
            let of_first: Vec<ConntrackFlush> = of_first.map(|(.., flush)| *flush).collect();
            let is_informed = of_first.len() == 1 && is_expected(of_first[0]);
            assert!(
                is_informed || of_first == [ConntrackFlush::Closed; 2],
                "{subject}, seed {seed}: {of_first:?}"
            );
            informed += usize::from(is_informed);
        }
        assert!(
            informed >= 5,
            "{subject}: {informed} times informed before the votes"
        );
    }
}

#[test]
fn connections_are_kept_if_the_address_had_no_other_owner() {
    for seed in seeds(10) {
        let mut cluster = settled(seed, 3, 1);
        let first = cluster.expected_owner(address(0)).expect("an owner");
        move_to(&mut cluster, address(0), first);
        cluster.flushes.clear();
        cluster.split(|node| node == first);
        cluster.run(Duration::from_secs(5));
        assert_eq!(cluster.owners(address(0)), [0; 0], "cut off");
        cluster.reconnect_all();
        cluster.run(Duration::from_secs(5));
        assert_owned(&cluster);
        assert_eq!(
            cluster.flushes,
            [(first, address(0), ConntrackFlush::Closed)],
            "seed {seed}"
        );
    }
}

#[test]
fn connections_are_forwarded_to_stopped_processes_not_to_failed_nodes() {
    for seed in seeds(20) {
        let mut cluster = settled(seed, 3, 1);
        let first = cluster.expected_owner(address(0)).expect("an owner");
        cluster.shut_down(first);
        cluster.run(milliseconds(500));
        let second = cluster.owners(address(0))[0];
        cluster.kill(first);
        cluster.run(Duration::from_secs(60));
        assert_eq!(
            cluster.forwarded_to(second, address(0)),
            Some(first),
            "its kernel goes on, seed {seed}"
        );
        // The node returns and has its address again.
        cluster.start_process(first);
        cluster.run(Duration::from_secs(5));
        assert_owned(&cluster);
        assert_eq!(
            cluster.forwardings(address(0)).collect::<Vec<_>>(),
            [(first, second)]
        );
        cluster.kill(second);
        cluster.run(Duration::from_secs(10));
        assert_eq!(
            cluster.forwardings(address(0)).count(),
            0,
            "a failed one, seed {seed}"
        );
        // The successor of a failed node forwards to no node.
        cluster.kill(first);
        cluster.start_process(second);
        cluster.run(Duration::from_secs(10));
        assert_eq!(cluster.forwardings(address(0)).count(), 0, "seed {seed}");
    }
}

#[test]
fn forwarding_ends_with_the_node_and_the_address() {
    for (seed, node_goes) in [(1, true), (2, false)] {
        let mut cluster = settled(seed, 3, 1);
        let first = cluster.expected_owner(address(0)).expect("an owner");
        let second = (first + 1) % 3;
        move_to(&mut cluster, address(0), second);
        assert_eq!(cluster.forwarded_to(second, address(0)), Some(first));
        if node_goes {
            cluster.shut_down(first);
            cluster.run(milliseconds(500));
            cluster.remove_node(first);
            cluster.run(Duration::from_secs(20));
        } else {
            cluster.remove_address(address(0));
            cluster.run(Duration::from_secs(1));
        }
        assert_eq!(cluster.forwarded_to(second, address(0)), None);
    }
}
