//! What the announcer tells about itself.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use exposition::{Answer, Counted, Respond, Text, listen, serve};
use http::StatusCode;

/// Pause between two tries to bind an address.
const BIND_RETRY_PERIOD: Duration = Duration::from_secs(5);

/// Counters of an announcer.
#[derive(Debug, Default)]
pub struct Metrics {
    pub(super) requests: AtomicU64,
    pub(super) answers: AtomicU64,
    pub(super) announcements: AtomicU64,
    pub(super) gains: AtomicU64,
    pub(super) losses: AtomicU64,
    pub(super) probes_sent: AtomicU64,
    pub(super) probes_received: AtomicU64,
    pub(super) probes_refused: AtomicU64,
    held: Mutex<BTreeSet<IpAddr>>,
}

impl Metrics {
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn set_held(&self, address: IpAddr, is_held: bool) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if is_held {
            held.insert(address);
        } else {
            held.remove(&address);
        }
    }

    /// The addresses that this node answers for.
    pub fn held(&self) -> BTreeSet<IpAddr> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut text = Text::default();
        let counters = [
            ("portolan_announcer_requests_received_total", &self.requests),
            ("portolan_announcer_responses_sent_total", &self.answers),
            ("portolan_announcer_gratuitous_sent_total", &self.announcements),
            ("portolan_announcer_addresses_gained_total", &self.gains),
            ("portolan_announcer_addresses_lost_total", &self.losses),
            ("portolan_announcer_probes_sent_total", &self.probes_sent),
            ("portolan_announcer_probes_received_total", &self.probes_received),
            ("portolan_announcer_probes_refused_total", &self.probes_refused),
        ];
        for (name, counter) in counters {
            text.family(name, Counted::Counter);
            text.sample(name, "", counter.load(Ordering::Relaxed));
        }
        let name = "portolan_announcer_announced";
        text.family(name, Counted::Gauge);
        for address in self.held() {
            text.sample(name, &format!("ip=\"{address}\""), 1);
        }
        text.finish()
    }
}

/// Serves `/metrics` and `/healthz` until it is dropped. An address that cannot be listened on is tried again.
pub async fn serve_status(address: SocketAddr, metrics: Arc<Metrics>) {
    let respond: Respond = Arc::new(move |uri| match uri.path() {
        "/metrics" => Answer::metrics(metrics.render()),
        "/healthz" | "/livez" => Answer::text(StatusCode::OK, "ok"),
        _ => Answer::not_found(),
    });
    loop {
        match listen(address) {
            Ok(listener) => return serve(listener, respond).await,
            Err(error) => tracing::warn!(%address, %error, "cannot listen for metrics, trying again"),
        }
        tokio::time::sleep(BIND_RETRY_PERIOD).await;
    }
}
