//! What the kernel of this node may still remember of connections to addresses that it answered for before, and what it is
//! to forget of them when it gets them back.
//!
//! Clients use their ports again. A connection that was opened at another node meanwhile is taken for the earlier one that
//! came from the same port, as long as that is remembered here: its packets do not fit, and are neither sent on to where
//! they belong nor answered. So when an address comes back, connections that are over are forgotten. If somebody else had it,
//! and this node did not give it up on purpose, or the way on which packets were sent on to it was cut since,
//! connections that spoke meanwhile were ended by who had the address; this node heard nothing of it, and forgets them too.
//!
//! The way goes through all who had the address since, one by one ([`super::predecessors`]). It is cut when one of them
//! ends or dies, and when one of them gets the address again: who answers for an address sends on to one other node only.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::ballot::Voted;
use super::predecessors::{Presence, SILENCE_MAX};
use super::{ADDRESSES_MAX, FENCE, Time};

#[cfg(test)]
mod tests;

/// How much longer than the address was away: votes last so long without being heard, and the kernel counts whole seconds.
const SLACK: Duration = FENCE.saturating_add(Duration::from_secs(2));
/// Most who had an address one after the other that are remembered of it. A longer way is taken for one that is cut.
const WAY_MAX: usize = 16;

/// What is to be forgotten of the TCP connections to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Forgotten {
    /// Those that are over.
    Ended,
    /// Those that are over, and those of which something was seen here within that time; all, if it is
    /// [`Duration::MAX`].
    SpokenWithin(Duration),
}

/// The addresses that this node answered for.
#[derive(Debug, Default)]
pub struct Tenures {
    of: BTreeMap<IpAddr, Tenure>,
}

/// The last time that this node answered for an address.
#[derive(Debug)]
struct Tenure {
    is_here: bool,
    /// Whether this node answered for it before, as far as it knows.
    was_here: bool,
    memory: Memory,
    /// Whose silence or end broke the memory.
    broken_by: Option<Voted>,
    /// Whether another node is known to have had the address since.
    is_followed: bool,
    /// Who may have had the address since, by the votes of this node. The last one may have it still.
    way: Vec<Voted>,
    /// Who had the address when that node was heard last, and when it fell silent or said that its process ends.
    successor_gone: Option<(Voted, Time)>,
}

impl Tenure {
    fn new() -> Self {
        Self {
            is_here: false,
            was_here: false,
            memory: Memory::Whole,
            broken_by: None,
            is_followed: false,
            way: Vec::new(),
            successor_gone: None,
        }
    }

    /// What happens to connections from then on is not heard of here.
    fn cut(&mut self, at: Time, by: Option<Voted>) {
        if self.memory == Memory::Whole {
            self.memory = Memory::BrokenAt(at);
            self.broken_by = by;
        }
    }
}

/// How good the kernel's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// What happened to connections happened here, or was sent on to here.
    Whole,
    /// Until then.
    BrokenAt(Time),
    /// Nobody knows until when.
    Broken,
}

impl Tenures {
    /// The process before this one ended without giving these addresses up, which it answered for.
    pub fn inherit(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        for address in addresses {
            if let Some(tenure) = self.of(address) {
                tenure.memory = Memory::Broken;
            }
        }
    }

    /// This node answers for an address from now on; what is to be forgotten before.
    pub fn begin(&mut self, now: Time, address: IpAddr) -> Option<Forgotten> {
        let tenure = self.of(address)?;
        let forgotten = match tenure.memory {
            Memory::Whole if !tenure.is_followed && !tenure.was_here => None,
            _ if !tenure.is_followed => Some(Forgotten::Ended),
            Memory::Whole => Some(Forgotten::Ended),
            // Who was silent for as long before as the address was away is taken to be silent still.
            Memory::BrokenAt(at) => Some(Forgotten::SpokenWithin(now.saturating_sub(at) * 2 + SLACK)),
            Memory::Broken => Some(Forgotten::SpokenWithin(Duration::MAX)),
        };
        *tenure = Tenure {
            is_here: true,
            was_here: true,
            is_followed: tenure.is_followed,
            ..Tenure::new()
        };
        forgotten
    }

    /// This node does not answer for an address any more.
    pub fn end(&mut self, now: Time, address: IpAddr, on_purpose: bool) {
        if let Some(tenure) = self.of(address) {
            *tenure = Tenure {
                was_here: true,
                memory: match on_purpose {
                    true => Memory::Whole,
                    false => Memory::BrokenAt(now),
                },
                ..Tenure::new()
            };
        }
    }

    /// Another node says that it answered for an address and gave it up on purpose, perhaps because its process ends. If
    /// that is heard only after this node began to answer, connections of both times are here: then what is to be
    /// forgotten is what is over.
    pub fn gave_up(&mut self, now: Time, address: IpAddr, by: &Voted, is_ending: bool) -> Option<Forgotten> {
        let tenure = self.of(address)?;
        let is_news = !std::mem::replace(&mut tenure.is_followed, true);
        if tenure.is_here {
            return is_news.then_some(Forgotten::Ended);
        }
        if is_ending {
            tenure.successor_gone = Some((by.clone(), now));
        } else {
            // It was only missed, and goes on to send packets on to here.
            tenure.successor_gone.take_if(|(gone, _)| gone == by);
            if tenure.broken_by.take_if(|broken_by| broken_by == by).is_some() {
                tenure.memory = Memory::Whole;
            }
        }
        None
    }

    /// Who may have an address, by the vote of this node, fell silent. What it sends on to here it may send no more.
    pub fn gone(&mut self, now: Time, address: IpAddr, who: &Voted) {
        if let Some(tenure) = self.of.get_mut(&address).filter(|tenure| !tenure.is_here) {
            tenure.successor_gone = Some((who.clone(), now));
        }
    }

    /// This node's vote for an address went to somebody else. If who had it before is gone, the way to here is cut.
    pub fn lent(&mut self, now: Time, address: IpAddr, to: &Voted) {
        let Some(tenure) = self.of.get_mut(&address).filter(|tenure| !tenure.is_here) else {
            return;
        };
        if let Some((gone, at)) = tenure.successor_gone.take()
            && gone != *to
        {
            tenure.cut(at, Some(gone));
        }
        if tenure.way.last() == Some(to) {
            return;
        }
        if tenure.way.contains(to) || tenure.way.len() >= WAY_MAX {
            tenure.cut(now, None);
        } else {
            tenure.way.push(to.clone());
        }
    }

    /// Looks whether the ways to here are still there: whether all live through whom they go, but for the last ones, who
    /// [`Tenures::gone`] is about.
    pub fn look(&mut self, now: Time, presence: impl Fn(&Voted) -> Presence) {
        let away = self.of.values_mut().filter(|tenure| !tenure.is_here);
        for tenure in away.filter(|tenure| tenure.memory == Memory::Whole) {
            let Some((_, between)) = tenure.way.split_last() else {
                continue;
            };
            let cut_at = between.iter().find_map(|voted| match presence(voted) {
                Presence::Gone | Presence::Ending => Some(now),
                Presence::Silent(lasts) if lasts > SILENCE_MAX => Some(now.saturating_sub(lasts)),
                Presence::Silent(_) => None,
            });
            if let Some(at) = cut_at {
                tenure.cut(at, None);
            }
        }
    }

    /// What a process after this one is to [`Tenures::inherit`] if this one is killed: the addresses that this node answers
    /// for, and those whose connections it will not trust.
    pub fn bequest(&self) -> impl Iterator<Item = IpAddr> {
        let uncertain = self
            .of
            .iter()
            .filter(|(_, tenure)| tenure.is_here || tenure.memory != Memory::Whole);
        uncertain.map(|(address, _)| *address)
    }

    /// Nobody is to answer for an address any more.
    pub fn forget_address(&mut self, address: IpAddr) {
        self.of.remove(&address);
    }

    /// What is known of an address; nothing if there are too many.
    fn of(&mut self, address: IpAddr) -> Option<&mut Tenure> {
        if !self.of.contains_key(&address) && self.of.len() >= ADDRESSES_MAX {
            return None;
        }
        Some(self.of.entry(address).or_insert_with(Tenure::new))
    }
}
