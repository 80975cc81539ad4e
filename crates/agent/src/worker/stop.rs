//! The end of a Pod.

use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::users::release_ids;
use super::{Context, End, Leftover, Wanted, Worker, ends_with_agent};
use crate::network;
use crate::reporter;
use crate::settings::AtEnd;
use crate::state_directory::Record;

/// How long the API may take to hear the last status of an ended Pod.
const LAST_STATUS_PATIENCE: Duration = Duration::from_secs(30);
/// The same when the agent ends: nobody waits longer for a service to stop.
const LAST_STATUS_PATIENCE_AT_END: Duration = Duration::from_secs(2);
/// How long SIGTERM waits where a Service leads to the Pod: until the slice says that it is terminating and every
/// node's proxy has left it out, so that no client finds a closed port. It counts towards the grace period and takes
/// no more than half of it.
const SERVED_FOR: Duration = Duration::from_secs(2);
/// How long killed processes may take to be reaped, before their sandbox is killed with all that is in it.
const IMMORTAL_PATIENCE: Duration = Duration::from_secs(4);

impl Worker {
    /// Brings the Pod to its end, whatever the reason, and leaves nothing of it behind.
    pub(super) async fn end(mut self, end: End, wanted: &mut watch::Receiver<Wanted>) {
        tracing::info!(pod = %self.key, ?end, "ending");
        match end {
            End::AgentEnds if !ends_with_agent(&self.context.settings) => {
                // The sandbox runs on; the next agent finds it by the record.
                self.reporter.finish(LAST_STATUS_PATIENCE_AT_END).await;
                return;
            }
            End::AgentEnds => {
                let grace = match self.context.settings.at_end {
                    AtEnd::EndPods { grace } => grace.min(Duration::from_secs(self.pod.grace_seconds())),
                    AtEnd::KeepPods => Duration::ZERO,
                };
                self.terminate(grace).await;
                self.remove_everything().await;
                return;
            }
            End::Completion => {
                self.complete(wanted).await;
                return;
            }
            End::Gone => self.terminate(Duration::ZERO).await,
            End::Deletion => self.terminate_gracefully(wanted).await,
        }
        self.remove_everything().await;
        let (client, key, uid) = (&self.context.client, &self.key, &self.pod.metadata.uid);
        // The mirror of a static Pod is taken away by the agent, and its successor does not wait for the API.
        if end == End::Deletion && !self.is_static {
            self.reporter.finish(LAST_STATUS_PATIENCE).await;
            reporter::delete(client, key, uid).await;
        }
    }

    /// All containers have ended: keeps the status until somebody deletes the Pod.
    async fn complete(mut self, wanted: &mut watch::Receiver<Wanted>) {
        if !self.pod.is_finished() {
            self.report();
        }
        self.release().await;
        self.forget_network_and_ids();
        loop {
            if wanted.changed().await.is_err() {
                return;
            }
            let now = wanted.borrow_and_update().clone();
            match now {
                Wanted::Present(pod) if pod.is_terminating() && self.is_static => {
                    return self.remove_directory();
                }
                Wanted::Present(pod) if pod.is_terminating() => {
                    reporter::delete(&self.context.client, &self.key, &pod.metadata.uid).await;
                }
                Wanted::Present(_) => {}
                Wanted::Gone => return self.remove_directory(),
                Wanted::AgentEnds => return self.reporter.finish(LAST_STATUS_PATIENCE_AT_END).await,
            }
        }
    }

    /// Waits for the grace period; a later word of the API may shorten it.
    async fn terminate_gracefully(&mut self, wanted: &mut watch::Receiver<Wanted>) {
        self.begin_end();
        let begun = Instant::now();
        let served_for = if self.is_served() {
            SERVED_FOR
        } else {
            Duration::ZERO
        };
        while self.containers.any_running() {
            let grace = Duration::from_secs(self.pod.grace_seconds());
            let left = (begun + grace).saturating_duration_since(Instant::now());
            // Sidecars come after the others, which the clients may have waited for already.
            let served_for = served_for.min(grace / 2).saturating_sub(begun.elapsed());
            self.end_next(left, served_for);
            let happening = super::next_happening(&mut self.sandbox);
            tokio::select! {
                happening = happening => self.happened(happening).await,
                Some(word) = self.words.recv() => self.heed(word),
                changed = wanted.changed() => {
                    let now = wanted.borrow_and_update().clone();
                    match (changed, now) {
                        (Ok(()), Wanted::Present(pod)) => self.pod = pod,
                        _ => break,
                    }
                }
                () = sleep(left + IMMORTAL_PATIENCE) => break,
            }
            self.report();
        }
        self.report();
    }

    /// SIGTERM, `grace`, SIGKILL, for each container in its turn.
    async fn terminate(&mut self, grace: Duration) {
        self.begin_end();
        let deadline = Instant::now() + grace;
        while self.containers.any_running() {
            let left = deadline.saturating_duration_since(Instant::now());
            self.end_next(left, Duration::ZERO);
            let happening = super::next_happening(&mut self.sandbox);
            match tokio::time::timeout(left + IMMORTAL_PATIENCE, happening).await {
                Ok(happening) => self.happened(happening).await,
                Err(_) => break,
            }
            self.report();
        }
        self.report();
    }

    fn begin_end(&mut self) {
        self.containers.end_begins();
        self.is_ending.send_replace(true);
    }

    /// Whether clients may come by a Service, and go on coming until all nodes know that the Pod ends.
    fn is_served(&self) -> bool {
        let is_ready = self.told.iter().any(|c| c.kind == "Ready" && c.status == "True");
        is_ready && self.context.services.select(&self.pod.metadata)
    }

    async fn remove_everything(&mut self) {
        self.release().await;
        self.remove_directory();
    }

    /// Gives back all but what is on disk: the logs of a Pod that has ended are of interest still.
    async fn release(&mut self) {
        self.runs.clear();
        self.refreshing = None;
        self.containers.lost(Timestamp::now());
        self.remove_sandbox().await;
        if let Ok(cgroups) = &self.context.cgroups {
            cgroups.remove_pod(&self.pod.metadata.uid);
        }
        let mut pool = self.context.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.release(&std::mem::take(&mut self.addresses));
        drop(pool);
        if let Some(users) = self.users.take() {
            release_ids(&self.context, users.ids);
        }
    }

    /// Addresses and ids may be another Pod's soon, and the next agent must not find them here.
    fn forget_network_and_ids(&self) {
        if let Err(error) = self.directory.create(&self.record()) {
            tracing::warn!(pod = %self.key, %error, "the record of an ended Pod");
        }
    }

    fn remove_directory(&self) {
        if let Err(error) = self.directory.remove() {
            tracing::error!(pod = %self.key, %error, "removing the Pod's directory");
        }
    }
}

/// Takes away what an earlier agent has left of a Pod that is not wanted any more.
pub async fn remove_leftover(context: &Context, record: &Record, leftover: Leftover) {
    let is_running = leftover.sandbox.is_some();
    tracing::info!(pod = %record.name, uid = %record.uid, is_running, "removing a leftover Pod");
    if let Some((sandbox, _)) = leftover.sandbox
        && let Err(error) = sandbox.kill().await
    {
        tracing::error!(uid = %record.uid, %error, "ending a leftover sandbox");
    }
    {
        let mut pool = context.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.release(&leftover.addresses);
    }
    if let Some(users) = leftover.users {
        release_ids(context, users.ids);
    }
    if let Ok(cgroups) = &context.cgroups {
        cgroups.remove_pod(&record.uid);
    }
    let removed = network::link_name(&record.uid).and_then(|link| network::disconnect(&link));
    if let Err(error) = removed {
        tracing::error!(uid = %record.uid, %error, "taking a leftover network away");
    }
    if let Err(error) = context
        .state
        .pod(&record.uid)
        .and_then(|directory| directory.remove())
    {
        tracing::error!(uid = %record.uid, %error, "removing a leftover directory");
    }
}
