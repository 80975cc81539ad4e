//! Access of other parts of the process to the plan of a running proxy.

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plan::Plan;
use tokio::sync::mpsc::WeakSender;

use crate::worker::Update;

/// Reader of the plan. Clones read the plan of the same proxy.
#[derive(Clone, Default)]
pub struct PlanReader(Arc<Mutex<Option<WeakSender<Update>>>>);

/// Reasons why the plan is not read. A retry helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanReadError {
    /// The proxy does not run, or its queue is full.
    #[error("the proxy of this node does not run, or its queue is full; retry")]
    NotRunning,
    /// The proxy did not respond in time.
    #[error("the proxy of this node did not respond in time; retry")]
    Timeout,
}

/// Read of the plan by its owner.
pub(crate) struct PlanQuery(Box<dyn FnOnce(&Plan) + Send>);

impl PlanQuery {
    /// Reads the plan.
    pub(crate) fn run(self, plan: &Plan) {
        (self.0)(plan);
    }
}

impl fmt::Debug for PlanQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlanQuery")
    }
}

impl fmt::Debug for PlanReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlanReader")
    }
}

impl PlanReader {
    /// Returns what `read` returns for the current plan. It delays the proxy, so it must not wait. Blocks the calling
    /// thread.
    ///
    /// # Errors
    ///
    /// [`PlanReadError`] if the proxy does not run, or does not respond in time.
    pub fn read<T: Send + 'static>(
        &self,
        timeout: Duration,
        read: impl FnOnce(&Plan) -> T + Send + 'static,
    ) -> Result<T, PlanReadError> {
        let worker = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let worker = worker.and_then(|worker| worker.upgrade());
        let worker = worker.ok_or(PlanReadError::NotRunning)?;
        let (sender, response) = sync_channel(1);
        let query = PlanQuery(Box::new(move |plan| {
            // The receiver is dropped after its timeout.
            sender.try_send(read(plan)).ok();
        }));
        worker
            .try_send(Update::Plan(query))
            .map_err(|_| PlanReadError::NotRunning)?;
        response.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout => PlanReadError::Timeout,
            RecvTimeoutError::Disconnected => PlanReadError::NotRunning,
        })
    }

    /// Reads the plan of the worker with this queue from now on.
    pub(crate) fn connect(&self, worker: WeakSender<Update>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(worker);
    }
}
