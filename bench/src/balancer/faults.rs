//! What befalls the owner of an address without its end: who answers for the address meanwhile, and whether ever two do.

use std::process::Command;
use std::time::{Duration, Instant};

use testbed::Member;
use testbed::asker::{Asker, Hardware};

use super::asker::QUESTION_PERIOD;
use super::moves::{SETTLING, set_link};
use super::{ADDRESS, Node};
use crate::Failure;
use crate::percentiles::Percentiles;
use crate::setting::{PATIENCE, Setting};

/// How long a fault stays after another node answers.
const STAYS: Duration = Duration::from_secs(2);
/// How long it is watched who answers once all is as before.
const WATCHED: Duration = Duration::from_millis(500);
/// What votes last: two nodes that answer by turns within that time both take themselves for the owner.
const FENCE: Duration = Duration::from_millis(700);
/// The table of rules by which probes are lost.
const TABLE: &str = "bench-fault";
/// Loses probes that come, of whoever sends them.
const LOSES_ALL: &str = "udp dport 7947 drop";

/// What befalls an owner.
#[derive(Clone, Copy)]
enum Fault {
    /// What it sends to other nodes is lost.
    Unheard,
    /// What other nodes send to it is lost.
    Deaf,
    /// Both.
    Apart,
    /// Its link is cut: clients do not hear it either.
    Cut,
    /// Its process stands still, and goes on later.
    Frozen,
}

/// Lets each fault befall the owner so many times.
pub fn run(count: usize, setting: &Setting, nodes: &[Node]) -> Result<(), Failure> {
    if count == 0 {
        return Ok(());
    }
    let faults = [
        (Fault::Unheard, "other nodes do not hear the owner"),
        (Fault::Deaf, "the owner does not hear other nodes"),
        (Fault::Apart, "the owner and other nodes do not hear each other"),
        (Fault::Cut, "the owner's link is cut"),
        (Fault::Frozen, "the owner's process stands still"),
    ];
    let mut witness = Witness {
        asker: Asker::new(setting.cluster.outside()?)?,
        stints: Vec::new(),
    };
    for (fault, what) in faults {
        let (mut away, mut back) = (Vec::new(), Vec::new());
        let (mut both, mut changes) = (Duration::ZERO, 0);
        for _ in 0..count {
            witness.watch(SETTLING)?;
            witness.stints.clear();
            witness.until(|_| true)?;
            let owner = witness.last()?;
            let node = nodes.iter().position(|node| node.hardware == owner);
            let node = node.ok_or("nobody of the testbed answers for the address")?;
            befall(fault, setting, &nodes[node], node, || {
                witness.until(|last| last != owner)?;
                away.push(witness.pause());
                witness.watch(STAYS)?;
                match witness.last()? == owner {
                    true => Err("the owner answers while it must not".into()),
                    false => Ok(()),
                }
            })?;
            witness.until(|last| last == owner)?;
            back.push(witness.pause());
            witness.watch(WATCHED)?;
            both = both.max(witness.longest_both());
            changes += witness.stints.len() - 1;
        }
        let [away, back] = [away, back].map(Percentiles::of);
        let (away, back) = (
            away.ok_or("nothing was measured")?,
            back.ok_or("nothing was measured")?,
        );
        println!(
            "{what}, {count} times: nobody answers for p50 {:.0} ms, longest {:.0} ms, and when it goes back {:.1} ms, longest \
             {:.1} ms; who answers changed {changes} times; two at the same time for {:.1} ms at most",
            away.milliseconds(50),
            away.milliseconds(100),
            back.milliseconds(50),
            back.milliseconds(100),
            both.as_secs_f64() * 1e3
        );
    }
    Ok(())
}

/// Does something while a fault lasts.
fn befall(
    fault: Fault,
    setting: &Setting,
    node: &Node,
    number: usize,
    act: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let owner = setting.cluster.member(&node.name)?;
    let others = setting
        .cluster
        .nodes()
        .filter(|member| member.plan.name != node.name);
    let from_owner = format!("ip saddr {} {LOSES_ALL}", owner.plan.address.ipv4);
    let unheard = others.map(|other| (other, from_owner.as_str()));
    let deaf = [(owner, LOSES_ALL)];
    let losing: Vec<(&Member, &str)> = match fault {
        Fault::Unheard => unheard.collect(),
        Fault::Deaf => deaf.into(),
        Fault::Apart => unheard.chain(deaf).collect(),
        Fault::Cut => {
            set_link(setting, number, false)?;
            let result = act();
            return set_link(setting, number, true).and(result);
        }
        Fault::Frozen => return node.announcer.stopped(act),
    };
    for (member, rule) in &losing {
        let chain = format!("chain lose {{ type filter hook input priority 0; {rule}; }};");
        nft(member, &format!("table inet {TABLE} {{ {chain} }}"))?;
    }
    let result = act();
    for (member, _) in &losing {
        nft(member, &format!("delete table inet {TABLE}"))?;
    }
    result
}

/// Changes a member's rules.
fn nft(member: &Member, rules: &str) -> Result<(), Failure> {
    let status = member.spawn(Command::new("nft").arg(rules))?.wait()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("nft of {}: {status}; is nftables installed?", member.plan.name).into()),
    }
}

/// Who asks, and writes down who answers.
struct Witness {
    asker: Asker,
    stints: Vec<Stint>,
}

/// A time in which nobody but one node answered.
struct Stint {
    by: Hardware,
    first: Instant,
    last: Instant,
}

impl Witness {
    fn ask(&mut self) -> Result<(), Failure> {
        self.asker.ask(ADDRESS)?;
        std::thread::sleep(QUESTION_PERIOD);
        for by in self.asker.hear(ADDRESS)? {
            let now = Instant::now();
            match self.stints.last_mut().filter(|stint| stint.by == by) {
                Some(stint) => stint.last = now,
                None => self.stints.push(Stint {
                    by,
                    first: now,
                    last: now,
                }),
            }
        }
        Ok(())
    }

    fn watch(&mut self, lasts: Duration) -> Result<(), Failure> {
        let end = Instant::now() + lasts;
        while Instant::now() < end {
            self.ask()?;
        }
        Ok(())
    }

    fn until(&mut self, is_awaited: impl Fn(Hardware) -> bool) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            self.ask()?;
            if self.stints.last().is_some_and(|stint| is_awaited(stint.by)) {
                return Ok(());
            }
        }
        Err(format!("nobody awaited answers for {ADDRESS}").into())
    }

    fn last(&self) -> Result<Hardware, Failure> {
        let last = self.stints.last().ok_or("nobody answers")?;
        Ok(last.by)
    }

    /// How long nobody answered when who answers changed last.
    fn pause(&self) -> Duration {
        match &self.stints[..] {
            [.., before, last] => last.first - before.last,
            _ => Duration::ZERO,
        }
    }

    /// How long, at most, one node went on to answer after another one had begun to, each within the time that votes last.
    fn longest_both(&self) -> Duration {
        let mut longest = Duration::ZERO;
        let mut since = None;
        for stints in self.stints.windows(3) {
            let [one, other, again] = stints else { continue };
            if one.by != again.by || again.first - one.last >= FENCE {
                since = None;
                continue;
            }
            let since = *since.get_or_insert(other.first);
            longest = longest.max(again.first - since);
        }
        longest
    }
}
