//! Attacks on the path between nodes.

use std::net::Ipv4Addr;

use super::attacker::Attacker;
use super::*;

fn address(number: u8) -> IpAddr {
    Ipv4Addr::new(198, 51, 100, number).into()
}

/// Starts a cluster that has settled, with an attacker who has read all datagrams.
fn attacked(seed: u64, nodes: usize) -> Cluster {
    let mut cluster = Cluster::start(seed, nodes);
    cluster.attacker = Some(Attacker::default());
    let all: Vec<usize> = (0..nodes).collect();
    for number in 0..4 {
        cluster.set_candidates(address(number), &all);
    }
    cluster.run(Duration::from_secs(30));
    assert_owned(&cluster);
    cluster
}

fn assert_owned(cluster: &Cluster) {
    for address in cluster.addresses() {
        let expected: Vec<usize> = cluster.expected_owner(address).into_iter().collect();
        assert_eq!(cluster.owners(address), expected, "owners of {address}");
    }
}

/// Advances the time while the attacker performs that many attacks.
fn run_attacked(cluster: &mut Cluster, attacks: usize) {
    for _ in 0..attacks {
        cluster.attack();
        cluster.run(milliseconds(10));
    }
}

/// Regression: one datagram of an earlier process made its receiver ignore the current one.
#[test]
fn datagrams_of_earlier_processes_change_nothing() {
    for seed in seeds(10) {
        let mut cluster = attacked(seed, 3);
        let recorded = cluster.attacker.take().expect("an attacker").recorded;
        for node in [1, 2, 0] {
            cluster.kill(node);
            cluster.start_process(node);
            cluster.run(Duration::from_secs(10));
        }
        assert_owned(&cluster);
        let gains = cluster.gains;
        for datagram in recorded {
            cluster.deliver(milliseconds(1), datagram);
            cluster.run(milliseconds(5));
        }
        cluster.run(Duration::from_secs(5));
        assert_owned(&cluster);
        assert_eq!(cluster.gains, gains, "no address moved, seed {seed}");
    }
}

/// Attacks: copies, forgeries in the names of others with the keys of one member, and messages from other addresses.
#[test]
fn forged_and_repeated_datagrams_move_no_address() {
    for seed in seeds(10) {
        let nodes = 3 + (seed % 3) as usize;
        let mut cluster = attacked(seed, nodes);
        cluster.attacker.as_mut().expect("an attacker").member = Some(nodes - 1);
        let gains = cluster.gains;
        run_attacked(&mut cluster, 3_000);
        assert_owned(&cluster);
        assert_eq!(cluster.gains, gains, "no address moved, seed {seed}");
    }
}

/// A node that leaves the list and returns is the same process with the same keys.
#[test]
fn copies_do_not_revive_a_node_that_returns_to_the_list() {
    for seed in seeds(5) {
        let mut cluster = attacked(seed, 3);
        let name = cluster.name(2);
        let kept: Vec<_> = {
            let attacker = cluster.attacker.take().expect("an attacker");
            let source = cluster.hosts[2].address;
            let node_datagrams = attacker
                .recorded
                .into_iter()
                .filter(|datagram| datagram.from == source);
            node_datagrams.collect()
        };
        cluster.nodes.remove(&name);
        cluster.set_nodes();
        cluster.run(Duration::from_secs(15));
        cluster.split(|node| node == 2);
        cluster.nodes.insert(name);
        cluster.set_nodes();
        cluster.run(Duration::from_secs(5));
        let owned: Vec<_> = cluster
            .addresses()
            .iter()
            .map(|address| cluster.owners(*address))
            .collect();
        for datagram in kept {
            cluster.deliver(milliseconds(1), datagram);
            cluster.run(milliseconds(5));
        }
        let reachable = cluster.seen_by(0, address(0)).1;
        assert_eq!(
            reachable,
            [true, true, false],
            "no node receives its messages, seed {seed}"
        );
        let still: Vec<_> = cluster
            .addresses()
            .iter()
            .map(|address| cluster.owners(*address))
            .collect();
        assert_eq!(owned, still, "seed {seed}");
    }
}

/// Withheld datagrams of a failed node keep others from electing a new owner for a short time only.
#[test]
fn failed_owner_is_replaced_despite_withheld_datagrams() {
    for seed in seeds(10) {
        let mut cluster = attacked(seed, 3);
        let owner = cluster.expected_owner(address(0)).expect("an owner");
        cluster.attacker.as_mut().expect("an attacker").holding = 0.6;
        cluster.run(Duration::from_secs(20));
        cluster.kill(owner);
        cluster.attacker.as_mut().expect("an attacker").holding = 0.0;
        let end = cluster.now + Duration::from_secs(6);
        while cluster.now < end {
            run_attacked(&mut cluster, 1);
        }
        assert_owned(&cluster);
    }
}
