//! Termination of a Pod (kubelet's `SyncTerminatingPod` and `SyncTerminatedPod`).

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{DesiredState, EndReason, PodWorker};
use crate::pods::pod_api;
use crate::pods::status::{DEADLINE_MESSAGE, DEADLINE_REASON};
use crate::settings::ShutdownPolicy;

/// Longest wait until the API server has the last status of a terminated Pod.
const LAST_STATUS_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for the last status at the agent's shutdown, which must not delay the stop of the systemd service.
const LAST_STATUS_TIMEOUT_AT_SHUTDOWN: Duration = Duration::from_secs(2);
/// Delay of SIGTERM for a Pod behind a Service. In this time the EndpointSlice marks the endpoint as terminating, and
/// the proxies of all nodes remove it. Otherwise clients would reach a closed port. It counts towards the grace
/// period and takes at most half of it.
const DRAIN: Duration = Duration::from_secs(2);
/// Grace period of an evicted Pod (upstream's `immediateEvictionGracePeriodSeconds`).
const EVICTION_GRACE: Duration = Duration::from_secs(1);
/// Longest wait until killed processes are reaped, before their sandbox is killed.
const REAP_TIMEOUT: Duration = Duration::from_secs(4);

impl PodWorker {
    /// Ends the Pod and removes everything of it, except where the agent's successor adopts it.
    pub(super) async fn end(mut self, reason: EndReason, desired: &mut watch::Receiver<DesiredState>) {
        let keeps_running = reason == EndReason::AgentShutdown
            && matches!(self.context.agent.settings.shutdown, ShutdownPolicy::KeepPods);
        if keeps_running {
            tracing::info!(pod = %self.context.key, "Pod left running at the exit of the agent");
        } else {
            tracing::info!(pod = %self.context.key, ?reason, "Pod termination started");
        }
        match reason {
            EndReason::AgentShutdown => return self.end_at_shutdown().await,
            EndReason::Completion => return self.end_completed(desired).await,
            EndReason::Eviction => {
                if let Some(eviction) = &self.status.eviction {
                    self.context.events.warning("Evicted", eviction.message.clone());
                }
                self.terminate(EVICTION_GRACE).await;
                // Processes that the kernel has not ended yet end with the sandbox.
                self.containers.mark_all_lost(Timestamp::now());
                return self.end_completed(desired).await;
            }
            EndReason::Deadline => {
                let message = DEADLINE_MESSAGE.to_owned();
                self.context.events.normal(DEADLINE_REASON, message);
                self.terminate(self.context.pod.grace()).await;
                self.containers.mark_all_lost(Timestamp::now());
                return self.end_completed(desired).await;
            }
            EndReason::Removal => self.terminate(Duration::ZERO).await,
            EndReason::Deletion => self.terminate_gracefully(desired).await,
        }
        self.release().await;
        self.remove_directory().await;
        // The agent deletes mirror Pods, because static Pods must not wait for the API.
        if reason == EndReason::Deletion && !self.context.is_static {
            self.status.writer.finish(LAST_STATUS_TIMEOUT).await;
            let (key, uid) = (&self.context.key, &self.context.pod.metadata.uid);
            pod_api::delete_with_retries(&self.context.agent.client, key, uid).await;
        }
    }

    async fn end_at_shutdown(mut self) {
        match self.context.agent.settings.shutdown {
            // The sandbox keeps running; the next agent finds its record.
            ShutdownPolicy::KeepPods => {
                self.status.writer.finish(LAST_STATUS_TIMEOUT_AT_SHUTDOWN).await;
            }
            ShutdownPolicy::TerminatePods { grace } => {
                let own = self.context.pod.grace();
                self.terminate(grace.min(own)).await;
                self.release().await;
                self.remove_directory().await;
            }
        }
    }

    /// Keeps the status of a completed Pod until the Pod is deleted.
    async fn end_completed(mut self, desired: &mut watch::Receiver<DesiredState>) {
        if !self.context.pod.is_finished() {
            self.report_status();
        }
        self.release().await;
        self.write_empty_record();
        loop {
            if desired.changed().await.is_err() {
                return;
            }
            let latest = desired.borrow_and_update().clone();
            match latest {
                DesiredState::Present(pod) if pod.is_terminating() && self.context.is_static => {
                    return self.remove_directory().await;
                }
                DesiredState::Present(pod) if pod.is_terminating() => {
                    let (client, key) = (&self.context.agent.client, &self.context.key);
                    pod_api::delete_with_retries(client, key, &pod.metadata.uid).await;
                }
                DesiredState::Present(_) => {}
                DesiredState::Removed => return self.remove_directory().await,
                DesiredState::AgentShutdown => {
                    let writer = self.status.writer;
                    return writer.finish(LAST_STATUS_TIMEOUT_AT_SHUTDOWN).await;
                }
            }
        }
    }

    /// Terminates the containers within the grace period, which a later update of the Pod may shorten.
    async fn terminate_gracefully(&mut self, desired: &mut watch::Receiver<DesiredState>) {
        self.begin_termination();
        let begun = Instant::now();
        let drain = if self.has_clients() { DRAIN } else { Duration::ZERO };
        while self.containers.is_any_running() {
            let grace = self.context.pod.grace();
            let left = (begun + grace).saturating_duration_since(Instant::now());
            // Sidecars terminate after the main containers, which may have drained already.
            let drain = drain.min(grace / 2).saturating_sub(begun.elapsed());
            self.stop_next(left, drain);
            tokio::select! {
                event = self.sandbox.next_event() => self.handle_sandbox_event(event).await,
                message = self.runs.next_message() => self.handle_run_message(message),
                changed = desired.changed() => {
                    let latest = desired.borrow_and_update().clone();
                    match (changed, latest) {
                        (Ok(()), DesiredState::Present(pod)) => self.context.pod = pod,
                        _ => break,
                    }
                }
                () = sleep(left + REAP_TIMEOUT) => break,
            }
            self.report_status();
        }
        self.report_status();
    }

    /// Terminates the containers in their order, all within the grace period.
    async fn terminate(&mut self, grace: Duration) {
        self.begin_termination();
        let deadline = Instant::now() + grace;
        while self.containers.is_any_running() {
            let left = deadline.saturating_duration_since(Instant::now());
            self.stop_next(left, Duration::ZERO);
            let event = self.sandbox.next_event();
            match tokio::time::timeout(left + REAP_TIMEOUT, event).await {
                Ok(event) => self.handle_sandbox_event(event).await,
                Err(_) => break,
            }
            self.report_status();
        }
        self.report_status();
    }

    fn begin_termination(&mut self) {
        self.containers.begin_termination();
        self.runs.begin_termination();
        self.images.clear();
    }

    /// Returns true if a Service sends clients to the Pod.
    fn has_clients(&self) -> bool {
        self.status.is_ready() && self.context.agent.services.selects(&self.context.pod.metadata)
    }

    /// Releases everything except the directory, because the logs of a completed Pod stay readable.
    async fn release(&mut self) {
        self.runs.clear();
        self.images.clear();
        self.volumes.stop_refresh();
        self.containers.mark_all_lost(Timestamp::now());
        self.sandbox.remove(&self.context).await;
        let agent = &self.context.agent;
        agent.remove_cgroups(&self.context.pod.metadata.uid);
        agent.release_images(&self.context.pod.metadata.uid).await;
        self.sandbox.host_ports.clear();
        let addresses = std::mem::take(&mut self.sandbox.addresses);
        let ids = self.sandbox.users.take().map(|users| users.ids);
        agent.release(&addresses, ids);
    }

    /// Writes the record without addresses, host ports and host IDs, because another Pod may get them.
    fn write_empty_record(&self) {
        let record = self.sandbox.record(&self.context);
        if let Err(error) = self.context.directory.create(&record) {
            tracing::warn!(pod = %self.context.key, %error, "record of a completed Pod not written");
        }
    }

    async fn remove_directory(&self) {
        if let Err(error) = self.context.directory.remove_on_thread().await {
            tracing::error!(pod = %self.context.key, %error, "directory of a Pod not removed");
        }
    }
}
