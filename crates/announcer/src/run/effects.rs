//! Doing what the core wants, and answering as far as it lets.

use std::net::{IpAddr, SocketAddr};

use netlink::clock::since_boot;

use balancer::ServiceEvent;

use super::Announcer;
use crate::Metrics;
use crate::election::Effect;
use crate::election::membership_store;
use crate::l2::frame::Question;
use crate::protocol::message::Message;

impl Announcer {
    /// Does what the core wants.
    pub(crate) fn follow_up(&mut self) {
        let now = since_boot();
        if let Some(write) = self.core.write(now) {
            let writing = membership_store::write(self.client.clone(), write, now);
            self.writes.spawn(writing);
        }
        let effects = self.core.take_effects();
        let is_kernels =
            |effect: &Effect| matches!(effect, Effect::Led | Effect::Gained(_) | Effect::Lost(_));
        if effects.iter().any(is_kernels) {
            self.lead();
        }
        for effect in effects {
            match effect {
                Effect::Led => {}
                Effect::Forget(address, forgotten) => self.want_forgotten(address, forgotten),
                Effect::Send(to, message) => self.send(to, &message),
                Effect::Gained(address) => self.gained(address),
                Effect::Lost(address) => {
                    tracing::info!(%address, "no longer announced from here");
                    Metrics::count(&self.metrics.losses);
                    self.metrics.set_held(address, false);
                    self.join_groups();
                }
                Effect::Announce(address) => {
                    if self.may_answer(address) {
                        self.announce(address);
                    }
                }
            }
        }
        self.look_for_forgotten();
    }

    fn gained(&mut self, address: IpAddr) {
        tracing::info!(%address, "announced from here");
        Metrics::count(&self.metrics.gains);
        self.metrics.set_held(address, true);
        self.join_groups();
        for (service, uid) in self.world.demand.services_of(address) {
            let message = format!(
                "announcing from node {:?} with protocol \"layer2\"",
                self.node_name
            );
            self.events.record(ServiceEvent {
                service,
                uid,
                is_warning: false,
                reason: "nodeAssigned",
                message,
            });
        }
    }

    fn send(&self, to: SocketAddr, message: &Message) {
        // Its process is of another version, or has not made its key known yet.
        let Some(bytes) = self.keyring.seal(message) else {
            return;
        };
        // What cannot be sent at once is lost; probes come often.
        match self.socket.try_send_to(&bytes, to) {
            Ok(_) => Metrics::count(&self.metrics.probes_sent),
            Err(error) => tracing::debug!(%to, %error, "a probe was not sent"),
        }
    }

    pub(crate) fn announce(&self, address: IpAddr) {
        Metrics::count(&self.metrics.announcements);
        self.ports.announce(address, &self.world.demand.links(address));
    }

    /// Answers if this node may, at this very moment: the process may have stood still since the question came.
    pub(crate) fn answer(&mut self, link: u32, question: &Question) {
        Metrics::count(&self.metrics.requests);
        if !self.may_answer(question.target()) {
            return;
        }
        let links = self.world.demand.links(question.target());
        match self.ports.answer(link, question, &links) {
            Ok(true) => Metrics::count(&self.metrics.answers),
            // It is announced elsewhere.
            Ok(false) => {}
            // It is asked again.
            Err(error) => tracing::debug!(%error, "an answer was not sent"),
        }
    }

    /// Whether this node has the address at this very moment, and what is behind it is there.
    pub(crate) fn may_answer(&self, address: IpAddr) -> bool {
        let is_served = || {
            let served = self.served.as_ref();
            served.is_some_and(|served| served.borrow().contains(&address))
        };
        let is_ready = !self.world.demand.needs_edge(address) || is_served();
        is_ready && !self.forgetting.is_awaited(address) && self.core.may_answer(since_boot(), address)
    }

    /// Who asked for an address before the edge served it is told now, instead of when asking again.
    pub(crate) fn announce_served(&mut self) {
        for address in self.core.held() {
            if self.world.demand.needs_edge(address) && self.may_answer(address) {
                self.announce(address);
            }
        }
    }
}
