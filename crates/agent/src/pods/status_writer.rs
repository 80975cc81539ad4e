//! Writer of a Pod's status (kubelet's `status_manager.go`).
//!
//! A task writes the latest status and retries until the API server has it. An unreachable API server therefore
//! delays no container. Statuses of large Pods wait for their turn ([`StatusPace`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::object::ObjectKey;
use client::Client;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::object::Pod;
use crate::pods::pod_api::{self, BACK_OFF_MAX, BACK_OFF_MIN, patch_status};
use crate::pods::status;
use crate::pods::status_pace::StatusPace;

/// Delay before an overwritten status is written again. Meanwhile controllers act upon the status of the other
/// client, for example on a Pod that a client marks as failed. A kubelet repairs the status every ten seconds.
const REPAIR_DELAY: Duration = Duration::from_millis(500);

/// Writer of one Pod's status.
pub(crate) struct StatusWriter {
    latest: watch::Sender<LatestStatus>,
    written: Arc<Mutex<WrittenStatus>>,
    task: JoinHandle<()>,
}

/// Status that the API should have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LatestStatus {
    /// Fields that the agent writes; `None` before the first status.
    pub status: Option<Value>,
    /// Number of times that another client overwrote the status. An increment makes the task write it again.
    overwrites: u64,
}

/// Status that the API server has accepted.
#[derive(Debug, Default)]
struct WrittenStatus {
    latest: LatestStatus,
    /// resourceVersion of the Pod after the write.
    version: u64,
}

impl StatusWriter {
    /// Starts the task, without a status.
    pub(crate) fn start(client: Client, key: &ObjectKey, uid: &str, pace: Arc<StatusPace>) -> Self {
        let (latest, receiver) = watch::channel(LatestStatus::default());
        let written = Arc::<Mutex<WrittenStatus>>::default();
        let (path, uid) = (pod_api::path(key), uid.to_owned());
        let turns = Turns {
            pace,
            namespace: key.namespace.to_string(),
            pod_bytes: 0,
            is_reserved: false,
        };
        let writing = write_latest(client, path, uid, receiver, Arc::clone(&written), turns);
        let task = tokio::spawn(writing);
        Self {
            latest,
            written,
            task,
        }
    }

    /// Returns a writer whose statuses go to another task.
    pub(crate) fn with_task(latest: watch::Sender<LatestStatus>, task: JoinHandle<()>) -> Self {
        Self {
            latest,
            written: Arc::default(),
            task,
        }
    }

    /// Sets the status. The task writes it only if it differs from the last one.
    pub(crate) fn set(&self, status: Value) {
        self.latest.send_if_modified(|latest| {
            let has_changed = latest.status.as_ref() != Some(&status);
            if has_changed {
                latest.status = Some(status);
            }
            has_changed
        });
    }

    /// Writes the last status again if another client has overwritten it in `pod`, and reports if it has.
    ///
    /// A state of the Pod from before the last write, or during a write, is not an overwrite.
    pub(crate) fn repair(&self, pod: &Pod) -> bool {
        let version: u64 = pod.metadata.resource_version.parse().unwrap_or(0);
        let written = lock(&self.written);
        let is_overwritten = |status: &Value| !status::contains(&pod.status.raw, status);
        let is_current = written.latest == *self.latest.borrow() && version > written.version;
        if !is_current || !written.latest.status.as_ref().is_some_and(is_overwritten) {
            return false;
        }
        drop(written);
        self.latest.send_modify(|latest| latest.overwrites += 1);
        true
    }

    /// Waits until the last status is written, for `timeout` at most.
    pub(crate) async fn finish(self, timeout: Duration) {
        drop(self.latest);
        let abort = self.task.abort_handle();
        if tokio::time::timeout(timeout, self.task).await.is_err() {
            tracing::warn!("last status of a Pod not written");
            abort.abort();
        }
    }
}

/// Turns of one Pod to write its status.
struct Turns {
    pace: Arc<StatusPace>,
    namespace: String,
    /// Size of the Pod after the last write; 0 before the first one.
    pod_bytes: usize,
    /// True from the reservation of a turn until a write succeeds. Failed writes change no object, and their retries need
    /// no further turn.
    is_reserved: bool,
}

impl Turns {
    /// Waits for the next turn, unless the last one is unused. Returns true if it has waited. The last status of a Pod does not
    /// wait, because the deletion of the Pod follows.
    async fn wait(&mut self, receiver: &mut watch::Receiver<LatestStatus>) -> bool {
        if self.is_reserved {
            return false;
        }
        self.is_reserved = true;
        let now = Instant::now();
        let turn = self.pace.reserve(&self.namespace, self.pod_bytes, now);
        if turn <= now {
            return false;
        }
        let ended = async { while receiver.changed().await.is_ok() {} };
        tokio::select! {
            () = tokio::time::sleep_until(turn) => {}
            () = ended => {}
        }
        true
    }
}

/// Writes each status with retries. Ends with the writer, or when the Pod no longer exists.
async fn write_latest(
    client: Client,
    path: String,
    uid: String,
    mut receiver: watch::Receiver<LatestStatus>,
    written: Arc<Mutex<WrittenStatus>>,
    mut turns: Turns,
) {
    let mut delay = BACK_OFF_MIN;
    loop {
        let mut latest = receiver.borrow_and_update().clone();
        let is_repair = {
            let written = lock(&written);
            written.latest.status == latest.status && written.latest.overwrites != latest.overwrites
        };
        // A new status, or the end of the writer, ends the delay.
        if is_repair && let Ok(Ok(())) = tokio::time::timeout(REPAIR_DELAY, receiver.changed()).await {
            latest = receiver.borrow_and_update().clone();
        }
        let has_changed = lock(&written).latest != latest;
        if has_changed && turns.wait(&mut receiver).await {
            latest = receiver.borrow_and_update().clone();
        }
        let is_new = lock(&written).latest != latest;
        if let (true, Some(status)) = (is_new, &latest.status) {
            match patch_status(&client, &path, &uid, status).await {
                Ok(pod) => {
                    turns.pod_bytes = pod.bytes;
                    turns.is_reserved = false;
                    let version = pod.version;
                    *lock(&written) = WrittenStatus { latest, version };
                    delay = BACK_OFF_MIN;
                }
                // The Pod was deleted, or another Pod has its name.
                Err(error) if error.is_not_found() || error.is_conflict() => return,
                Err(error) => {
                    tracing::warn!(%path, %error, "status of a Pod not written");
                    tokio::time::sleep(delay).await;
                    delay = (delay * 2).min(BACK_OFF_MAX);
                    continue;
                }
            }
        }
        if receiver.changed().await.is_err() {
            return;
        }
    }
}

fn lock(written: &Mutex<WrittenStatus>) -> MutexGuard<'_, WrittenStatus> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
