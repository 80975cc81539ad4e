//! Effects of the election, and replies as far as the election permits them.

use std::net::IpAddr;

use netlink::clock::since_boot;

use super::announcer::Announcer;
use crate::election::Effect;
use crate::l2::frame::ResolutionRequest;
use crate::metrics::Message;

impl Announcer {
    /// Starts a write that is due and applies the effects of the election.
    pub(super) fn apply_effects(&mut self) {
        let now = since_boot();
        // A report is withdrawn before other nodes receive votes. A message that is not sent is a lost one.
        let may_send = self.standing_report.update(self.election.is_free_of_votes(now));
        if let Some(write) = self.election.write(now) {
            self.membership.write(write, now);
        }
        let effects = self.election.take_effects();
        // The kernel state precedes messages: see `Effect::UpdateForwarding`.
        let changes_kernel = |effect: &Effect| {
            matches!(
                effect,
                Effect::UpdateForwarding | Effect::Acquired(_) | Effect::Lost(_)
            )
        };
        if effects.iter().any(changes_kernel) {
            self.apply_forwarding();
        }
        for effect in effects {
            match effect {
                Effect::UpdateForwarding => {}
                Effect::FlushConntrack(address, flush) => {
                    self.conntrack.queue(since_boot(), address, flush);
                }
                Effect::Send(to, message) => {
                    if may_send {
                        self.probes.send(to, &message);
                    }
                }
                Effect::Acquired(address) => {
                    self.reporter.acquired(&self.caches.desired, address);
                    self.update_groups();
                }
                Effect::Lost(address) => {
                    self.reporter.lost(address);
                    self.update_groups();
                }
                Effect::Announce(address) => {
                    if self.may_answer(address) {
                        self.announce(address);
                    }
                }
            }
        }
        self.start_collection();
    }

    /// Starts the collection of stale conntrack entries, unless one is in progress.
    pub(super) fn start_collection(&mut self) {
        let desired = &self.caches.desired;
        let requests_two_tier = |address| desired.requests_two_tier(address);
        self.conntrack
            .start_collection(self.sockets.links(), requests_two_tier);
    }

    /// Writes the forwarding state to the kernel.
    pub(super) fn apply_forwarding(&mut self) {
        self.forwarding
            .apply(&self.election, &self.sockets, &self.caches.desired, &self.metrics);
    }

    /// Joins the multicast groups of the owned addresses.
    pub(super) fn update_groups(&mut self) {
        let desired = &self.caches.desired;
        let owned = self
            .election
            .owned()
            .map(|address| (address, desired.links(address)));
        self.sockets.update_groups(owned);
    }

    /// Sends gratuitous announcements.
    pub(super) fn announce(&self, address: IpAddr) {
        self.metrics.count_message(address, Message::Gratuitous);
        self.sockets
            .announce(address, &self.caches.desired.links(address));
    }

    /// Replies if this node owns the address now. The process may have been frozen since the request.
    pub(super) fn reply(&mut self, link: u32, request: &ResolutionRequest) {
        self.metrics.count_message(request.target(), Message::Request);
        if !self.may_answer(request.target()) {
            return;
        }
        let links = self.caches.desired.links(request.target());
        match self.sockets.reply(link, request, &links) {
            Ok(true) => self.metrics.count_message(request.target(), Message::Response),
            // The address is announced on other links.
            Ok(false) => {}
            // Clients repeat requests.
            Err(error) => tracing::debug!(%error, "reply not sent"),
        }
    }

    /// Returns true if this node owns the address now, and its edge serves the address if necessary.
    pub(super) fn may_answer(&self, address: IpAddr) -> bool {
        let is_ready = !self.caches.desired.needs_edge(address) || self.served.contain(address);
        is_ready && !self.conntrack.is_awaited(address) && self.election.may_answer(since_boot(), address)
    }

    /// Announces owned addresses of the edge, so that clients with earlier requests need not repeat them.
    pub(super) fn announce_served(&mut self) {
        for address in self.election.owned() {
            if self.caches.desired.needs_edge(address) && self.may_answer(address) {
                self.announce(address);
            }
        }
    }
}
