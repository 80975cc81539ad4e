//! What the kernel of this node may still remember of connections to addresses that it answered for before, and what it is
//! to forget of them when it gets them back.
//!
//! Clients use their ports again. A connection that was opened at another node meanwhile is taken for the earlier one that
//! came from the same port, as long as that is remembered here: its packets do not fit, and are neither sent on to where
//! they belong nor answered. So when an address comes back that somebody else had, connections that are over are
//! forgotten. If this node did not give the address up on purpose, or the way on which packets were sent on to it was cut since,
//! connections that spoke meanwhile were ended by who had the address; this node heard nothing of it, and forgets them too.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::ballot::Voted;
use super::{ADDRESSES_MAX, FENCE, Time};

#[cfg(test)]
mod tests;

/// How much longer than the address was away: votes last so long without being heard, and the kernel counts whole seconds.
const SLACK: Duration = FENCE.saturating_add(Duration::from_secs(2));

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
    memory: Memory,
    /// Whether another node has had the address since.
    is_followed: bool,
    /// Who had the address when that node was heard last, and when it fell silent or said that its process ends.
    successor_gone: Option<(Voted, Time)>,
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
        let forgotten = tenure.is_followed.then(|| match tenure.memory {
            Memory::Whole => Forgotten::Ended,
            // Who was silent for as long before as the address was away is taken to be silent still.
            Memory::BrokenAt(at) => Forgotten::SpokenWithin(now.saturating_sub(at) * 2 + SLACK),
            Memory::Broken => Forgotten::SpokenWithin(Duration::MAX),
        });
        *tenure = Tenure {
            is_here: true,
            memory: Memory::Whole,
            is_followed: tenure.is_followed,
            successor_gone: None,
        };
        forgotten
    }

    /// This node does not answer for an address any more.
    pub fn end(&mut self, now: Time, address: IpAddr, on_purpose: bool) {
        if let Some(tenure) = self.of(address) {
            *tenure = Tenure {
                is_here: false,
                memory: match on_purpose {
                    true => Memory::Whole,
                    false => Memory::BrokenAt(now),
                },
                is_followed: false,
                successor_gone: None,
            };
        }
    }

    /// Another node says that it answered for an address and gave it up on purpose. If that is heard only after this node
    /// began to answer, connections of both times are here: then what is to be forgotten is what is over.
    pub fn gave_up(&mut self, address: IpAddr) -> Option<Forgotten> {
        let tenure = self.of(address)?;
        let is_news = !std::mem::replace(&mut tenure.is_followed, true);
        (is_news && tenure.is_here).then_some(Forgotten::Ended)
    }

    /// Who may have an address, by the vote of this node, fell silent or ends. What it sends on to here it may send no more.
    pub fn gone(&mut self, now: Time, address: IpAddr, who: &Voted) {
        if let Some(tenure) = self.of.get_mut(&address).filter(|tenure| !tenure.is_here) {
            tenure.successor_gone = Some((who.clone(), now));
        }
    }

    /// This node's vote for an address went to somebody else. If that is not who had it before, the way to here is cut.
    pub fn lent(&mut self, address: IpAddr, to: &Voted) {
        let Some(tenure) = self.of.get_mut(&address) else {
            return;
        };
        if let Some((gone, at)) = tenure.successor_gone.take()
            && gone != *to
            && tenure.memory == Memory::Whole
        {
            tenure.memory = Memory::BrokenAt(at);
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
        Some(self.of.entry(address).or_insert(Tenure {
            is_here: false,
            memory: Memory::Whole,
            is_followed: false,
            successor_gone: None,
        }))
    }
}
