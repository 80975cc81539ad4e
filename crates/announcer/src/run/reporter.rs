//! Events, logs and metrics about owned and withheld addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use api::object::ObjectKey;
use client::events::{EventBatch, EventQueue, EventRecorder, EventText, ObjectReference};
use client::{Client, WallClock};

use crate::desired_announcements::DesiredAnnouncements;
use crate::desired_announcements::withheld::Withheld;
use crate::egress::reports::EgressReport;
use crate::election::rendezvous;
use crate::metrics::Metrics;

/// Component of the Events.
const COMPONENT: &str = "portolan-announcer";

/// Reporter of one announcer.
pub(crate) struct Reporter {
    node_name: String,
    events: EventQueue,
    metrics: Arc<Metrics>,
    /// Withheld addresses that were reported.
    withheld: BTreeMap<IpAddr, Withheld>,
}

impl Reporter {
    pub(crate) fn new(client: Client, node_name: String, metrics: Arc<Metrics>) -> Self {
        let recorder = EventRecorder::new(client, WallClock::system());
        let (events, write_events) = EventQueue::new(recorder);
        tokio::spawn(write_events);
        Self {
            node_name,
            events,
            metrics,
            withheld: BTreeMap::new(),
        }
    }

    /// Reports an address that this node owns from now on.
    pub(crate) fn acquired(&self, desired: &DesiredAnnouncements, address: IpAddr) {
        tracing::info!(%address, "address acquired");
        Metrics::count(&self.metrics.gains);
        self.metrics.set_owned(address, true);
        for (service, uid) in desired.services_of(address) {
            let message = format!(
                "announcing from node {:?} with protocol \"layer2\"",
                self.node_name
            );
            self.record(service, uid, EventText::normal("nodeAssigned", message));
        }
    }

    /// Reports an address that this node no longer owns.
    pub(crate) fn lost(&self, address: IpAddr) {
        tracing::info!(%address, "address released");
        Metrics::count(&self.metrics.losses);
        self.metrics.set_owned(address, false);
    }

    /// Reports those of the addresses that are newly withheld, or for another reason.
    pub(crate) fn update_withheld(&mut self, desired: &DesiredAnnouncements, addresses: &BTreeSet<IpAddr>) {
        for address in addresses {
            let reason = desired.withheld(*address);
            let reason = reason.filter(|_| desired.services_of(*address).next().is_some());
            let Some(reason) = reason else {
                self.withheld.remove(address);
                continue;
            };
            if self.withheld.insert(*address, reason.clone()).as_ref() == Some(&reason) {
                continue;
            }
            tracing::warn!(%address, %reason, "address withheld");
            self.record_withheld(desired, *address, &reason);
        }
        self.metrics.set_withheld(self.withheld.values());
    }

    /// Records Events about a withheld address. If all nodes see the reason, one of them records it.
    fn record_withheld(&self, desired: &DesiredAnnouncements, address: IpAddr, reason: &Withheld) {
        let is_seen_by_all = matches!(
            reason,
            Withheld::NoPool | Withheld::NoAdvertisement | Withheld::NodeAddress(_)
        );
        let recorder = rendezvous::winner(address, desired.uncordoned().iter());
        if is_seen_by_all && recorder.is_none_or(|name| **name != *self.node_name) {
            return;
        }
        for (service, uid) in desired.services_of(address) {
            let message = format!(
                "{address} is not announced from node {:?}: {reason}",
                self.node_name
            );
            self.record(service, uid, EventText::warning("AddressWithheld", message));
        }
    }

    /// Reports the egress of a Service. If all nodes see the same, one of them records the Event.
    pub(crate) fn egress(
        &self,
        desired: &DesiredAnnouncements,
        service: &ObjectKey,
        uid: &str,
        report: &EgressReport,
    ) {
        match report {
            EgressReport::Fault(fault) => tracing::warn!(%service, %fault, "egress not applied"),
            EgressReport::Applied(addresses) => tracing::info!(%service, ?addresses, "egress applied"),
            EgressReport::Ended(fault) => tracing::info!(%service, %fault, "fault of egress ended"),
        }
        let address = Ipv4Addr::UNSPECIFIED.into();
        let recorder = rendezvous::winner(address, desired.uncordoned().iter());
        if report.is_seen_by_all() && recorder.is_none_or(|name| **name != *self.node_name) {
            return;
        }
        self.record(service, uid, report.event(&self.node_name));
    }

    /// Records an Event about a Service.
    fn record(&self, service: &ObjectKey, uid: &str, event: EventText) {
        self.events.record(EventBatch {
            component: COMPONENT,
            regarding: ObjectReference::service(service.clone(), uid.to_owned()),
            events: vec![event],
        });
    }
}
