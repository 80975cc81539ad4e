//! Leader election by a Lease, as client-go holds it, with a fence.
//!
//! # No two leaders write at once
//!
//! A leadership rests on a renewal that the leader sent at a moment *s* and that the server accepted. Every write
//! passes the leader's [`Fence`], which blocks writes later than *s* + the renew deadline and cancels those still in
//! progress. Another candidate takes the lease only after it has seen it unchanged for the whole lease duration. It
//! saw the renewal no earlier than *s*. A margin therefore separates the last write of one leader from the first of
//! the next. It is at least the lease duration minus the renew deadline (5 s by default). This margin covers clocks
//! with different rates and a server that still handles a request of a closed connection. Clocks of two hosts are
//! never compared. A process that was stopped or suspended finds its fence closed when it continues. The fence uses the
//! clock that went further.
//!
//! Writes that the network delays even longer fail. Updates and deletions carry versions and UIDs, so they conflict
//! if the next leader wrote the object.

mod elector;

use std::future::Future;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::json;
use telemetry::{MetricType, MetricsText};
use tokio::sync::watch;

use crate::clock::WallClock;
use crate::fence::{Fence, Moment};
use crate::request::{Client, JSON};

pub use elector::{Elector, LeaseRequest, LeaseResponse};

/// Jitter factor of the retry period, so that candidates do not act at the same time.
const JITTER: f64 = 1.2;

/// Settings of an election; names and defaults of upstream's `--leader-elect-…` flags.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Identity of this candidate, unique among all.
    pub identity: String,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Duration of a lease without renewal.
    pub lease_duration: Duration,
    /// Duration for which a leader acts without a successful renewal; less than the lease duration.
    pub renew_deadline: Duration,
    /// Period of attempts to acquire or renew the lease; less than the renew deadline.
    pub retry_period: Duration,
}

/// Writes the metric of an election. `name` is that of the Lease.
pub fn write_metrics(text: &mut MetricsText, name: &str, is_leader: bool) {
    let family = "leader_election_master_status";
    text.family(
        family,
        MetricType::Gauge,
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. \
         'name' is the string used to identify the lease. Please make sure to group by name.",
    );
    text.sample(family, &format!("name=\"{name}\""), u8::from(is_leader));
}

/// Invalid settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Another candidate would take over before the leader stops.
    #[error("the lease duration ({0:?}) must be longer than the renew deadline ({1:?})")]
    LeaseDuration(Duration, Duration),
    /// The leader would stop before its second attempt.
    #[error("the renew deadline ({0:?}) must be longer than {JITTER} times the retry period ({1:?})")]
    RenewDeadline(Duration, Duration),
    /// Leases have whole seconds, and zero is invalid.
    #[error("the lease duration and the retry period must be at least 1s")]
    TooShort,
}

impl Settings {
    /// Checks the settings by upstream's rules.
    ///
    /// # Errors
    ///
    /// Returns [`SettingsError`] for the first violated rule.
    pub fn check(&self) -> Result<(), SettingsError> {
        let second = Duration::from_secs(1);
        if self.lease_duration < second || self.retry_period < second {
            return Err(SettingsError::TooShort);
        }
        if self.lease_duration <= self.renew_deadline {
            return Err(SettingsError::LeaseDuration(
                self.lease_duration,
                self.renew_deadline,
            ));
        }
        if self.renew_deadline <= self.retry_period.mul_f64(JITTER) {
            return Err(SettingsError::RenewDeadline(
                self.renew_deadline,
                self.retry_period,
            ));
        }
        Ok(())
    }

    fn collection(&self) -> String {
        let namespace = &self.namespace;
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
    }
}

/// Completion of the requests of a leader whose work has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestCompletion {
    /// All requests are complete.
    Complete,
    /// Some requests were abandoned and may still arrive.
    Abandoned,
}

/// Resolves when `end` becomes true: the work has to stop.
pub async fn shutdown_requested(mut end: watch::Receiver<bool>) {
    drop(end.wait_for(|end| *end).await);
}

/// Runs `work` whenever this candidate is the leader, until `shutdown` resolves.
///
/// The work gets a fenced client, which permits writes only while the lease is held. When the lease is lost, the work
/// is cancelled and the candidate stands by. At shutdown, the candidate holds the lease until the work has ended.
/// Then it releases the lease, so that the next leader does not wait. `is_leader` publishes the leadership.
///
/// ```no_run
/// use client::election::{self, RequestCompletion, Settings};
/// use client::{Client, WallClock};
/// use tokio::sync::watch;
///
/// # async fn example(client: Client, settings: Settings) {
/// let work = |client: Client, end| async move {
///     election::shutdown_requested(end).await;
///     drop(client); // The fenced client, for all writes of the leader.
///     RequestCompletion::Complete
/// };
/// let (is_leader, _) = watch::channel(false);
/// let shutdown = std::future::pending();
/// election::run_as_leader(client, settings, WallClock::system(), is_leader, shutdown, work).await;
/// # }
/// ```
pub async fn run_as_leader<F>(
    client: Client,
    settings: Settings,
    clock: WallClock,
    is_leader: watch::Sender<bool>,
    shutdown: impl Future<Output = ()>,
    mut work: impl FnMut(Client, watch::Receiver<bool>) -> F,
) where
    F: Future<Output = RequestCompletion>,
{
    let mut candidate = Candidate::new(client.clone(), settings, clock);
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => return candidate.resign().await,
            () = candidate.acquire() => {}
        }
        is_leader.send_replace(true);
        let (end, ended) = watch::channel(false);
        let fence = candidate.fence.clone();
        let work = work(client.fenced(fence.clone()), ended);
        let (completion, is_shutdown) = {
            let renew_until_lost = candidate.renew_until_lost();
            tokio::pin!(work, renew_until_lost);
            let is_shutdown = tokio::select! {
                biased;
                () = &mut shutdown => true,
                () = &mut renew_until_lost => false,
                _ = &mut work => {
                    tracing::error!("leader work ended while its lease was held");
                    fence.close();
                    is_leader.send_replace(false);
                    return;
                }
            };
            end.send_replace(true);
            let mut is_kept = is_shutdown;
            let completion = loop {
                tokio::select! {
                    biased;
                    completion = &mut work => break completion,
                    () = &mut renew_until_lost, if is_kept => is_kept = false,
                }
            };
            (completion, is_shutdown)
        };
        fence.close();
        is_leader.send_replace(false);
        if is_shutdown {
            // Abandoned writes must not arrive after another leader has started: the lease expires instead of being
            // released.
            if completion == RequestCompletion::Complete && !candidate.may_have_late_write() {
                candidate.resign().await;
            }
            return;
        }
    }
}

/// A candidate with its client and its fence.
struct Candidate {
    client: Client,
    settings: Settings,
    clock: WallClock,
    elector: Elector,
    fence: Fence,
}

impl Candidate {
    fn new(client: Client, settings: Settings, clock: WallClock) -> Self {
        Self {
            client,
            elector: Elector::new(settings.clone()),
            settings,
            fence: Fence::closed(clock.clone()),
            clock,
        }
    }

    /// Returns true if an abandoned write may still reach the server within the remaining lease.
    fn may_have_late_write(&self) -> bool {
        let margin = self
            .settings
            .lease_duration
            .saturating_sub(self.settings.renew_deadline);
        self.fence.has_abandoned_write(margin)
    }

    /// Waits until this candidate holds the lease.
    async fn acquire(&mut self) {
        let mut logged_holder = None;
        loop {
            self.attempt().await;
            if self.is_leader_now() {
                break;
            }
            let holder = self.elector.holder();
            if logged_holder.as_deref() != Some(holder) {
                tracing::info!(
                    lease = self.settings.name,
                    holder,
                    "lease held by another candidate"
                );
                logged_holder = Some(holder.to_owned());
            }
            let jitter = self.settings.retry_period.mul_f64(fastrand::f64() * JITTER);
            tokio::time::sleep(self.settings.retry_period + jitter).await;
        }
        tracing::info!(
            lease = self.settings.name,
            identity = self.settings.identity,
            "became leader"
        );
        tokio::spawn(write_lease_event(
            self.client.clone(),
            self.settings.clone(),
            self.clock.now(),
        ));
    }

    /// Renews the lease until that fails.
    async fn renew_until_lost(&mut self) {
        while self.is_leader_now() {
            tokio::time::sleep(self.settings.retry_period).await;
            // An attempt ends with the deadline of the last renewal.
            self.attempt().await;
        }
        self.fence.close();
        tracing::error!(
            lease = self.settings.name,
            holder = self.elector.holder(),
            "leader election lost; writes stopped"
        );
    }

    /// Releases the lease.
    async fn resign(&mut self) {
        let now = Moment::now(&self.clock);
        if let Some(request) = self.elector.resignation(&now, self.clock.now()) {
            self.send(&request).await;
            tracing::info!(lease = self.settings.name, "lease released");
        }
    }

    fn is_leader_now(&self) -> bool {
        let now = Moment::now(&self.clock);
        self.elector.leading_since(&now).is_some()
    }

    /// Attempts to acquire or renew the lease.
    async fn attempt(&mut self) {
        let mut next = Some(self.elector.next_request(&self.now(), self.clock.now()));
        while let Some(request) = next {
            let sent = self.now();
            let response = self.send(&request).await;
            let now = self.now();
            next = self
                .elector
                .process_response(&request, sent, response, &now, self.clock.now());
        }
        if let Some(since) = self.elector.leading_since(&self.now()) {
            self.fence.open(since, self.settings.renew_deadline);
        }
    }

    /// Sends a request about the Lease before its deadline.
    async fn send(&self, request: &LeaseRequest) -> LeaseResponse {
        let collection = self.settings.collection();
        let path = format!("{collection}/{}", self.settings.name);
        let exchange = async {
            match request {
                LeaseRequest::Read => self.client.get(&path).await,
                LeaseRequest::Create(lease) => {
                    self.client
                        .request(Method::POST, &collection, JSON, Some(lease))
                        .await
                }
                LeaseRequest::Replace(lease) => {
                    self.client.request(Method::PUT, &path, JSON, Some(lease)).await
                }
            }
        };
        // The timeout leaves time for another attempt before the deadline.
        match tokio::time::timeout(self.settings.renew_deadline / 2, exchange).await {
            Ok(Ok(lease)) => LeaseResponse::Lease(lease),
            Ok(Err(error)) if error.is_not_found() && *request == LeaseRequest::Read => {
                LeaseResponse::Missing
            }
            Ok(Err(error)) => {
                if !error.is_conflict() {
                    tracing::warn!(%error, "Lease request failed");
                }
                LeaseResponse::Failed
            }
            Err(_) => {
                tracing::warn!(lease = path, "Lease request timed out");
                LeaseResponse::Failed
            }
        }
    }

    fn now(&self) -> Moment {
        Moment::now(&self.clock)
    }
}

/// Writes an Event about the Lease, as upstream does. It is best effort, and the leader does not wait for it.
async fn write_lease_event(client: Client, settings: Settings, now: Timestamp) {
    let Settings {
        namespace,
        name,
        identity,
        ..
    } = &settings;
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{:x}", now.as_nanosecond()), "namespace": namespace},
        "involvedObject": {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
                           "namespace": namespace, "name": name},
        "type": "Normal", "reason": "LeaderElection", "message": format!("{identity} became leader"),
        "source": {"component": identity}, "reportingComponent": identity,
        "count": 1, "firstTimestamp": time, "lastTimestamp": time,
    });
    let path = format!("/api/v1/namespaces/{namespace}/events");
    if let Err(error) = client.request(Method::POST, &path, JSON, Some(&event)).await {
        tracing::warn!(%error, "Event not written");
    }
}
