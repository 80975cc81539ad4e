//! Processes that end in order or are killed, and their successors.

use super::scenarios::{address, settled};
use super::*;
use crate::FENCING_INTERVAL;

impl Cluster {
    /// Ends a process as the driver does after the hand-over, or after its timeout. It reports its votes to a successor.
    pub(super) fn end(&mut self, node: usize) {
        let now = self.clock(node);
        let host = &mut self.hosts[node];
        if host.is_frozen {
            return;
        }
        let Some(election) = &mut host.election else {
            return;
        };
        election.leave(now);
        election.give_up(now);
        self.follow_up(node);
        let host = &mut self.hosts[node];
        let ended = host.election.take();
        // The version without keys reports nothing.
        let ended = ended.filter(|_| !host.is_unkeyed);
        host.report = ended.map(|election| (now, election.votes_until()));
        host.owned_at_kill.clear();
        host.backlog.clear();
    }

    /// Kills a process whose successor waits, and follows its report.
    pub(super) fn kill_followed(&mut self, node: usize) {
        let now = self.clock(node);
        let host = &self.hosts[node];
        // The version without keys reports nothing.
        let election = host.election.as_ref().filter(|_| !host.is_unkeyed);
        let is_free = election.is_some_and(|election| election.is_free_of_votes(now));
        self.kill(node);
        self.hosts[node].report = is_free.then_some((now, now));
    }

    /// Passes the report of the predecessor to a process that starts.
    pub(super) fn pass_report(&mut self, node: usize, election: &mut Election) {
        let now = self.clock(node);
        let report = self.hosts[node].report.take();
        if let Some((reported, votes_until)) = report
            && now.saturating_sub(reported) < FENCING_INTERVAL
        {
            election.succeed(votes_until);
        }
    }
}

/// Returns true if a node has all addresses.
fn owns_all(cluster: &Cluster, node: usize) -> bool {
    let addresses = cluster.addresses();
    addresses
        .into_iter()
        .all(|address| cluster.owners(address) == [node])
}

#[test]
fn successor_on_a_node_that_is_alone_answers_at_once() {
    for seed in 0..20 {
        let mut cluster = settled(seed, 1, 3);
        for end in [
            Cluster::end,
            Cluster::kill_followed,
            Cluster::end,
            Cluster::kill_followed,
        ] {
            end(&mut cluster, 0);
            cluster.boot(0);
            let end = cluster.now + milliseconds(50);
            assert!(
                cluster.run_until(end, |cluster| owns_all(cluster, 0)),
                "seed {seed}"
            );
        }
        cluster.kill(0);
        cluster.boot(0);
        let end = cluster.now + milliseconds(600);
        let is_answered = |cluster: &Cluster| !cluster.owners(address(0)).is_empty();
        assert!(!cluster.run_until(end, is_answered), "no report, seed {seed}");
        cluster.run(Duration::from_secs(1));
        assert!(owns_all(&cluster, 0), "seed {seed}");
    }
}

/// The predecessor granted votes to a node that is no member any more, and that does not know it yet.
#[test]
fn successor_waits_for_the_votes_of_its_predecessor() {
    let mut kept = 0;
    for seed in 0..40 {
        let mut cluster = settled(seed, 2, 4);
        let name = cluster.name(1);
        cluster.set_api(1, false);
        cluster.nodes.remove(&name);
        cluster.set_nodes();
        let end = cluster.now + Duration::from_secs(20);
        let is_alone = |cluster: &Cluster| {
            let election = cluster.hosts[0].election.as_ref();
            let record = election.and_then(Election::record);
            record.is_some_and(|record| record.members.len() == 1)
        };
        assert!(cluster.run_until(end, is_alone), "seed {seed}");
        kept += (0..4)
            .filter(|number| cluster.owners(address(*number)) == [1])
            .count();
        if seed % 2 == 0 {
            cluster.end(0);
        } else {
            cluster.kill_followed(0);
        }
        cluster.boot(0);
        // Each step checks that no address has two owners.
        cluster.run(Duration::from_secs(3));
        assert!(owns_all(&cluster, 0), "seed {seed}");
    }
    assert_ne!(kept, 0, "the seeds are not those that show it");
}

/// A successor does not use the report of a process before its predecessor.
#[test]
fn report_serves_one_process() {
    let mut cluster = settled(1, 1, 1);
    cluster.end(0);
    cluster.boot(0);
    cluster.kill(0);
    cluster.boot(0);
    let end = cluster.now + milliseconds(600);
    let is_answered = |cluster: &Cluster| !cluster.owners(address(0)).is_empty();
    assert!(!cluster.run_until(end, is_answered));
}
