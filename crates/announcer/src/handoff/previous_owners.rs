//! Who answered for an address before. TCP connections that were opened through that node are known there alone: when an
//! address moves on purpose, its new owner sends packets of connections that it does not know on to the one before.
//!
//! Every node remembers of each address who gave it up last ([`Predecessors::gave_up`]). Who answers for an address then
//! leads what it does not know there. It goes on to do so when it gives the address up itself: so the connections of several
//! nodes before are reached one by one, in the order of the moves. Nothing may go in circles: nobody leads to the node
//! that has the address now, and nobody begins to lead to a node which may still lead here. That is known as soon as
//! the other one has lent its vote for the address to this node, or is ending and said so.
//!
//! Whoever takes an address may not know yet who had it before, or not be allowed yet to lead there. What is known to belong to
//! no connection of its own is dropped for that long ([`Predecessors::unsettled`]): TCP sends it again. It would be answered
//! by a reset otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use balancer::serving::FORWARDED_FOR_MAX;

use crate::{ADDRESSES_MAX, NodeName, Time};

#[cfg(test)]
mod tests;

/// How long such a node may be silent that did not say that its process ends. Clients of connections that are led to a dead
/// machine learn it no earlier than that; a busy network or process costs no connection.
pub const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How long who takes an address waits for the vote of the one before, and for word of who that is.
pub const VOTE_PATIENCE: Duration = Duration::from_secs(2);

/// How another node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is no member.
    Gone,
    /// It was not heard for so long.
    Silent(Duration),
    /// It said that its process is about to end, and was not heard otherwise since. Its machine may well go on.
    Ending,
}

/// Who answered for addresses before, as this node knows it, and where it sends packets on to.
#[derive(Debug, Default)]
pub struct Predecessors {
    of: BTreeMap<IpAddr, Trail>,
    /// Addresses of this node of which it is not known yet where to lead, and when they were taken.
    taken: BTreeMap<IpAddr, Time>,
    is_changed: bool,
}

/// What is known of one address.
#[derive(Debug, Default)]
struct Trail {
    /// Who gave it up last.
    before: Option<Predecessor>,
    /// Where packets go on to.
    led: Option<Predecessor>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Predecessor {
    node: NodeName,
    gave_up_at: Time,
}

impl Predecessors {
    /// Another node says that it answered for an address and gave it up on purpose. `is_here` if this node has it now.
    pub fn gave_up(&mut self, now: Time, address: IpAddr, by: &NodeName, is_here: bool) {
        if !self.of.contains_key(&address) && self.of.len() >= ADDRESSES_MAX {
            return;
        }
        let trail = self.of.entry(address).or_default();
        // It is said again until it was heard.
        if is(trail.before.as_ref(), by) {
            return;
        }
        trail.before = Some(Predecessor {
            node: NodeName::clone(by),
            gave_up_at: now,
        });
        let is_led = is(trail.led.as_ref(), by);
        if is_here && !is_led {
            self.take(now, address);
        }
    }

    /// This node answers for an address from now on.
    pub fn take(&mut self, now: Time, address: IpAddr) {
        self.is_changed |= self.taken.insert(address, now).is_none();
    }

    /// Leads what was taken to those before, where `may_lead` says that they do not lead here. `is_told` says whether all
    /// who could have had an address last have told.
    pub fn follow(
        &mut self,
        now: Time,
        may_lead: impl Fn(IpAddr, &NodeName) -> bool,
        is_told: impl Fn(IpAddr) -> bool,
    ) {
        let Self {
            of,
            taken,
            is_changed,
        } = self;
        let count = taken.len();
        taken.retain(|address, since| {
            let is_in_time = now < *since + VOTE_PATIENCE;
            let mut trail = of.get_mut(address);
            let before = trail.as_deref().and_then(|trail| trail.before.as_ref());
            // Who gave it up long ago may not have been the last one.
            let is_last = before.is_some_and(|before| *since < before.gave_up_at + VOTE_PATIENCE);
            if is_in_time && !is_last && !is_told(*address) {
                return true;
            }
            let Some(trail) = &mut trail else { return false };
            let Some(before) = &trail.before else { return false };
            if trail.led.as_ref() == Some(before) {
                return false;
            }
            if !may_lead(*address, &before.node) {
                return is_in_time;
            }
            trail.led = Some(before.clone());
            *is_changed = true;
            false
        });
        *is_changed |= taken.len() < count;
    }

    /// This node does not answer for an address any more. Where it led goes on to be led there if it gave the address up to a
    /// node that it knows, `to`, and that is another one.
    pub fn give_up(&mut self, address: IpAddr, to: Option<&NodeName>) {
        self.is_changed |= self.taken.remove(&address).is_some();
        self.change(address, |trail| {
            trail.led.take_if(|led| to.is_none_or(|to| led.node == *to));
        });
    }

    /// Another node asks for an address that this node has not: it may have it in a moment.
    pub fn asked(&mut self, address: IpAddr, by: &NodeName) {
        self.change(address, |trail| {
            trail.led.take_if(|led| led.node == *by);
        });
    }

    /// Another node was lent this node's vote for an address.
    pub fn lent(&mut self, address: IpAddr, to: &NodeName) {
        self.change(address, |trail| {
            trail.led.take_if(|led| led.node == *to);
            trail.before.take_if(|before| before.node == *to);
        });
    }

    /// Nobody is to answer for an address any more.
    pub fn forget_address(&mut self, address: IpAddr) {
        self.is_changed |= self.taken.remove(&address).is_some();
        self.is_changed |= self.of.remove(&address).is_some_and(|trail| trail.led.is_some());
    }

    /// The machine of a node is off, or not on the link.
    pub fn forget_node(&mut self, node: &NodeName) {
        self.retain(|predecessor| predecessor.node != *node);
    }

    /// This process ends: it leads nothing any more but what it answers for.
    pub fn keep_only(&mut self, is_here: impl Fn(IpAddr) -> bool) {
        for (address, trail) in &mut self.of {
            if !is_here(*address) {
                self.is_changed |= trail.led.take().is_some();
            }
        }
    }

    /// Forgets who is dead, by what `presence` knows of it, and what is too long ago.
    pub fn expire(&mut self, now: Time, presence: impl Fn(&NodeName) -> Presence) {
        let nodes = self.of.values().flat_map(|trail| [&trail.before, &trail.led]);
        let nodes: BTreeSet<NodeName> = nodes
            .flatten()
            .map(|known| NodeName::clone(&known.node))
            .collect();
        let is_dead = |node: &NodeName| match presence(node) {
            Presence::Gone => true,
            Presence::Silent(lasts) => lasts > SILENCE_MAX,
            Presence::Ending => false,
        };
        let dead: BTreeSet<NodeName> = nodes.into_iter().filter(is_dead).collect();
        self.retain(|known| !dead.contains(&known.node) && now < known.gave_up_at + FORWARDED_FOR_MAX);
    }

    /// Where packets of unknown connections go, by their address.
    pub fn led(&self) -> impl Iterator<Item = (IpAddr, &NodeName)> {
        self.of
            .iter()
            .filter_map(|(address, trail)| Some((*address, &trail.led.as_ref()?.node)))
    }

    /// Where packets for one address go.
    pub fn led_to(&self, address: IpAddr) -> Option<&NodeName> {
        let led = self.of.get(&address)?.led.as_ref();
        led.map(|predecessor| &predecessor.node)
    }

    /// The addresses of this node of which it does not know yet where to lead.
    pub fn unsettled(&self) -> impl Iterator<Item = IpAddr> {
        self.taken.keys().copied()
    }

    /// Whether [`Predecessors::led`] or [`Predecessors::unsettled`] is another since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    fn change(&mut self, address: IpAddr, change: impl FnOnce(&mut Trail)) {
        let Some(trail) = self.of.get_mut(&address) else {
            return;
        };
        let was_led = trail.led.is_some();
        change(trail);
        self.is_changed |= was_led && trail.led.is_none();
        if trail.before.is_none() && trail.led.is_none() {
            self.of.remove(&address);
        }
    }

    fn retain(&mut self, is_kept: impl Fn(&Predecessor) -> bool) {
        for trail in self.of.values_mut() {
            trail.before.take_if(|before| !is_kept(before));
            self.is_changed |= trail.led.take_if(|led| !is_kept(led)).is_some();
        }
        self.of
            .retain(|_, trail| trail.before.is_some() || trail.led.is_some());
    }
}

fn is(known: Option<&Predecessor>, node: &NodeName) -> bool {
    known.is_some_and(|known| known.node == *node)
}
