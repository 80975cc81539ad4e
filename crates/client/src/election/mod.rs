//! Leader election by a Lease, as client-go holds it, with a fence.
//!
//! Why no two leaders write at once. A leader's claim rests on a renewal that it sent at some moment *s* and
//! that the server accepted. Every write goes through a client whose [`Fence`] lets nothing out later
//! than *s* + the renew deadline, and cuts what is then still under way. Another candidate takes the lease
//! only if it saw it unchanged for the whole lease duration, and it saw the renewal no earlier than *s*. So
//! between the last write of one and the first of the other lies at least the lease duration minus the renew
//! deadline, 5 s if nothing is said, for clocks that do not run alike and for a server that is still busy with a
//! request whose client has gone. No clock is compared with another machine's. A process that was stopped or
//! suspended finds its fence closed when it wakes, since the fence believes the clock that went further.
//!
//! What a network or a server holds back for even longer meets the versions and UIDs that updates and deletions
//! carry: it is refused as a conflict if the next leader wrote the object.

mod elector;

use std::future::Future;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch;

use crate::clock::WallClock;
use crate::fence::{Fence, Moment};
use crate::request::{Client, JSON};

pub use elector::{Answer, Attempt, Elector};

/// How much longer than the retry period candidates wait at most, so that they do not all ask at once.
const JITTER: f64 = 1.2;

/// How an election is held; names and defaults of upstream's `--leader-elect-…` flags.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who this candidate is: unlike all others.
    pub identity: String,
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// How long a lease that is not renewed is respected.
    pub lease_duration: Duration,
    /// How long a leader goes on without a renewal that succeeds; less than the lease duration.
    pub renew_deadline: Duration,
    /// How often it is tried to renew or to get the lease; less than the renew deadline.
    pub retry_period: Duration,
}

/// Settings that no election can be held with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The lease would be taken over before its leader stops.
    #[error("the lease duration ({0:?}) must be longer than the renew deadline ({1:?})")]
    LeaseDuration(Duration, Duration),
    /// The leader would stop before it tried twice.
    #[error("the renew deadline ({0:?}) must be longer than {JITTER} times the retry period ({1:?})")]
    RenewDeadline(Duration, Duration),
    /// Leases are in whole seconds, and no time is none.
    #[error("the lease duration and the retry period must be at least 1s")]
    TooShort,
}

impl Settings {
    /// Whether an election can be held with these, by upstream's rules.
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

/// Whether work that was asked to end has left nothing under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All requests were answered.
    Complete,
    /// Some were given up, and may still arrive.
    CutShort,
}

/// Resolves when work is asked to end.
pub async fn asked(mut end: watch::Receiver<bool>) {
    drop(end.wait_for(|end| *end).await);
}

/// Runs `work` whenever this candidate leads, until `shutdown` resolves. The work gets a client that lets
/// writes through only while the lease is held, and is asked to end when it is lost; then the candidate stands by
/// again. At shutdown the lease is kept until the work has ended, and then given back, so that the next
/// leader need not wait. `is_leader` tells who asks.
pub async fn lead<F>(
    client: Client,
    settings: Settings,
    clock: WallClock,
    is_leader: watch::Sender<bool>,
    shutdown: impl Future<Output = ()>,
    mut work: impl FnMut(Client, watch::Receiver<bool>) -> F,
) where
    F: Future<Output = Ending>,
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
        let (ending, is_shutdown) = {
            let keep = candidate.keep();
            tokio::pin!(work, keep);
            let is_shutdown = tokio::select! {
                biased;
                () = &mut shutdown => true,
                () = &mut keep => false,
                _ = &mut work => {
                    tracing::error!("the leader's work ended by itself");
                    fence.close();
                    is_leader.send_replace(false);
                    return;
                }
            };
            end.send_replace(true);
            let mut is_kept = is_shutdown;
            let ending = loop {
                tokio::select! {
                    biased;
                    ending = &mut work => break ending,
                    () = &mut keep, if is_kept => is_kept = false,
                }
            };
            (ending, is_shutdown)
        };
        fence.close();
        is_leader.send_replace(false);
        if is_shutdown {
            // What may still be on its way must not arrive after somebody else began: the lease runs out instead.
            if ending == Ending::Complete && !candidate.may_be_heard_late() {
                candidate.resign().await;
            }
            return;
        }
    }
}

/// An elector with its client and its fence.
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

    /// Whether a write without an answer may still reach the server: for as long as the lease outlasts the
    /// permission to write, as when it runs out.
    fn may_be_heard_late(&self) -> bool {
        let margin = self
            .settings
            .lease_duration
            .saturating_sub(self.settings.renew_deadline);
        self.fence.is_in_doubt(margin)
    }

    /// Waits until the lease is ours.
    async fn acquire(&mut self) {
        let mut told = None;
        loop {
            self.attempt().await;
            if self.leads() {
                break;
            }
            let holder = self.elector.holder();
            if told.as_deref() != Some(holder) {
                tracing::info!(lease = self.settings.name, holder, "standing by");
                told = Some(holder.to_owned());
            }
            let jitter = self.settings.retry_period.mul_f64(fastrand::f64() * JITTER);
            tokio::time::sleep(self.settings.retry_period + jitter).await;
        }
        tracing::info!(
            lease = self.settings.name,
            identity = self.settings.identity,
            "became leader"
        );
        tokio::spawn(announce(
            self.client.clone(),
            self.settings.clone(),
            self.clock.now(),
        ));
    }

    /// Renews the lease for as long as that succeeds.
    async fn keep(&mut self) {
        while self.leads() {
            tokio::time::sleep(self.settings.retry_period).await;
            // A try is cut at the end of what the last renewal gave.
            self.attempt().await;
        }
        self.fence.close();
        tracing::error!(
            lease = self.settings.name,
            holder = self.elector.holder(),
            "leader election lost, nothing more is written"
        );
    }

    /// Gives the lease back.
    async fn resign(&mut self) {
        let now = Moment::now(&self.clock);
        if let Some(attempt) = self.elector.resignation(&now, self.clock.now()) {
            self.send(&attempt).await;
            tracing::info!(lease = self.settings.name, "the lease is given back");
        }
    }

    fn leads(&self) -> bool {
        let now = Moment::now(&self.clock);
        self.elector.leading_since(&now).is_some()
    }

    /// One try to get or to renew the lease.
    async fn attempt(&mut self) {
        let mut next = Some(self.elector.first(&self.now(), self.clock.now()));
        while let Some(attempt) = next {
            let sent = self.now();
            let answer = self.send(&attempt).await;
            let now = self.now();
            next = self
                .elector
                .answered(&attempt, sent, answer, &now, self.clock.now());
        }
        if let Some(since) = self.elector.leading_since(&self.now()) {
            self.fence.open(since, self.settings.renew_deadline);
        }
    }

    async fn send(&self, attempt: &Attempt) -> Answer {
        let collection = self.settings.collection();
        let path = format!("{collection}/{}", self.settings.name);
        let request = async {
            match attempt {
                Attempt::Read => self.client.get(&path).await,
                Attempt::Create(lease) => {
                    self.client
                        .request(Method::POST, &collection, JSON, Some(lease))
                        .await
                }
                Attempt::Replace(lease) => self.client.request(Method::PUT, &path, JSON, Some(lease)).await,
            }
        };
        // No longer than leaves time for another try within the deadline.
        match tokio::time::timeout(self.settings.renew_deadline / 2, request).await {
            Ok(Ok(lease)) => Answer::Lease(lease),
            Ok(Err(error)) if error.is_not_found() && *attempt == Attempt::Read => Answer::Missing,
            Ok(Err(error)) => {
                if !error.is_conflict() {
                    tracing::warn!(%error, "the lease could not be read or renewed");
                }
                Answer::Failed
            }
            Err(_) => {
                tracing::warn!(lease = path, "no answer about the lease in time");
                Answer::Failed
            }
        }
    }

    fn now(&self) -> Moment {
        Moment::now(&self.clock)
    }
}

/// Writes an Event on the Lease, as upstream does. It is a courtesy, and leading does not wait for it.
async fn announce(client: Client, settings: Settings, now: Timestamp) {
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
        tracing::warn!(%error, "the Event about leadership was lost");
    }
}
