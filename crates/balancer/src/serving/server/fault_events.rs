//! Events about Services that the edge cannot serve, and the faults of their ports.

use std::collections::{BTreeMap, BTreeSet};

use api::object::ObjectKey;
use client::events::{EventBatch, EventQueue, EventRecorder, EventText, ObjectReference};
use client::{Client, WallClock};
use edge::Faults;

use crate::edge_report::PortFault;
use crate::serving::draining_addresses::DrainingAddresses;
use crate::serving::faults::{RecordedMessages, messages, port_faults};
use crate::serving::state::EdgeState;

/// Component of Events.
const COMPONENT: &str = "portolan-edge";

/// Events and port faults of Services.
pub(super) struct FaultEvents {
    events: EventQueue,
    recorded: RecordedMessages,
    /// Services whose faults may have changed.
    pending: BTreeSet<ObjectKey>,
    /// Services with faults of the edge.
    faulty: BTreeSet<ObjectKey>,
    /// Faults of ports, for each Service that has any.
    port_faults: BTreeMap<ObjectKey, Vec<PortFault>>,
    /// Events of each Ingress that has any.
    ingress_events: BTreeMap<ObjectKey, Vec<EventText>>,
    /// True while Ingresses may have other Events.
    is_ingress_pending: bool,
}

impl FaultEvents {
    pub(super) fn new(client: Client) -> Self {
        let recorder = EventRecorder::new(client, WallClock::system());
        let (events, write_events) = EventQueue::new(recorder);
        tokio::spawn(write_events);
        Self {
            events,
            recorded: RecordedMessages::default(),
            pending: BTreeSet::new(),
            faulty: BTreeSet::new(),
            port_faults: BTreeMap::new(),
            ingress_events: BTreeMap::new(),
            is_ingress_pending: false,
        }
    }

    /// Marks Services whose settings changed.
    pub(super) fn enqueue(&mut self, services: BTreeSet<ObjectKey>) {
        self.pending.extend(services);
        self.is_ingress_pending = true;
    }

    /// Marks the Services with new and with resolved faults.
    pub(super) fn faults_changed(&mut self, faults: &Faults) {
        let faulty: BTreeSet<ObjectKey> = messages(faults).into_keys().collect();
        self.pending.extend(faulty.union(&self.faulty).cloned());
        self.faulty = faulty;
    }

    /// Faults of ports of all Services.
    pub(super) fn port_faults(&self) -> impl Iterator<Item = &PortFault> {
        self.port_faults.values().flatten()
    }

    /// Records new Events about Ingresses.
    pub(super) fn record_ingresses(&mut self, state: &EdgeState) {
        if !std::mem::take(&mut self.is_ingress_pending) {
            return;
        }
        let mut current: BTreeMap<ObjectKey, Vec<EventText>> = BTreeMap::new();
        for (key, events) in state.ingress_events() {
            current
                .entry(key.clone())
                .or_default()
                .extend(events.iter().cloned());
        }
        for (key, events) in &current {
            let former = self.ingress_events.get(key).map_or(&[][..], Vec::as_slice);
            let added = events.iter().filter(|event| !former.contains(event));
            let added: Vec<EventText> = added.cloned().collect();
            let Some(ingress) = state.ingress(key).filter(|_| !added.is_empty()) else {
                continue;
            };
            self.events.record(EventBatch {
                component: COMPONENT,
                regarding: ObjectReference::of(ingress),
                events: added,
            });
        }
        self.ingress_events = current;
    }

    /// Records Events about marked Services and updates their port faults.
    pub(super) fn record(&mut self, state: &EdgeState, draining: &DrainingAddresses, faults: &Faults) {
        if self.pending.is_empty() {
            return;
        }
        let mut messages = messages(faults);
        for key in std::mem::take(&mut self.pending) {
            let served = state.service(&key).map(|served| {
                let mut addresses = state.addresses_of(served);
                // The new owner reports about an address that moved away.
                addresses.retain(|address| !draining.contains(*address));
                (served, addresses)
            });
            let Some((served, addresses)) = served.filter(|(_, addresses)| !addresses.is_empty()) else {
                self.recorded.replace(&key, BTreeSet::new());
                self.port_faults.remove(&key);
                continue;
            };
            let mut service_messages = messages.remove(&key).unwrap_or_default();
            service_messages.extend(state.faults(&key).iter().cloned());
            for message in self.recorded.replace(&key, service_messages) {
                self.events.record(EventBatch {
                    component: COMPONENT,
                    regarding: ObjectReference::of(&served.service),
                    events: vec![EventText::warning("EdgeDegraded", message)],
                });
            }
            let port_faults = port_faults(served, &addresses, faults);
            if port_faults.is_empty() {
                self.port_faults.remove(&key);
            } else {
                self.port_faults.insert(key, port_faults);
            }
        }
    }
}
