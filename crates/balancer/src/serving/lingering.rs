//! Addresses that moved to another node, and whose connections go on here: their new owner sends the packets on
//! (the announcer does). The edge goes on to serve such an address as long as it has connections.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::{Addresses, FORWARDED_FOR_MAX};

#[cfg(test)]
mod tests;

/// How long an address is served in any case: for clients that have not heard yet where it is, and connections that
/// are just coming up.
const LEAST: Duration = Duration::from_secs(10);
/// How often it is looked whether connections are left.
const LOOK_PERIOD: Duration = Duration::from_secs(5);

/// What this node had, and what of it goes on.
#[derive(Debug, Default)]
pub struct Lingering {
    had: Addresses,
    /// Since when addresses are another node's.
    since: BTreeMap<IpAddr, Instant>,
    next_look: Option<Instant>,
}

impl Lingering {
    /// This node has these addresses; `busy` tells those with connections.
    pub fn follow(&mut self, now: Instant, owned: &Addresses, busy: impl FnOnce() -> Addresses) {
        for address in self.had.difference(owned) {
            self.since.insert(*address, now);
        }
        self.had.clone_from(owned);
        self.since.retain(|address, _| !owned.contains(address));
        if self.since.is_empty() {
            self.next_look = None;
            return;
        }
        let look_at = *self.next_look.get_or_insert(now + LOOK_PERIOD);
        if now < look_at {
            return;
        }
        self.next_look = Some(now + LOOK_PERIOD);
        let busy = busy();
        self.since.retain(|address, since| {
            let lasts = now.saturating_duration_since(*since);
            lasts < LEAST || (lasts < FORWARDED_FOR_MAX && busy.contains(address))
        });
        if self.since.is_empty() {
            self.next_look = None;
        }
    }

    /// Those that go on.
    pub fn are(&self) -> impl Iterator<Item = IpAddr> {
        self.since.keys().copied()
    }

    /// Whether an address is one of them.
    pub fn has(&self, address: IpAddr) -> bool {
        self.since.contains_key(&address)
    }

    /// When [`Lingering::follow`] is to be called next, if it is.
    pub fn next_look(&self) -> Option<Instant> {
        self.next_look
    }
}
