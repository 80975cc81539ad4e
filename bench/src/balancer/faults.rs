//! Faults of the owner of an address that do not kill it: the time without replies, and replies of two nodes at once.

use std::process::Command;
use std::time::{Duration, Instant};

use testbed::Member;
use testbed::arp_client::{ArpClient, EthernetAddress};

use super::arp_client::REQUEST_PERIOD;
use super::moves::{RECOVERY_PAUSE, set_link};
use super::{ADDRESS, Node};
use crate::Failure;
use crate::environment::{Environment, TIMEOUT};
use crate::percentiles::Percentiles;

/// Duration of a fault after another node replies.
const FAULT_DURATION: Duration = Duration::from_secs(2);
/// Observation time after the fault is resolved.
const OBSERVATION: Duration = Duration::from_millis(500);
/// Fencing interval: two nodes that reply alternately within it both act as the owner.
const FENCING_INTERVAL: Duration = Duration::from_millis(700);
/// nftables table with the rules that drop probes.
const TABLE: &str = "bench-fault";
/// Rule that drops all incoming probes.
const DROP_PROBES: &str = "udp dport 7947 drop";

/// Fault of an owner.
#[derive(Clone, Copy)]
enum Fault {
    /// Probes to other nodes are lost.
    OutgoingLoss,
    /// Probes of other nodes are lost.
    IncomingLoss,
    /// Probes in both directions are lost.
    Partition,
    /// The link is down, also for clients.
    LinkDown,
    /// The process is stopped and continues later.
    Stopped,
}

/// Applies each fault to the owner `count` times.
pub(super) fn run(count: usize, environment: &Environment, nodes: &[Node]) -> Result<(), Failure> {
    if count == 0 {
        return Ok(());
    }
    let faults = [
        (Fault::OutgoingLoss, "probes of the owner lost"),
        (Fault::IncomingLoss, "probes to the owner lost"),
        (Fault::Partition, "probes in both directions lost"),
        (Fault::LinkDown, "link of the owner down"),
        (Fault::Stopped, "process of the owner stopped"),
    ];
    let mut observer = Observer {
        arp_client: ArpClient::new(environment.cluster.outside()?)?,
        periods: Vec::new(),
    };
    for (fault, subject) in faults {
        let (mut away, mut back) = (Vec::new(), Vec::new());
        let (mut both, mut changes) = (Duration::ZERO, 0);
        for _ in 0..count {
            observer.observe(RECOVERY_PAUSE)?;
            observer.periods.clear();
            observer.wait_for_owner(|_| true)?;
            let owner = observer.last_owner()?;
            let node = nodes.iter().position(|node| node.hardware == owner);
            let node = node.ok_or("no node of the testbed replies for the address")?;
            with_fault(fault, environment, &nodes[node], node, || {
                observer.wait_for_owner(|last| last != owner)?;
                away.push(observer.gap());
                observer.observe(FAULT_DURATION)?;
                if observer.last_owner()? == owner {
                    return Err("the owner replies during its fault".into());
                }
                Ok(())
            })?;
            observer.wait_for_owner(|last| last == owner)?;
            back.push(observer.gap());
            observer.observe(OBSERVATION)?;
            both = both.max(observer.longest_both());
            changes += observer.periods.len() - 1;
        }
        let [away, back] = [away, back].map(Percentiles::of);
        let (away, back) = (away.ok_or("no measurement")?, back.ok_or("no measurement")?);
        println!(
            "{subject}, {count} times: no reply for p50 {:.0} ms, max {:.0} ms; at the return to the owner p50 {:.1} ms, max {:.1} ms; \
             {changes} changes of the owner; two owners at once for at most {:.1} ms",
            away.milliseconds(50),
            away.milliseconds(100),
            back.milliseconds(50),
            back.milliseconds(100),
            both.as_secs_f64() * 1e3
        );
    }
    Ok(())
}

/// Runs `action` while a fault is active.
fn with_fault(
    fault: Fault,
    environment: &Environment,
    node: &Node,
    number: usize,
    action: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let owner = environment.cluster.member(&node.name)?;
    let others = environment
        .cluster
        .nodes()
        .filter(|member| member.plan.name != node.name);
    let from_owner = format!("ip saddr {} {DROP_PROBES}", owner.plan.address.ipv4);
    let outgoing = others.map(|other| (other, from_owner.as_str()));
    let incoming = [(owner, DROP_PROBES)];
    let rules: Vec<(&Member, &str)> = match fault {
        Fault::OutgoingLoss => outgoing.collect(),
        Fault::IncomingLoss => incoming.into(),
        Fault::Partition => outgoing.chain(incoming).collect(),
        Fault::LinkDown => {
            set_link(environment, number, false)?;
            let result = action();
            return set_link(environment, number, true).and(result);
        }
        Fault::Stopped => return node.announcer.while_stopped(action),
    };
    for (member, rule) in &rules {
        let chain = format!("chain lose {{ type filter hook input priority 0; {rule}; }};");
        nft(member, &format!("table inet {TABLE} {{ {chain} }}"))?;
    }
    let result = action();
    for (member, _) in &rules {
        nft(member, &format!("delete table inet {TABLE}"))?;
    }
    result
}

/// Changes the nftables rules of a member.
fn nft(member: &Member, rules: &str) -> Result<(), Failure> {
    let status = member.spawn(Command::new("nft").arg(rules))?.wait()?;
    if status.success() {
        return Ok(());
    }
    Err(format!("nft of {}: {status}; is nftables installed?", member.plan.name).into())
}

/// Client that sends ARP requests and records the owners that reply.
struct Observer {
    arp_client: ArpClient,
    periods: Vec<OwnershipPeriod>,
}

/// Period in which only one node replied.
struct OwnershipPeriod {
    by: EthernetAddress,
    first: Instant,
    last: Instant,
}

impl Observer {
    fn request(&mut self) -> Result<(), Failure> {
        self.arp_client.send_request(ADDRESS)?;
        std::thread::sleep(REQUEST_PERIOD);
        for by in self.arp_client.claimants_of(ADDRESS)? {
            let now = Instant::now();
            match self.periods.last_mut().filter(|period| period.by == by) {
                Some(period) => period.last = now,
                None => self.periods.push(OwnershipPeriod {
                    by,
                    first: now,
                    last: now,
                }),
            }
        }
        Ok(())
    }

    fn observe(&mut self, duration: Duration) -> Result<(), Failure> {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            self.request()?;
        }
        Ok(())
    }

    fn wait_for_owner(&mut self, is_expected: impl Fn(EthernetAddress) -> bool) -> Result<(), Failure> {
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            self.request()?;
            if self.periods.last().is_some_and(|period| is_expected(period.by)) {
                return Ok(());
            }
        }
        Err(format!("no reply for {ADDRESS} from an expected owner").into())
    }

    fn last_owner(&self) -> Result<EthernetAddress, Failure> {
        let last = self.periods.last().ok_or("no reply")?;
        Ok(last.by)
    }

    /// Time without replies at the last change of the owner.
    fn gap(&self) -> Duration {
        match &self.periods[..] {
            [.., before, last] => last.first - before.last,
            _ => Duration::ZERO,
        }
    }

    /// Longest time for which a node replied after another one had started to, within the fencing interval.
    fn longest_both(&self) -> Duration {
        let mut longest = Duration::ZERO;
        let mut since = None;
        for periods in self.periods.windows(3) {
            let [one, other, again] = periods else { continue };
            if one.by != again.by || again.first - one.last >= FENCING_INTERVAL {
                since = None;
                continue;
            }
            let since = *since.get_or_insert(other.first);
            longest = longest.max(again.first - since);
        }
        longest
    }
}
