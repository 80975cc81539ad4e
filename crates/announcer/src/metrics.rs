//! Metrics of the announcer in the Prometheus text format, also under the names of MetalLB (LBM-17), and its last status.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::object::ObjectKey;
use telemetry::{MetricType, MetricsText};
use tokio::sync::watch;

use crate::Status;
use crate::desired_announcements::withheld::Withheld;
use crate::egress::plan::ServiceEgress;

/// Values of the label `state` of addresses of Pods with egress: translated at this node, sent to the owner, dropped.
const EGRESS_STATES: [&str; 3] = ["translated", "routed", "blocked"];

/// Counters of an announcer, its owned addresses and its last status.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(crate) requests: AtomicU64,
    pub(crate) replies: AtomicU64,
    pub(crate) announcements: AtomicU64,
    pub(crate) gains: AtomicU64,
    pub(crate) losses: AtomicU64,
    pub(crate) probes_sent: AtomicU64,
    pub(crate) probes_received: AtomicU64,
    pub(crate) probes_refused: AtomicU64,
    pub(crate) flushed: AtomicU64,
    forwarded: AtomicUsize,
    forwarding_unavailable: Mutex<Vec<String>>,
    /// Addresses of Pods with egress by [`EGRESS_STATES`].
    egress_pods: [AtomicUsize; EGRESS_STATES.len()],
    /// Services with egress; true without a fault.
    egress_services: Mutex<BTreeMap<ObjectKey, bool>>,
    /// Withheld addresses by [`Withheld::LABELS`].
    withheld: [AtomicUsize; Withheld::LABELS.len()],
    /// `None` before an announcer has started.
    owned: watch::Sender<Option<BTreeSet<IpAddr>>>,
    status: Mutex<Option<(Instant, Arc<Status>)>>,
    /// Numbers of messages by [`Message`], for each address that this node owns.
    messages: Mutex<BTreeMap<IpAddr, [u64; 3]>>,
}

/// An ARP or NDP message for an address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// Received request.
    Request,
    /// Sent response.
    Response,
    /// Sent announcement without a request.
    Gratuitous,
}

impl Metrics {
    /// Increments a counter.
    pub(crate) fn count(counter: &AtomicU64) {
        Self::add(counter, 1);
    }

    /// Adds to a counter.
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts a message for an address: in total, and for the address while this node owns it.
    pub(crate) fn count_message(&self, address: IpAddr, message: Message) {
        Self::count(match message {
            Message::Request => &self.requests,
            Message::Response => &self.replies,
            Message::Gratuitous => &self.announcements,
        });
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = messages
            .get_mut(&address)
            .and_then(|counts| counts.get_mut(message as usize))
        {
            *count += 1;
        }
    }

    /// Records that this node owns an address, or no longer owns it.
    pub(crate) fn set_owned(&self, address: IpAddr, is_owned: bool) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if is_owned {
            messages.entry(address).or_default();
        } else {
            messages.remove(&address);
        }
        drop(messages);
        self.owned.send_if_modified(|owned| {
            let owned = owned.get_or_insert_default();
            if is_owned {
                owned.insert(address)
            } else {
                owned.remove(&address)
            }
        });
    }

    /// Sets the number of addresses with forwarding to a previous owner.
    pub(crate) fn set_forwarded(&self, count: usize) {
        self.forwarded.store(count, Ordering::Relaxed);
    }

    /// Sets the numbers of addresses of Pods with egress by [`EGRESS_STATES`].
    pub(crate) fn set_egress_pods(&self, counts: [usize; EGRESS_STATES.len()]) {
        for (counter, count) in self.egress_pods.iter().zip(counts) {
            counter.store(count, Ordering::Relaxed);
        }
    }

    /// Sets the Services with egress, each with its state.
    pub(crate) fn set_egress_services(&self, services: &BTreeMap<ObjectKey, ServiceEgress>) {
        let states = services.iter().map(|(key, state)| {
            let is_applied = matches!(state, ServiceEgress::Applied(_));
            (key.clone(), is_applied)
        });
        let states = states.collect();
        *self
            .egress_services
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = states;
    }

    /// Counts the withheld addresses by reason.
    pub(crate) fn set_withheld<'w>(&self, withheld: impl Iterator<Item = &'w Withheld>) {
        let mut counts = [0; Withheld::LABELS.len()];
        for reason in withheld {
            let index = Withheld::LABELS.iter().position(|label| *label == reason.label());
            counts[index.unwrap_or_default()] += 1;
        }
        for (counter, count) in self.withheld.iter().zip(counts) {
            counter.store(count, Ordering::Relaxed);
        }
    }

    /// Sets the IP families without forwarding, with reasons.
    pub(crate) fn set_forwarding_unavailable(&self, reasons: Vec<String>) {
        *self
            .forwarding_unavailable
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = reasons;
    }

    /// Returns the IP families without forwarding, each with the reason. Their connections break when addresses move.
    pub fn forwarding_unavailable(&self) -> Vec<String> {
        self.forwarding_unavailable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Notes that an announcer has started; it owns no address yet.
    pub(crate) fn begin(&self) {
        self.owned.send_replace(Some(BTreeSet::new()));
        self.messages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Sets the status, with the current time.
    pub(crate) fn set_status(&self, status: Status) {
        let entry = Some((Instant::now(), Arc::new(status)));
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = entry;
    }

    /// Returns the last status and its age; `None` before the first one.
    pub fn status(&self) -> Option<(Duration, Arc<Status>)> {
        let entry = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        entry.map(|(at, status)| (at.elapsed(), status))
    }

    /// Returns the addresses that this node owns.
    pub fn owned(&self) -> BTreeSet<IpAddr> {
        self.owned.borrow().clone().unwrap_or_default()
    }

    /// Subscribes to the addresses that this node owns; `None` until an announcer has started.
    pub fn subscribe_owned(&self) -> watch::Receiver<Option<BTreeSet<IpAddr>>> {
        self.owned.subscribe()
    }

    /// Renders all metrics in the Prometheus text format.
    pub fn render(&self) -> String {
        let mut text = MetricsText::default();
        self.write_counters(&mut text);
        self.write_gauges(&mut text);
        self.write_egress(&mut text);
        self.write_messages(&mut text);
        if let Some((_, status)) = self.status() {
            status.write_metrics(&self.owned(), &mut text);
        }
        text.finish()
    }

    /// Writes the counters.
    fn write_counters(&self, text: &mut MetricsText) {
        let counters = [
            (
                "portolan_announcer_requests_received_total",
                "Number of ARP requests and neighbour solicitations received for announced addresses.",
                &self.requests,
            ),
            (
                "portolan_announcer_responses_sent_total",
                "Number of ARP replies and neighbour advertisements sent in response to requests.",
                &self.replies,
            ),
            (
                "portolan_announcer_gratuitous_sent_total",
                "Number of unsolicited ARP announcements and neighbour advertisements sent.",
                &self.announcements,
            ),
            (
                "portolan_announcer_addresses_gained_total",
                "Number of times this node became the owner of an address.",
                &self.gains,
            ),
            (
                "portolan_announcer_addresses_lost_total",
                "Number of times this node stopped being the owner of an address.",
                &self.losses,
            ),
            (
                "portolan_announcer_probes_sent_total",
                "Number of probes sent to other announcers.",
                &self.probes_sent,
            ),
            (
                "portolan_announcer_probes_received_total",
                "Number of valid probes received from other announcers.",
                &self.probes_received,
            ),
            (
                "portolan_announcer_probes_refused_total",
                "Number of probes rejected because they were malformed or not authentic.",
                &self.probes_refused,
            ),
            (
                "portolan_announcer_conntrack_entries_flushed_total",
                "Number of stale connection tracking entries deleted.",
                &self.flushed,
            ),
            (
                "portolan_announcer_connections_forgotten_total",
                "Deprecated name of portolan_announcer_conntrack_entries_flushed_total.",
                &self.flushed,
            ),
        ];
        for (name, help, counter) in counters {
            text.single(name, MetricType::Counter, help, counter.load(Ordering::Relaxed));
        }
    }

    /// Writes the messages for each address under the names of MetalLB.
    fn write_messages(&self, text: &mut MetricsText) {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, help, message) in [
            (
                "metallb_layer2_requests_received",
                "Number of layer2 requests received for owned IPs.",
                Message::Request,
            ),
            (
                "metallb_layer2_responses_sent",
                "Number of layer2 responses sent for owned IPs in response to requests.",
                Message::Response,
            ),
            (
                "metallb_layer2_gratuitous_sent",
                "Number of gratuitous layer2 packets sent for owned IPs as a result of failovers.",
                Message::Gratuitous,
            ),
        ] {
            text.family(name, MetricType::Counter, help);
            for (address, counts) in &*messages {
                let count = counts.get(message as usize).copied().unwrap_or_default();
                text.sample(name, &format!("ip=\"{address}\""), count);
            }
        }
    }

    /// Writes the gauges.
    fn write_gauges(&self, text: &mut MetricsText) {
        let forwarded = self.forwarded.load(Ordering::Relaxed);
        let families_not_forwarded = self.forwarding_unavailable().len();
        let gauges = [
            (
                "portolan_announcer_forwarded_addresses",
                "Number of addresses for which this node forwards packets of earlier connections to previous owners.",
                forwarded,
            ),
            (
                "portolan_announcer_led_addresses",
                "Deprecated name of portolan_announcer_forwarded_addresses.",
                forwarded,
            ),
            (
                "portolan_announcer_families_not_forwarded",
                "Number of IP families for which the kernel cannot forward packets of earlier connections.",
                families_not_forwarded,
            ),
            (
                "portolan_announcer_families_not_led",
                "Deprecated name of portolan_announcer_families_not_forwarded.",
                families_not_forwarded,
            ),
        ];
        for (name, help, value) in gauges {
            text.single(name, MetricType::Gauge, help, value);
        }
        let name = "portolan_announcer_withheld_addresses";
        text.family(
            name,
            MetricType::Gauge,
            "Number of addresses that this node does not announce, by reason.",
        );
        for (label, counter) in Withheld::LABELS.iter().zip(&self.withheld) {
            text.sample(
                name,
                &format!("reason=\"{label}\""),
                counter.load(Ordering::Relaxed),
            );
        }
        let name = "portolan_announcer_announced";
        text.family(
            name,
            MetricType::Gauge,
            "1 for each address that this node announces.",
        );
        for address in self.owned() {
            text.sample(name, &format!("ip=\"{address}\""), 1);
        }
    }

    fn write_egress(&self, text: &mut MetricsText) {
        let name = "portolan_announcer_egress_pods";
        text.family(
            name,
            MetricType::Gauge,
            "Number of addresses of Pods with egress of all nodes, by the action of this node in the last rules that \
             the kernel accepted. Those beyond the bound count at their own node only.",
        );
        for (state, counter) in EGRESS_STATES.iter().zip(&self.egress_pods) {
            let count = counter.load(Ordering::Relaxed);
            text.sample(name, &format!("state=\"{state}\""), count);
        }
        let name = "portolan_announcer_egress_ready";
        text.family(
            name,
            MetricType::Gauge,
            "1 for each Service with egress without a known fault, 0 if this node knows that packets of its Pods are \
             dropped or may leave with another address.",
        );
        let services = self
            .egress_services
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (key, is_applied) in &*services {
            let labels = format!("namespace=\"{}\",service=\"{}\"", key.namespace, key.name);
            text.sample(name, &labels, u8::from(*is_applied));
        }
    }
}

#[cfg(test)]
mod tests;
