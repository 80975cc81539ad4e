//! An actor that deletes the record of members, and replaces it by copies and by text that no process can read.

use super::scenarios::{address, assert_owned, freeze_at_random, settled, split_at_random};
use super::*;

impl Cluster {
    /// Deletes the record; nodes receive the deletion, sooner or later.
    pub(super) fn delete_record(&mut self) {
        self.record = None;
        self.deliver_record();
    }

    /// Delivers the record to all nodes, sooner or later.
    pub(super) fn deliver_record(&mut self) {
        for node in 0..self.size() {
            let delay = milliseconds(self.random.u64(1..300));
            self.schedule(delay, Event::RecordDelivered { node });
        }
    }

    /// Replaces the record by another object, with a copy or without a readable record.
    fn replace_record(&mut self, record: Record, is_malformed: bool) {
        self.record_changes += 1;
        self.record = Some(StoredRecord {
            object: self.record_changes,
            version: self.record_changes,
            record,
            is_unkeyed: false,
            is_malformed,
        });
        self.deliver_record();
    }

    /// Returns true if a node knows a record that lists it.
    fn is_listed(&self, node: usize) -> bool {
        let host = &self.hosts[node];
        let record = host.election.as_ref().and_then(Election::record);
        record.is_some_and(|record| record.member(&host.name).is_some())
    }

    /// Ends all disturbances. The operator deletes the record, which may be a copy or malformed.
    fn recover(&mut self) {
        (self.loss, self.response_loss) = (0.0, 0.0);
        self.reconnect_all();
        for node in 0..self.size() {
            self.set_api(node, true);
        }
        self.run(Duration::from_secs(5));
        self.delete_record();
        self.run(Duration::from_secs(30));
    }
}

/// Returns a copy of the stored record.
fn record_of(cluster: &Cluster) -> Record {
    cluster.record().expect("a record").clone()
}

#[test]
fn members_keep_their_addresses_when_the_record_is_deleted() {
    for nodes in 1..=5 {
        for seed in 0..10 {
            let mut cluster = settled(seed, nodes, 4);
            let before = record_of(&cluster);
            let gains = cluster.gains;
            cluster.delete_record();
            cluster.run(Duration::from_secs(10));
            assert_owned(&cluster);
            assert_eq!(cluster.gains, gains, "no address moved, seed {seed}");
            let after = record_of(&cluster);
            assert_eq!(
                (&after.cluster, &after.members),
                (&before.cluster, &before.members)
            );
            assert!(after.epoch > before.epoch, "seed {seed}");
        }
    }
}

/// One node knows of the deletion, with and without a connection to the others.
#[test]
fn majority_without_the_api_goes_on_by_the_deleted_record() {
    for seed in seeds(20) {
        let mut cluster = settled(seed, 3, 4);
        let before = record_of(&cluster);
        let informed = (seed % 3) as usize;
        for node in (0..3).filter(|node| *node != informed) {
            cluster.set_api(node, false);
        }
        if seed % 2 == 0 {
            cluster.split(|node| node == informed);
        }
        cluster.delete_record();
        // Each step checks that no address has two owners.
        cluster.run(Duration::from_secs(10));
        for address in cluster.addresses() {
            assert_eq!(cluster.owners(address).len(), 1, "{address}, seed {seed}");
        }
        cluster.reconnect_all();
        for node in 0..3 {
            cluster.set_api(node, true);
        }
        cluster.run(Duration::from_secs(15));
        assert_owned(&cluster);
        let after = record_of(&cluster);
        assert_eq!(
            (after.cluster, after.members),
            (before.cluster, before.members),
            "seed {seed}"
        );
    }
}

/// Without the wait, the starting process would found a list of its own beside the members.
#[test]
fn process_that_starts_without_the_record_waits_for_the_members() {
    for seed in seeds(20) {
        let mut cluster = settled(seed, 3, 4);
        let before = record_of(&cluster);
        let starting = (seed % 3) as usize;
        cluster.kill(starting);
        cluster.run(Duration::from_secs(2));
        // The members read the deletion later.
        for node in (0..3).filter(|node| *node != starting) {
            cluster.set_api(node, false);
        }
        cluster.delete_record();
        cluster.start_process(starting);
        cluster.run(Duration::from_secs(3));
        for node in 0..3 {
            cluster.set_api(node, true);
        }
        cluster.run(Duration::from_secs(15));
        assert_owned(&cluster);
        assert_eq!(record_of(&cluster).cluster, before.cluster, "seed {seed}");
    }
}

#[test]
fn less_than_half_of_the_members_found_a_list_after_the_restart_of_one() {
    for seed in 0..10 {
        let mut cluster = settled(seed, 5, 4);
        let before = record_of(&cluster);
        for node in 0..3 {
            cluster.kill(node);
        }
        cluster.run(Duration::from_secs(2));
        cluster.delete_record();
        cluster.run(Duration::from_secs(10));
        assert!(cluster.record().is_none(), "seed {seed}");
        cluster.kill(3);
        cluster.start_process(3);
        cluster.run(Duration::from_secs(20));
        assert_owned(&cluster);
        let after = record_of(&cluster);
        assert_ne!(after.cluster, before.cluster, "seed {seed}");
        assert_eq!((after.members.len(), after.joining.len()), (2, 0), "seed {seed}");
    }
}

/// One of two nodes has the tie-breaker vote when the record is deleted, and cannot reach the API from then on.
#[test]
fn tie_breaker_of_a_deleted_record_stays_reserved() {
    let mut held = 0;
    for seed in seeds(40) {
        let mut cluster = settled(seed, 2, 4);
        cluster.split(|node| node == 0);
        cluster.run(Duration::from_secs(6));
        let owners = cluster.owners(address(0));
        held += owners.len();
        for owner in owners {
            cluster.set_api(owner, false);
        }
        cluster.delete_record();
        // Each step checks that no address has two owners.
        cluster.run(Duration::from_secs(8));
        assert_eq!(cluster.owners(address(0)).len(), 1, "seed {seed}");
        cluster.recover();
        assert_owned(&cluster);
    }
    assert_ne!(held, 0, "the seeds are not those that show it");
}

/// Random loss, one-way losses, partitions, freezes and absences of the API server, while an actor deletes the record,
/// restores copies of it, and makes it malformed. An address never has two owners, and the members remain.
/// `PORTOLAN_ANNOUNCER_SEEDS` sets the number of seeds.
#[test]
fn deletions_and_copies_of_the_record_never_cause_two_owners() {
    let seeds: u64 =
        std::env::var("PORTOLAN_ANNOUNCER_SEEDS").map_or(25, |seeds| seeds.parse().expect("a number"));
    for seed in 0..seeds {
        let mut cluster = settled(seed, 2 + (seed % 4) as usize, 4);
        let first = record_of(&cluster);
        let mut copies = vec![first.clone()];
        cluster.response_loss = 0.1;
        for _ in 0..80 {
            disturb(&mut cluster, &mut copies);
            let pause = milliseconds(cluster.random.u64(1..1_500));
            cluster.run(pause);
        }
        cluster.recover();
        assert_owned(&cluster);
        let last = record_of(&cluster);
        assert_eq!(
            (last.cluster, last.members),
            (first.cluster, first.members),
            "seed {seed}"
        );
    }
}

/// Disturbs the cluster or its record at random.
fn disturb(cluster: &mut Cluster, copies: &mut Vec<Record>) {
    let node = cluster.random.usize(..cluster.size());
    let other = cluster.random.usize(..cluster.size());
    match cluster.random.u32(..18) {
        0 => cluster.loss = cluster.random.f64() * 0.6,
        1 => cluster.loss = 0.0,
        2 => cluster.disconnect(node, other),
        3 => split_at_random(cluster),
        4 | 5 => cluster.reconnect_all(),
        6 => freeze_at_random(cluster, node),
        7 => cluster.set_api(node, false),
        8 | 9 => cluster.set_api(node, true),
        10 => {
            let some: Vec<usize> = (0..cluster.size()).filter(|_| cluster.random.bool()).collect();
            let number = cluster.random.u8(0..4);
            cluster.set_candidates(address(number), &some);
        }
        11..=13 => cluster.delete_record(),
        14 => {
            let copy = copies[cluster.random.usize(..copies.len())].clone();
            cluster.replace_record(copy, false);
        }
        15 => cluster.replace_record(copies[0].clone(), true),
        _ => copies.extend(cluster.record().cloned()),
    }
}

/// As above, while nodes join. A node without a list reads the record only while it exists: the node could found another
/// list beside members without the API.
#[test]
fn nodes_that_join_between_deletions_never_cause_two_owners() {
    for seed in seeds(25) {
        let mut cluster = settled(seed, 1 + (seed % 3) as usize, 2);
        let first = record_of(&cluster);
        cluster.response_loss = 0.1;
        for _ in 0..80 {
            disturb_joins(&mut cluster);
            let pause = milliseconds(cluster.random.u64(1..3_000));
            cluster.run(pause);
        }
        cluster.recover();
        assert_owned(&cluster);
        let last = record_of(&cluster);
        assert_eq!(
            (last.cluster, last.members.len(), last.joining.len()),
            (first.cluster, cluster.size(), 0),
            "seed {seed}"
        );
    }
}

/// Disturbs the cluster at random, adds a node or deletes the record.
fn disturb_joins(cluster: &mut Cluster) {
    let node = cluster.random.usize(..cluster.size());
    match cluster.random.u32(..12) {
        0 => cluster.loss = cluster.random.f64() * 0.4,
        1 => cluster.loss = 0.0,
        2 => split_at_random(cluster),
        3 | 4 => cluster.reconnect_all(),
        5 => freeze_at_random(cluster, node),
        6 => cluster.set_api(node, false),
        7 | 8 if cluster.record.is_some() || cluster.is_listed(node) => cluster.set_api(node, true),
        9 if cluster.record.is_some() && cluster.size() < 7 => {
            cluster.add_node();
            let all: Vec<usize> = (0..cluster.size()).collect();
            for number in 0..2 {
                cluster.set_candidates(address(number), &all);
            }
        }
        10 => {
            for node in 0..cluster.size() {
                if !cluster.is_listed(node) {
                    cluster.set_api(node, false);
                }
            }
            cluster.delete_record();
        }
        _ => {}
    }
}
