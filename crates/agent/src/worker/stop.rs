//! The end of a Pod.

use std::sync::PoisonError;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use tokio::sync::watch;

use super::{Context, End, Leftover, Wanted, Worker, ends_with_agent};
use crate::containers::State;
use crate::network;
use crate::reporter;
use crate::settings::AtEnd;
use crate::state_directory::Record;

/// How long the API may take to hear the last status of an ended Pod.
const LAST_STATUS_PATIENCE: Duration = Duration::from_secs(30);
/// The same when the agent ends: nobody waits longer for a service to stop.
const LAST_STATUS_PATIENCE_AT_END: Duration = Duration::from_secs(2);
/// How long killed processes may take to be reaped.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

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
        if end == End::Deletion {
            self.reporter.finish(LAST_STATUS_PATIENCE).await;
            reporter::delete(client, key, uid).await;
        }
    }

    /// All containers have ended: keeps the status until somebody deletes the Pod.
    async fn complete(mut self, wanted: &mut watch::Receiver<Wanted>) {
        if !self.pod.is_finished() {
            self.report();
        }
        self.remove_everything().await;
        loop {
            if wanted.changed().await.is_err() {
                return;
            }
            let now = wanted.borrow_and_update().clone();
            match now {
                Wanted::Present(pod) if pod.is_terminating() => {
                    reporter::delete(&self.context.client, &self.key, &pod.metadata.uid).await;
                }
                Wanted::Present(_) => {}
                Wanted::Gone => return,
                Wanted::AgentEnds => return self.reporter.finish(LAST_STATUS_PATIENCE_AT_END).await,
            }
        }
    }

    /// Waits for the grace period; a later word of the API may shorten it.
    async fn terminate_gracefully(&mut self, wanted: &mut watch::Receiver<Wanted>) {
        self.signal_all(Signal::TERM).await;
        let begun = tokio::time::Instant::now();
        while self.containers.any_running() {
            let grace = Duration::from_secs(self.pod.grace_seconds());
            let happening = super::next_happening(&mut self.sandbox);
            tokio::select! {
                happening = happening => self.happened(happening).await,
                Some(result) = self.probe_results.recv() => self.count(&result),
                changed = wanted.changed() => {
                    let now = wanted.borrow_and_update().clone();
                    match (changed, now) {
                        (Ok(()), Wanted::Present(pod)) => self.pod = pod,
                        _ => break,
                    }
                }
                () = tokio::time::sleep_until(begun + grace) => break,
            }
            self.report();
        }
        self.terminate(Duration::ZERO).await;
    }

    /// SIGTERM, `grace`, SIGKILL.
    async fn terminate(&mut self, grace: Duration) {
        if !grace.is_zero() {
            self.signal_all(Signal::TERM).await;
            self.wait_for_ends(grace).await;
        }
        if self.containers.any_running() {
            self.signal_all(Signal::KILL).await;
            self.wait_for_ends(KILL_PATIENCE).await;
        }
        self.report();
    }

    async fn signal_all(&mut self, signal: Signal) {
        let Some(sandbox) = &self.sandbox else { return };
        let running = self
            .containers
            .slots()
            .filter(|slot| matches!(slot.state, State::Running { .. }));
        for slot in running {
            if let Err(error) = sandbox.signal(&slot.name, signal).await {
                tracing::warn!(pod = %self.key, container = slot.name, ?signal, %error, "signalling a container");
            }
        }
    }

    async fn remove_everything(&mut self) {
        for (_, probe) in std::mem::take(&mut self.probes) {
            probe.abort();
        }
        self.containers.lost(Timestamp::now());
        self.remove_sandbox().await;
        if let Err(error) = self.directory.remove() {
            tracing::error!(pod = %self.key, %error, "removing the Pod's directory");
        }
        let mut pool = self.context.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.release(&self.addresses);
    }
}

/// Takes away what an earlier agent has left of a Pod that is not wanted any more; `alive` if its sandbox runs.
pub async fn remove_leftover(context: &Context, record: &Record, alive: Option<Leftover>) {
    tracing::info!(pod = %record.name, uid = %record.uid, running = alive.is_some(), "removing a leftover Pod");
    if let Some(leftover) = alive {
        if let Err(error) = leftover.sandbox.kill().await {
            tracing::error!(uid = %record.uid, %error, "ending a leftover sandbox");
        }
        let mut pool = context.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.release(&leftover.addresses);
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
