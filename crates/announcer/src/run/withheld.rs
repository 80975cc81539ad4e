//! Addresses that are withheld: the log, an Event and a metric say so.

use std::collections::BTreeSet;
use std::net::IpAddr;

use balancer::ServiceEvent;

use super::Announcer;
use crate::desired_announcements::withheld::Withheld;
use crate::election::rendezvous;

impl Announcer {
    /// Tells of those of the addresses that are withheld since now, or for another reason.
    pub(crate) fn tell_withheld(&mut self, addresses: &BTreeSet<IpAddr>) {
        for address in addresses {
            let reason = self.world.demand.withheld(*address);
            let reason = reason.filter(|_| self.world.demand.services_of(*address).next().is_some());
            let Some(reason) = reason else {
                self.withheld.remove(address);
                continue;
            };
            if self.withheld.insert(*address, reason.clone()).as_ref() == Some(&reason) {
                continue;
            }
            tracing::warn!(%address, %reason, "the address is withheld");
            self.tell_services(*address, &reason);
        }
        self.metrics.set_withheld(self.withheld.values());
    }

    /// Tells the Services of an address. Of a reason that all nodes see one node tells.
    fn tell_services(&mut self, address: IpAddr, reason: &Withheld) {
        let is_seen_by_all = matches!(reason, Withheld::NoPool | Withheld::OfNode(_));
        let reporter = rendezvous::winner(address, self.world.demand.uncordoned().iter());
        if is_seen_by_all && reporter.is_none_or(|name| **name != *self.node_name) {
            return;
        }
        for (service, uid) in self.world.demand.services_of(address) {
            let message = format!(
                "{address} is not announced from node {:?}: {reason}",
                self.node_name
            );
            self.events.record(ServiceEvent {
                service,
                uid,
                is_warning: true,
                reason: "AddressWithheld",
                message,
            });
        }
    }
}
