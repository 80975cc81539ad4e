//! What the kernel of this node may still remember of connections to addresses that it answered for before, and what it is
//! to forget of them when it gets them back.
//!
//! Clients use their ports again. A connection that was opened at another node meanwhile is taken for the earlier one that
//! came from the same port, as long as that is remembered here: its packets do not fit, and are neither sent on to where
//! they belong nor answered. So when an address comes back, connections that are over are forgotten. If somebody else had it,
//! and this node did not give it up on purpose, or the way on which packets were sent on to it was cut since,
//! connections that spoke meanwhile were ended by who had the address; this node heard nothing of it, and forgets them too.
//!
//! The way goes through all who had the address since, one by one ([`crate::handoff::previous_owners`]). It is cut when one of them
//! ends or dies, when one of them gives the address up a second time (who answers for an address sends on to one other node
//! only), and in the end by age. Not known are ways that were cut because a node had no room for them or was not on the link,
//! and those of before this process.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::election::vote_leases::Voted;
use balancer::serving::FORWARDED_FOR_MAX;

use crate::handoff::previous_owners::{Presence, SILENCE_MAX};
use crate::{ADDRESSES_MAX, FENCE, Time};

#[cfg(test)]
mod tests;

/// How much longer than the address was away: votes last so long without being heard, and the kernel counts whole seconds.
const SLACK: Duration = FENCE.saturating_add(Duration::from_secs(2));
/// How many later owners of an address are remembered at most. A longer way is taken for one that is cut.
const WAY_MAX: usize = 16;
/// How long ago at most a process ended when this node hears that another one has its place.
const REPLACED_WITHIN: Duration = SILENCE_MAX.saturating_mul(2);

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
    /// When it ended, if there was one.
    ended: Option<Time>,
    memory: Memory,
    /// Whether another node is known to have had the address since.
    is_followed: bool,
    /// Who had the address since and gave it up on purpose, one after the other.
    way: Vec<Voted>,
    /// Who may have the address, by the vote of this node.
    successor: Option<Voted>,
    /// Who had this node's vote until it fell silent or said that its process ends, and when that was.
    successor_gone: Option<(Voted, Time)>,
}

impl Tenure {
    fn new() -> Self {
        Self {
            is_here: false,
            ended: None,
            memory: Memory::Whole,
            is_followed: false,
            way: Vec::new(),
            successor: None,
            successor_gone: None,
        }
    }

    /// What happens to connections from then on is not heard of here.
    fn cut(&mut self, at: Time) {
        if self.memory == Memory::Whole {
            self.memory = Memory::BrokenAt(at);
        }
    }

    /// Through whom the way goes: all who gave the address up, but the last one where that gave it to this node.
    fn between(&self) -> &[Voted] {
        match self.way.split_last() {
            Some((last, rest)) if self.successor.as_ref().is_none_or(|next| next == last) => rest,
            _ => &self.way,
        }
    }

    /// Looks whether the way is still there.
    fn look(&mut self, now: Time, presence: impl Fn(&Voted) -> Presence) {
        if self.is_here || self.memory != Memory::Whole {
            return;
        }
        let cut_at = self.between().iter().filter_map(|voted| match presence(voted) {
            Presence::Gone => Some(now.saturating_sub(REPLACED_WITHIN)),
            Presence::Ending => Some(now.saturating_sub(SILENCE_MAX)),
            Presence::Silent(lasts) => (lasts > SILENCE_MAX).then(|| now.saturating_sub(lasts)),
        });
        let aged_at = self.ended.map(|ended| ended + FORWARDED_FOR_MAX);
        let cut_at = cut_at.chain(aged_at.filter(|aged_at| *aged_at <= now)).min();
        if let Some(at) = cut_at {
            self.cut(at);
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

    /// This node answers for an address from now on; what is to be forgotten before. `presence` is as for [`Tenures::look`].
    pub fn begin(
        &mut self,
        now: Time,
        address: IpAddr,
        presence: impl Fn(&Voted) -> Presence,
    ) -> Option<Forgotten> {
        let tenure = self.of(address)?;
        tenure.look(now, presence);
        let is_new = tenure.memory == Memory::Whole && tenure.ended.is_none();
        let forgotten = match tenure.memory {
            _ if !tenure.is_followed => (!is_new).then_some(Forgotten::Ended),
            Memory::Whole => Some(Forgotten::Ended),
            // Who was silent for as long before as the address was away is taken to be silent still.
            Memory::BrokenAt(at) => Some(Forgotten::SpokenWithin(now.saturating_sub(at) * 2 + SLACK)),
            Memory::Broken => Some(Forgotten::SpokenWithin(Duration::MAX)),
        };
        *tenure = Tenure {
            is_here: true,
            is_followed: tenure.is_followed,
            ..Tenure::new()
        };
        forgotten
    }

    /// This node does not answer for an address any more.
    pub fn end(&mut self, now: Time, address: IpAddr, on_purpose: bool) {
        if let Some(tenure) = self.of(address) {
            *tenure = Tenure {
                ended: Some(now),
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
        // It is said again until it was heard.
        if tenure.way.last() != Some(by) {
            if tenure.way.contains(by) || tenure.way.len() >= WAY_MAX {
                tenure.cut(now);
            } else {
                tenure.way.push(by.clone());
            }
        }
        if is_ending && tenure.way.last() == Some(by) {
            tenure.successor_gone = Some((by.clone(), now));
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
    pub fn lent(&mut self, address: IpAddr, to: &Voted) {
        let Some(tenure) = self.of.get_mut(&address).filter(|tenure| !tenure.is_here) else {
            return;
        };
        if let Some((gone, at)) = tenure.successor_gone.take()
            && gone != *to
        {
            tenure.cut(at);
        }
        tenure.successor = Some(to.clone());
    }

    /// Looks whether the ways to here are still there: whether all live through whom they go, by what `presence` knows of
    /// their processes.
    pub fn look(&mut self, now: Time, presence: impl Fn(&Voted) -> Presence) {
        for tenure in self.of.values_mut() {
            tenure.look(now, &presence);
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
