//! Scenarios of whole clusters.

use std::net::Ipv4Addr;

use super::attacker::Attacker;
use super::*;
use crate::FENCING_INTERVAL;
use crate::election::capabilities::LinkSetId;

/// Links of addresses whose pools select links.
const LINKS: LinkSetId = LinkSetId(7);

/// Address with this number.
pub(super) fn address(number: u8) -> IpAddr {
    Ipv4Addr::new(198, 51, 100, number).into()
}

/// Requirements of addresses, in turn.
fn requirements(number: u8) -> Requirements {
    Requirements {
        edge: number & 1 != 0,
        links: (number & 2 != 0).then_some(LINKS),
    }
}

/// Random capabilities of a node.
fn capabilities(random: &mut fastrand::Rng) -> NodeCapabilities {
    let missing_links = random.bool().then_some(LINKS);
    NodeCapabilities {
        has_edge: random.bool(),
        missing_links: missing_links.into_iter().collect(),
    }
}

/// Capabilities that satisfy all requirements.
fn full_capabilities() -> NodeCapabilities {
    NodeCapabilities {
        has_edge: true,
        missing_links: BTreeSet::new(),
    }
}

/// Starts a cluster that has settled, with addresses for which every node is a candidate.
pub(super) fn settled(seed: u64, nodes: usize, addresses: u8) -> Cluster {
    let mut cluster = Cluster::start(seed, nodes);
    let all: Vec<usize> = (0..nodes).collect();
    for number in 0..addresses {
        cluster.set_candidates(address(number), &all);
    }
    cluster.run(Duration::from_secs(30));
    assert_owned(&cluster);
    let record = cluster.record().expect("a record");
    assert_eq!((record.members.len(), record.joining.len()), (nodes, 0));
    assert_eq!(record.tie_breaker, None);
    cluster
}

/// Checks that each address has its expected owner, and that each forwarding chain ends.
pub(super) fn assert_owned(cluster: &Cluster) {
    for address in cluster.addresses() {
        let expected: Vec<usize> = cluster.expected_owner(address).into_iter().collect();
        assert_eq!(cluster.owners(address), expected, "owners of {address}");
        for (from, to) in cluster.forwardings(address) {
            assert_ne!(expected, [to], "{from} forwards to the owner of {address}");
            let last = (0..cluster.size()).try_fold(from, |at, _| cluster.forwarded_to(at, address));
            assert_eq!(last, None, "{address} is forwarded in a circle from {from}");
        }
    }
}

#[test]
fn clusters_settle_and_then_do_not_need_the_api() {
    for nodes in 1..=6 {
        let mut cluster = settled(nodes as u64, nodes, 6);
        let (writes, gains) = (cluster.writes, cluster.gains);
        cluster.run(Duration::from_secs(60));
        assert_eq!((cluster.writes, cluster.gains), (writes, gains), "{nodes} nodes");
    }
}

#[test]
fn members_report_owners_and_unreachable_members() {
    let mut cluster = settled(1, 4, 5);
    for address in cluster.addresses() {
        let owner = cluster.expected_owner(address).map(|node| cluster.name(node));
        for node in 0..4 {
            assert_eq!(cluster.seen_by(node, address), (owner.clone(), vec![true; 4]));
        }
    }
    cluster.kill(3);
    cluster.run(Duration::from_secs(10));
    for address in cluster.addresses() {
        let owner = cluster.expected_owner(address).map(|node| cluster.name(node));
        for node in 0..3 {
            let seen = cluster.seen_by(node, address);
            assert_eq!(seen, (owner.clone(), vec![true, true, true, false]), "{address}");
        }
    }
}

#[test]
fn failed_owner_is_replaced_with_and_without_the_api() {
    for (nodes, has_api) in [(3, false), (5, false), (2, true), (4, true)] {
        for seed in seeds(20) {
            let mut cluster = settled(seed, nodes, 3);
            let owner = cluster.expected_owner(address(0)).expect("an owner");
            for node in 0..nodes {
                cluster.set_api(node, has_api);
            }
            let gains = cluster.gains;
            let moves = (0..3)
                .filter(|number| cluster.expected_owner(address(*number)) == Some(owner))
                .count();
            cluster.kill(owner);
            let failed_at = cluster.now;
            let is_replaced = |cluster: &Cluster| !cluster.owners(address(0)).is_empty();
            let limit = Duration::from_millis(if has_api { 1_300 } else { 1_000 });
            assert!(
                cluster.run_until(failed_at + limit, is_replaced),
                "{nodes} nodes, seed {seed}"
            );
            cluster.run(Duration::from_secs(3));
            assert_owned(&cluster);
            // Taking the tie-breaker may last longer than the votes of the failed node.
            if nodes % 2 == 1 {
                assert_eq!(
                    cluster.gains,
                    gains + moves,
                    "only addresses of the failed node move"
                );
            }
        }
    }
}

#[test]
fn partitioned_pair_has_one_serving_node() {
    for seed in seeds(20) {
        let mut cluster = settled(seed, 2, 4);
        cluster.split(|node| node == 0);
        cluster.run(Duration::from_secs(6));
        let owners: BTreeSet<Vec<usize>> = cluster
            .addresses()
            .iter()
            .map(|address| cluster.owners(*address))
            .collect();
        assert_eq!(owners.len(), 1, "all addresses are with one of them");
        assert_eq!(owners.first().map(Vec::len), Some(1));
        cluster.reconnect_all();
        cluster.run(Duration::from_secs(10));
        assert_owned(&cluster);
        assert_eq!(cluster.record().expect("a record").tie_breaker, None);
    }
}

#[test]
fn leaving_node_is_replaced_at_once() {
    for nodes in [2, 3, 5] {
        let mut cluster = settled(7, nodes, 4);
        let owner = cluster.expected_owner(address(0)).expect("an owner");
        cluster.shut_down(owner);
        let end = cluster.now + milliseconds(100);
        let is_followed = |cluster: &Cluster| {
            cluster
                .addresses()
                .iter()
                .all(|address| !cluster.owners(*address).contains(&owner))
        };
        assert!(cluster.run_until(end, is_followed), "{nodes} nodes");
        cluster.run(milliseconds(300));
        cluster.kill(owner);
        cluster.run(Duration::from_secs(6));
        assert_owned(&cluster);
    }
}

#[test]
fn frozen_owner_is_replaced_and_resumes_without_its_addresses() {
    for seed in seeds(20) {
        let mut cluster = settled(seed, 3, 4);
        let owner = cluster.expected_owner(address(0)).expect("an owner");
        cluster.freeze(owner, Duration::from_secs(4));
        cluster.run(FENCING_INTERVAL * 2);
        assert_eq!(cluster.owners(address(0)).len(), 1, "replaced");
        cluster.run(Duration::from_secs(10));
        assert_owned(&cluster);
    }
}

/// All nodes receive messages of a node that receives none; they must not wait for it.
#[test]
fn nodes_that_cannot_receive_or_send_are_passed_over() {
    for is_deaf in [true, false] {
        let mut cluster = settled(3, 3, 4);
        let owner = cluster.expected_owner(address(0)).expect("an owner");
        for other in (0..3).filter(|node| *node != owner) {
            let (from, to) = if is_deaf { (other, owner) } else { (owner, other) };
            cluster.disconnect(from, to);
        }
        cluster.run(Duration::from_secs(3));
        for address in cluster.addresses() {
            let owners = cluster.owners(address);
            assert!(owners.len() == 1 && owners[0] != owner, "{owners:?}");
        }
        cluster.reconnect_all();
        cluster.run(Duration::from_secs(5));
        assert_owned(&cluster);
    }
}

#[test]
fn cluster_grows_and_shrinks_with_its_nodes() {
    for seed in seeds(5) {
        let mut cluster = settled(seed, 1, 4);
        for size in 2..=5 {
            cluster.add_node();
            let all: Vec<usize> = (0..size).collect();
            for number in 0..4 {
                cluster.set_candidates(address(number), &all);
            }
            cluster.run(Duration::from_secs(15));
            assert_owned(&cluster);
            assert_eq!(cluster.record().expect("a record").members.len(), size);
        }
        for size in (1..=4).rev() {
            cluster.remove_node(size);
            cluster.run(Duration::from_secs(30));
            assert_owned(&cluster);
            assert_eq!(cluster.record().expect("a record").members.len(), size);
        }
    }
}

/// A node that lacks the requirements must not own the address, even if it would win otherwise.
#[test]
fn announcing_nodes_satisfy_the_requirements() {
    for seed in seeds(20) {
        let mut cluster = settled(seed, 4, 4);
        let all: Vec<usize> = (0..4).collect();
        let first = cluster.expected_owner(address(0)).expect("an owner");
        for node in all.iter().copied().filter(|node| *node != first) {
            cluster.set_capabilities(node, full_capabilities());
        }
        let needy = Requirements {
            edge: true,
            links: None,
        };
        cluster.set_candidates_with(address(0), &all, needy);
        cluster.run(Duration::from_secs(3));
        assert_owned(&cluster);
        assert_ne!(cluster.expected_owner(address(0)), Some(first));

        // The node loses the links of another address, and owns the address again when the links are back.
        let links = Requirements {
            edge: false,
            links: Some(LINKS),
        };
        cluster.set_candidates_with(address(1), &all, links);
        cluster.run(Duration::from_secs(3));
        let second = cluster.expected_owner(address(1)).expect("an owner");
        let before = cluster.hosts[second].capabilities.clone();
        let lacking = NodeCapabilities {
            missing_links: BTreeSet::from([LINKS]),
            ..before.clone()
        };
        cluster.set_capabilities(second, lacking);
        let end = cluster.now + milliseconds(600);
        let is_moved = |cluster: &Cluster| {
            let owners = cluster.owners(address(1));
            owners.len() == 1 && owners[0] != second
        };
        assert!(cluster.run_until(end, is_moved), "seed {seed}");
        cluster.set_capabilities(second, before);
        cluster.run(Duration::from_secs(3));
        assert_owned(&cluster);
        assert_eq!(cluster.owners(address(1)), [second]);

        // No node owns the address, so no node responds.
        for node in 0..4 {
            cluster.set_capabilities(node, NodeCapabilities::default());
        }
        cluster.run(Duration::from_secs(1));
        assert_eq!(cluster.owners(address(0)), [0; 0]);
    }
}

/// Nodes are upgraded one after another from the version without keys, and the versions ignore each other's messages.
/// Two majorities would show as two owners.
#[test]
fn upgrade_from_the_version_without_keys_ends_with_every_address_owned() {
    for seed in seeds(20) {
        let nodes = 1 + (seed % 5) as usize;
        let mut cluster = Cluster::of_version(seed, nodes, true);
        let all: Vec<usize> = (0..nodes).collect();
        for number in 0..4 {
            cluster.set_candidates(address(number), &all);
        }
        cluster.run(Duration::from_secs(30));
        assert_owned(&cluster);
        for node in 0..nodes {
            cluster.shut_down(node);
            cluster.run(milliseconds(500));
            cluster.upgrade(node);
            cluster.run(milliseconds(500));
            cluster.start_process(node);
            cluster.run(Duration::from_secs(15));
            // The version with the majority answers. With the tie-breaker, half of the nodes are a majority.
            let upgraded = node + 1;
            if 2 * upgraded != nodes {
                let owners = cluster.owners(address(0));
                assert_eq!(owners.len(), 1, "{upgraded} of {nodes} upgraded, seed {seed}");
            }
        }
        cluster.run(Duration::from_secs(20));
        assert_owned(&cluster);
        let record = cluster.record().expect("a record");
        assert!(
            record
                .members_and_joining()
                .all(|(_, member)| member.process.is_some())
        );
    }
}

/// Random loss, one-way losses, partitions, freezes, crashes, successions, absences of the API server, new
/// nodes, upgrades, and an attacker who controls a node. An address never has two owners, and the
/// cluster settles soon after the last disturbance. `PORTOLAN_ANNOUNCER_SEEDS` sets the number of seeds.
#[test]
fn disturbances_never_cause_two_owners_and_the_cluster_settles() {
    let seeds: u64 =
        std::env::var("PORTOLAN_ANNOUNCER_SEEDS").map_or(25, |seeds| seeds.parse().expect("a number"));
    for seed in 0..seeds {
        // Every third cluster is of the version before keys at first.
        let mut cluster = Cluster::of_version(seed, 1 + (seed % 5) as usize, seed % 3 == 2);
        cluster.attacker = Some(Attacker::default());
        let all: Vec<usize> = (0..cluster.size()).collect();
        for number in 0..4 {
            cluster.set_candidates_with(address(number), &all, requirements(number));
        }
        cluster.response_loss = 0.1;
        for _ in 0..80 {
            disturb(&mut cluster);
            let pause = milliseconds(cluster.random.u64(1..1_500));
            let end = cluster.now + pause;
            while cluster.now < end {
                cluster.attack();
                cluster.run(milliseconds(100));
            }
        }
        (cluster.loss, cluster.response_loss) = (0.0, 0.0);
        if let Some(attacker) = &mut cluster.attacker {
            attacker.holding = 0.0;
        }
        cluster.reconnect_all();
        for node in 0..cluster.size() {
            cluster.set_api(node, true);
            if cluster.hosts[node].is_unkeyed {
                cluster.upgrade(node);
            }
            cluster.start_process(node);
        }
        // The attacker continues.
        for _ in 0..400 {
            cluster.attack();
            cluster.run(milliseconds(100));
        }
        assert_owned(&cluster);
        for number in 0..4 {
            assert_eq!(cluster.unqualified_owners(address(number)), [0; 0], "seed {seed}");
        }
        assert!(
            cluster.record().expect("a record").joining.is_empty(),
            "seed {seed}"
        );
    }
}

/// Cuts the network between a random part of the nodes and the others.
pub(super) fn split_at_random(cluster: &mut Cluster) {
    let side = cluster.random.u64(..);
    cluster.split(|node| side >> node & 1 == 0);
}

/// Freezes a process for a random time.
pub(super) fn freeze_at_random(cluster: &mut Cluster, node: usize) {
    let duration = milliseconds(cluster.random.u64(1..4_000));
    cluster.freeze(node, duration);
}

/// Disturbs the cluster at random.
fn disturb(cluster: &mut Cluster) {
    let node = cluster.random.usize(..cluster.size());
    let other = cluster.random.usize(..cluster.size());
    match cluster.random.u32(..24) {
        0 => cluster.loss = cluster.random.f64() * 0.6,
        1 => cluster.loss = 0.0,
        2 | 3 => cluster.disconnect(node, other),
        4 => split_at_random(cluster),
        5 | 6 => cluster.reconnect_all(),
        7 => freeze_at_random(cluster, node),
        8 if cluster.random.bool() => cluster.kill_followed(node),
        8 => cluster.kill(node),
        9 | 10 => cluster.start_process(node),
        11 => cluster.set_api(node, false),
        12 | 13 => cluster.set_api(node, true),
        14 => {
            let some: Vec<usize> = (0..cluster.size()).filter(|_| cluster.random.bool()).collect();
            let number = cluster.random.u8(0..4);
            cluster.set_candidates(address(number), &some);
        }
        16 | 17 => {
            let capabilities = capabilities(&mut cluster.random);
            cluster.set_capabilities(node, capabilities);
        }
        18 => cluster.upgrade(node),
        19 | 20 => {
            let holding = cluster.random.f64() * cluster.random.f64();
            let member = cluster.random.bool().then_some(node);
            if let Some(attacker) = &mut cluster.attacker {
                (attacker.holding, attacker.member) = (holding, member);
            }
        }
        22 => cluster.end(node),
        23 => {
            cluster.end(node);
            cluster.start_process(node);
        }
        _ if cluster.size() < 7 => cluster.add_node(),
        _ => {}
    }
}
