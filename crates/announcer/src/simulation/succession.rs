//! Processes that end in order or are killed, and their successors.

use super::scenarios::{address, assert_owned, settled};
use super::*;
use crate::FENCING_INTERVAL;

impl Cluster {
    /// Kills a process.
    pub(crate) fn kill(&mut self, node: usize) {
        let host = &mut self.hosts[node];
        if let Some(election) = host.election.take().filter(|_| !host.is_shutting_down) {
            host.owned_at_kill = election.persisted_addresses().collect();
        }
        host.is_frozen = false;
        host.backlog.clear();
    }

    /// Starts the shutdown of a process.
    pub(crate) fn shut_down(&mut self, node: usize) {
        let now = self.clock(node);
        let host = &mut self.hosts[node];
        if let Some(election) = &mut host.election {
            host.is_shutting_down = true;
            election.leave(now);
            self.follow_up(node);
        }
    }

    /// Ends a process as the driver does after the release of its addresses, or after the timeout. It reports its votes
    /// to a successor.
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

    /// Starts a process that waits for the end of the present one of its node.
    fn wait_behind(&mut self, node: usize) {
        self.hosts[node].standing_report = Some(false);
        self.follow_up(node);
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

/// Starts a cluster of which one node is left, whose votes are free.
fn alone_again(seed: u64, addresses: u8) -> Cluster {
    let mut cluster = settled(seed, 2, addresses);
    cluster.remove_node(1);
    let end = cluster.now + Duration::from_secs(20);
    assert!(cluster.run_until(end, is_alone), "seed {seed}");
    cluster.run(Duration::from_secs(2));
    assert!(owns_all(&cluster, 0), "seed {seed}");
    cluster
}

/// Returns true if the first node has a member list with itself as the only member.
fn is_alone(cluster: &Cluster) -> bool {
    let election = cluster.hosts[0].election.as_ref();
    let record = election.and_then(Election::record);
    record.is_some_and(|record| record.members.len() == 1)
}

/// Starts a process on the first node. Returns true if it has all addresses within a duration.
fn answers_within(cluster: &mut Cluster, duration: Duration) -> bool {
    cluster.start_process(0);
    let end = cluster.now + duration;
    cluster.run_until(end, |cluster| owns_all(cluster, 0))
}

#[test]
fn successor_on_a_node_that_was_always_alone_answers_at_once() {
    for seed in seeds(20) {
        let mut cluster = settled(seed, 1, 3);
        for end in [Cluster::end, Cluster::kill_followed, Cluster::kill, Cluster::kill] {
            end(&mut cluster, 0);
            assert!(answers_within(&mut cluster, milliseconds(50)), "seed {seed}");
        }
        cluster.end(0);
        cluster.run(FENCING_INTERVAL * 2);
        assert!(
            answers_within(&mut cluster, milliseconds(50)),
            "expired report, seed {seed}"
        );
    }
}

#[test]
fn successor_on_a_node_alone_again_answers_at_once_with_a_report() {
    for seed in seeds(20) {
        let mut cluster = alone_again(seed, 3);
        for end in [Cluster::end, Cluster::kill_followed, Cluster::end] {
            end(&mut cluster, 0);
            assert!(answers_within(&mut cluster, milliseconds(50)), "seed {seed}");
        }
        cluster.kill(0);
        assert!(
            !answers_within(&mut cluster, milliseconds(600)),
            "no report, seed {seed}"
        );
        cluster.run(Duration::from_secs(1));
        assert!(owns_all(&cluster, 0), "seed {seed}");
    }
}

/// The process that waits ends within two seconds, before its predecessor.
#[test]
fn predecessor_continues_if_its_successor_exits() {
    for seed in seeds(20) {
        let mut cluster = settled(seed, 1, 3);
        cluster.wait_behind(0);
        let end = cluster.now + milliseconds(cluster.random.u64(1..2_000));
        let is_lost = |cluster: &Cluster| !owns_all(cluster, 0);
        assert!(!cluster.run_until(end, is_lost), "seed {seed}");
        assert_eq!(cluster.hosts[0].standing_report, Some(true), "seed {seed}");
        cluster.hosts[0].standing_report = None;
        let end = cluster.now + Duration::from_secs(3);
        assert!(!cluster.run_until(end, is_lost), "seed {seed}");
        // The node votes for other nodes as before.
        cluster.add_node();
        for number in 0..3 {
            cluster.set_candidates(address(number), &[0, 1]);
        }
        cluster.run(Duration::from_secs(15));
        assert_owned(&cluster);
        assert_eq!(cluster.record().expect("a record").members.len(), 2);
    }
}

#[test]
fn standing_report_is_withdrawn_when_another_node_joins() {
    for seed in seeds(20) {
        let mut cluster = settled(seed, 1, 3);
        cluster.wait_behind(0);
        assert_eq!(cluster.hosts[0].standing_report, Some(true), "seed {seed}");
        cluster.add_node();
        for number in 0..3 {
            cluster.set_candidates(address(number), &[0, 1]);
        }
        cluster.run(Duration::from_secs(15));
        assert_eq!(cluster.hosts[0].standing_report, Some(false), "seed {seed}");
        // Each step checks that no address has two owners.
        cluster.kill(0);
        cluster.start_process(0);
        cluster.run(Duration::from_secs(10));
        assert_owned(&cluster);
    }
}

/// The predecessor of the founder of a new list granted votes by the deleted list, to a node that does not receive the
/// new one.
#[test]
fn founder_does_not_answer_beside_a_node_of_the_deleted_list() {
    let mut kept = 0;
    for seed in 0..40 {
        let mut cluster = settled(seed, 2, 4);
        cluster.set_api(1, false);
        kept += (0..4)
            .filter(|number| cluster.owners(address(*number)) == [1])
            .count();
        cluster.kill(0);
        cluster.delete_record();
        cluster.start_process(0);
        let end = cluster.now + Duration::from_secs(8);
        assert!(cluster.run_until(end, is_alone), "seed {seed}");
        cluster.kill(0);
        cluster.start_process(0);
        // Each step checks that no address has two owners.
        cluster.run(Duration::from_secs(3));
        assert!(owns_all(&cluster, 0), "seed {seed}");
    }
    assert_ne!(kept, 0, "the seeds are not those that show it");
}

/// The predecessor granted votes to a node that is no longer a member, but has not received the new member list.
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
        assert!(cluster.run_until(end, is_alone), "seed {seed}");
        kept += (0..4)
            .filter(|number| cluster.owners(address(*number)) == [1])
            .count();
        if seed % 2 == 0 {
            cluster.end(0);
        } else {
            cluster.kill_followed(0);
        }
        cluster.start_process(0);
        // Each step checks that no address has two owners.
        cluster.run(Duration::from_secs(3));
        assert!(owns_all(&cluster, 0), "seed {seed}");
    }
    assert_ne!(kept, 0, "the seeds are not those that show it");
}

/// A successor does not use the report of a process before its predecessor.
#[test]
fn report_serves_one_process() {
    let mut cluster = alone_again(1, 1);
    cluster.end(0);
    cluster.start_process(0);
    cluster.kill(0);
    assert!(!answers_within(&mut cluster, milliseconds(600)));
}
