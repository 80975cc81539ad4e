//! Check of the disk that a Pod uses, every ten seconds (kubelet's eviction manager).

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use crate::object::Pod;
use crate::pods::state_directory::PodDirectory;
use crate::resources::ephemeral_storage::{StorageCheck, StorageLimits};

/// Interval between checks (upstream's `monitoringInterval`).
const INTERVAL: Duration = Duration::from_secs(10);
/// Checks at once on the node: one reads directories as fast as the disk can.
static CHECKS: Semaphore = Semaphore::const_new(1);

/// Eviction of a Pod.
#[derive(Clone, Debug)]
pub(super) struct Eviction {
    /// Message of status and Event.
    pub message: String,
    /// Time of the decision.
    pub at: Timestamp,
}

/// Task that checks the limits of a Pod until it is dropped. A Pod without limits has none.
pub(super) struct StorageMonitor {
    exceeded: Option<oneshot::Receiver<String>>,
    task: Option<AbortHandle>,
}

impl StorageMonitor {
    /// Starts the task if the Pod has limits.
    pub(super) fn start(pod: &Pod, directory: PodDirectory) -> Self {
        let Some(limits) = StorageLimits::of(pod) else {
            return Self::none();
        };
        let (sender, exceeded) = oneshot::channel();
        let task = tokio::spawn(async move {
            if let Some(message) = check_until_exceeded(limits, directory).await {
                // The worker may have ended.
                sender.send(message).ok();
            }
        });
        Self {
            exceeded: Some(exceeded),
            task: Some(task.abort_handle()),
        }
    }

    /// Returns a monitor without a task.
    pub(super) fn none() -> Self {
        Self {
            exceeded: None,
            task: None,
        }
    }

    /// Waits until the Pod exceeds a limit.
    pub(super) async fn eviction(&mut self) -> Eviction {
        if let Some(exceeded) = &mut self.exceeded {
            let result = exceeded.await;
            self.exceeded = None;
            if let Ok(message) = result {
                let at = Timestamp::now();
                return Eviction { message, at };
            }
        }
        std::future::pending().await
    }
}

impl Drop for StorageMonitor {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Returns the message of the first check that finds an exceeded limit; `None` if the agent shuts down.
async fn check_until_exceeded(limits: StorageLimits, directory: PodDirectory) -> Option<String> {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is immediate.
    ticks.tick().await;
    let mut check = StorageCheck::new(limits, directory);
    loop {
        ticks.tick().await;
        let _permit = CHECKS.acquire().await.ok()?;
        let round = spawn_blocking(move || (check.next_round(), check));
        let (exceeded, next) = round.await.ok()?;
        if exceeded.is_some() {
            return exceeded;
        }
        check = next;
    }
}
