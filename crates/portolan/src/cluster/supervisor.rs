//! Restarts of failed components, with growing delays.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::status_file::StatusFile;
use crate::error::CommandError;

#[cfg(test)]
mod tests;

/// Delay of the first restart; each further one doubles it up to the maximum.
const DELAY_MIN: Duration = Duration::from_millis(500);
const DELAY_MAX: Duration = Duration::from_secs(60);
/// Run time after which a component counts as healthy, and the delays start again at the minimum.
const HEALTHY_AFTER: Duration = Duration::from_secs(120);

/// Restart delays of one component.
#[derive(Debug, Default)]
struct RestartDelays {
    last: Option<Duration>,
}

impl RestartDelays {
    /// Returns the delay after a run of some duration.
    fn after(&mut self, run: Duration) -> Duration {
        let last = self.last.filter(|_| run < HEALTHY_AFTER);
        let delay = last.map_or(DELAY_MIN, |last| (last * 2).min(DELAY_MAX));
        self.last = Some(delay);
        delay
    }
}

/// Supervised components of this process.
pub(crate) struct Supervisor {
    status: Arc<StatusFile>,
    shutdown: watch::Receiver<bool>,
    tasks: JoinSet<()>,
}

impl Supervisor {
    /// Returns a supervisor without components. It restarts none after the channel contains `true`.
    pub(crate) fn new(status: Arc<StatusFile>, shutdown: watch::Receiver<bool>) -> Self {
        Self {
            status,
            shutdown,
            tasks: JoinSet::new(),
        }
    }

    /// Returns the receiver of the shutdown request.
    pub(crate) fn shutdown(&self) -> watch::Receiver<bool> {
        self.shutdown.clone()
    }

    /// Starts a component. `start` returns one run of it, which ends at shutdown.
    pub(crate) fn spawn<F>(&mut self, name: &'static str, start: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = Result<(), CommandError>> + Send + 'static,
    {
        let (status, shutdown) = (Arc::clone(&self.status), self.shutdown.clone());
        self.tasks.spawn(supervise(status, name, shutdown, start));
    }

    /// Starts a task that is not restarted and not reported. It ends at shutdown.
    pub(crate) fn spawn_unsupervised(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let shutdown = crate::shutdown::wait_for_request(self.shutdown.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = task => {}
                () = shutdown => {}
            }
        });
    }

    /// Waits until all components have ended.
    pub(crate) async fn join(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Runs a component until shutdown, and restarts it after each failure.
async fn supervise<F>(
    status: Arc<StatusFile>,
    name: &'static str,
    mut shutdown: watch::Receiver<bool>,
    start: impl Fn() -> F,
) where
    F: Future<Output = Result<(), CommandError>> + Send + 'static,
{
    let mut delays = RestartDelays::default();
    loop {
        status.set_running(name);
        let started = Instant::now();
        // The run has a task of its own, which a panic ends.
        let mut run = JoinSet::new();
        run.spawn(start());
        let outcome = run.join_next().await;
        if *shutdown.borrow() {
            if let Some(Ok(Err(error))) = outcome {
                tracing::error!(component = name, %error, "component failed at shutdown");
            }
            return;
        }
        let reason = match outcome {
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(error)) => error.to_string(),
            Some(Ok(Ok(()))) | None => "exited without an error".to_owned(),
        };
        let delay = delays.after(started.elapsed());
        tracing::error!(component = name, reason, ?delay, "component failed; restarting");
        status.set_failed(name, &reason);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = shutdown.wait_for(|is_requested| *is_requested) => return,
        }
    }
}
