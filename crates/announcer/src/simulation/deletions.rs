//! Deletions of the member list, and the founders of the next one.

use super::scenarios::{address, assert_owned, settled};
use super::succession::owns_all;
use super::*;

/// Longest delay of a change of the API to nodes that reach it, with a reserve.
const DELIVERY_MAX: Duration = Duration::from_millis(400);

impl Cluster {
    /// Deletes the record; nodes learn it, sooner or later.
    pub(super) fn delete_record(&mut self) {
        self.record = None;
        for node in 0..self.size() {
            let delay = milliseconds(self.random.u64(1..300));
            self.schedule(delay, Event::RecordDelivered { node });
        }
    }

    /// Deletes the record if all processes know one and none is frozen, and waits until they have learned of it. Members
    /// that do not learn of it could keep a majority of the former list.
    pub(super) fn delete_record_everywhere(&mut self) {
        for node in 0..self.size() {
            self.set_api(node, true);
        }
        let mut processes = self
            .hosts
            .iter()
            .filter_map(|host| Some((host, host.election.as_ref()?)));
        if processes.all(|(host, election)| !host.is_frozen && election.record().is_some()) {
            self.delete_record();
            self.run(DELIVERY_MAX);
        }
    }
}

/// The owner has the tie-breaker of the deleted list, and does not learn of the deletion.
#[test]
fn founder_waits_for_the_tie_breaker_of_the_deleted_list() {
    let mut kept = 0;
    for seed in 0..40 {
        let mut cluster = settled(seed, 2, 4);
        cluster.split(|node| node == 0);
        cluster.run(Duration::from_secs(6));
        let owner = usize::from(owns_all(&cluster, 1));
        assert!(owns_all(&cluster, owner), "seed {seed}");
        cluster.set_api(owner, false);
        cluster.delete_record();
        // Each step checks that no address has two owners.
        cluster.run(milliseconds(500));
        kept += usize::from(owns_all(&cluster, owner));
        cluster.run(Duration::from_secs(8));
        assert!(owns_all(&cluster, 1 - owner), "seed {seed}");
    }
    assert_ne!(kept, 0, "the seeds are not those that show it");
}

#[test]
fn nodes_join_the_list_that_follows_a_deleted_one() {
    for seed in 0..20 {
        let nodes = 2 + (seed % 4) as usize;
        let mut cluster = settled(seed, nodes, 4);
        cluster.delete_record();
        cluster.run(Duration::from_secs(30));
        assert_owned(&cluster);
        let record = cluster.record().expect("a record");
        assert_eq!((record.members.len(), record.joining.len()), (nodes, 0));
    }
}

#[test]
fn only_node_founds_a_list_at_once() {
    for seed in 0..20 {
        let mut cluster = Cluster::start(seed, 1);
        cluster.set_candidates(address(0), &[0]);
        let is_owned = |cluster: &Cluster| owns_all(cluster, 0);
        let end = cluster.now + milliseconds(1_200);
        assert!(cluster.run_until(end, is_owned), "first list, seed {seed}");
        cluster.delete_record();
        let end = cluster.now + DELIVERY_MAX;
        assert!(
            cluster.run_until(end, |cluster| !owns_all(cluster, 0)),
            "the list is gone, seed {seed}"
        );
        let end = cluster.now + DELIVERY_MAX;
        assert!(cluster.run_until(end, is_owned), "next list, seed {seed}");
    }
}
