//! What the announcer tells about itself.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use telemetry::{MetricType, MetricsText};
use tokio::sync::watch;

use crate::Status;
use crate::desired_announcements::withheld::Withheld;

/// Counters of an announcer, and how it said last that things are.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(crate) requests: AtomicU64,
    pub(crate) answers: AtomicU64,
    pub(crate) announcements: AtomicU64,
    pub(crate) gains: AtomicU64,
    pub(crate) losses: AtomicU64,
    pub(crate) probes_sent: AtomicU64,
    pub(crate) probes_received: AtomicU64,
    pub(crate) probes_refused: AtomicU64,
    pub(crate) forgotten: AtomicU64,
    led: AtomicUsize,
    cannot_lead: Mutex<Vec<String>>,
    /// Addresses that are withheld, by [`Withheld::LABELS`].
    withheld: [AtomicUsize; Withheld::LABELS.len()],
    /// Nothing before an announcer has begun.
    held: watch::Sender<Option<BTreeSet<IpAddr>>>,
    status: Mutex<Option<(Instant, Arc<Status>)>>,
}

impl Metrics {
    pub(crate) fn count(counter: &AtomicU64) {
        Self::add(counter, 1);
    }

    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn set_held(&self, address: IpAddr, is_held: bool) {
        self.held.send_if_modified(|held| {
            let held = held.get_or_insert_default();
            match is_held {
                true => held.insert(address),
                false => held.remove(&address),
            }
        });
    }

    /// For how many addresses packets are sent on to the node before.
    pub(crate) fn set_led(&self, count: usize) {
        self.led.store(count, Ordering::Relaxed);
    }

    /// The reasons of all addresses that are withheld.
    pub(crate) fn set_withheld<'w>(&self, withheld: impl Iterator<Item = &'w Withheld>) {
        let mut counts = [0; Withheld::LABELS.len()];
        for reason in withheld {
            let place = Withheld::LABELS.iter().position(|label| *label == reason.label());
            counts[place.unwrap_or_default()] += 1;
        }
        for (counter, count) in self.withheld.iter().zip(counts) {
            counter.store(count, Ordering::Relaxed);
        }
    }

    /// What the kernel cannot lead, and why.
    pub(crate) fn tell_cannot_lead(&self, why: Vec<String>) {
        *self.cannot_lead.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Families of addresses whose connections do not go on when they move, each with the reason.
    pub fn cannot_lead(&self) -> Vec<String> {
        self.cannot_lead
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// An announcer has begun; it answers for nothing yet.
    pub(crate) fn begin(&self) {
        self.held.send_replace(Some(BTreeSet::new()));
    }

    pub(crate) fn tell_status(&self, status: Status) {
        let told = Some((Instant::now(), Arc::new(status)));
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = told;
    }

    /// How things are, and how long ago the announcer said so; `None` if it never did.
    pub fn status(&self) -> Option<(Duration, Arc<Status>)> {
        let told = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        told.map(|(at, status)| (at.elapsed(), status))
    }

    /// The addresses that this node answers for.
    pub fn held(&self) -> BTreeSet<IpAddr> {
        self.held.borrow().clone().unwrap_or_default()
    }

    /// The addresses that this node answers for, and news of them; nothing as long as no announcer has begun.
    pub fn follow_held(&self) -> watch::Receiver<Option<BTreeSet<IpAddr>>> {
        self.held.subscribe()
    }

    /// All in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut text = MetricsText::default();
        let counters = [
            (
                "portolan_announcer_requests_received_total",
                "Number of ARP requests and neighbour solicitations received for announced addresses.",
                &self.requests,
            ),
            (
                "portolan_announcer_responses_sent_total",
                "Number of ARP replies and neighbour advertisements sent in response to requests.",
                &self.answers,
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
                "Number of probes refused because they were malformed or not authentic.",
                &self.probes_refused,
            ),
            (
                "portolan_announcer_connections_forgotten_total",
                "Number of stale connection tracking entries deleted.",
                &self.forgotten,
            ),
        ];
        for (name, help, counter) in counters {
            text.single(name, MetricType::Counter, help, counter.load(Ordering::Relaxed));
        }
        let gauges = [
            (
                "portolan_announcer_led_addresses",
                "Number of addresses for which this node forwards packets of earlier connections to previous owners.",
                self.led.load(Ordering::Relaxed),
            ),
            (
                "portolan_announcer_families_not_led",
                "Number of IP families for which the kernel cannot forward packets of earlier connections.",
                self.cannot_lead().len(),
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
            "Addresses that this node announces; always 1.",
        );
        for address in self.held() {
            text.sample(name, &format!("ip=\"{address}\""), 1);
        }
        text.finish()
    }
}
