//! Restarts of controllers that panicked.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

#[cfg(test)]
mod tests;

/// Delay between a panic and the restart. A restart reads all objects of the controller again.
const RESTART_DELAY: Duration = Duration::from_secs(10);

/// Request for the shutdown of a controller.
pub(super) type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a controller until the sender of `running` is dropped, and restarts it with empty caches after a panic. `start`
/// returns one run, which ends with its argument.
pub(super) async fn supervise<F>(
    name: &'static str,
    running: watch::Receiver<()>,
    start: impl Fn(Shutdown) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        // The run has a task of its own, which a panic ends.
        let mut run = JoinSet::new();
        run.spawn(start(wait_until_dropped(running.clone())));
        let Some(Err(error)) = run.join_next().await else {
            return;
        };
        tracing::error!(controller = name, %error, delay = ?RESTART_DELAY, "controller panicked; restarting");
        tokio::select! {
            biased;
            () = wait_until_dropped(running.clone()) => return,
            () = tokio::time::sleep(RESTART_DELAY) => {}
        }
    }
}

/// Returns a future that resolves when the sender is dropped.
fn wait_until_dropped(mut running: watch::Receiver<()>) -> Shutdown {
    Box::pin(async move { while running.changed().await.is_ok() {} })
}
