//! The end of one container, as a task beside the worker: `preStop`, SIGTERM, the grace period, SIGKILL.

use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::asker::Asker;
use crate::events::PodEvents;

/// What is left between SIGTERM and SIGKILL even if `preStop` took all of the grace period (upstream's
/// `minimumGracePeriodInSeconds`).
const GRACE_MIN: Duration = Duration::from_secs(2);

/// A container that is being ended.
pub(super) struct Ending {
    task: AbortHandle,
    deadline: watch::Sender<Instant>,
}

/// How a container is to be ended.
pub(super) struct Plan {
    /// The way to the container.
    pub asker: Asker,
    /// When it is killed; `preStop` counts too.
    pub deadline: Instant,
    /// SIGTERM does not come before that: so long clients may still come.
    pub served_for: Duration,
    /// Tells what people should see.
    pub events: PodEvents,
}

impl Ending {
    /// Begins.
    pub fn begin(plan: Plan) -> Self {
        let (deadline, heard) = watch::channel(plan.deadline);
        let task = tokio::spawn(end(plan, heard)).abort_handle();
        Self { task, deadline }
    }

    /// A later word that makes the grace period shorter.
    pub fn hasten(&self, deadline: Instant) {
        self.deadline.send_if_modified(|present| {
            let is_sooner = deadline < *present;
            *present = deadline.min(*present);
            is_sooner
        });
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn end(plan: Plan, mut deadline: watch::Receiver<Instant>) {
    let until = *deadline.borrow_and_update();
    if until > Instant::now() {
        let served = sleep(plan.served_for.min(until.duration_since(Instant::now())));
        tokio::select! {
            ((), ()) = async { tokio::join!(pre_stop(&plan, until), served) } => {}
            changed = deadline.changed() => if changed.is_err() { return },
        }
        signal(&plan, Signal::TERM).await;
        let least = Instant::now() + GRACE_MIN;
        loop {
            let until = (*deadline.borrow_and_update()).max(least);
            tokio::select! {
                () = sleep_until(until) => break,
                changed = deadline.changed() => if changed.is_err() { return },
            }
        }
    }
    signal(&plan, Signal::KILL).await;
}

async fn pre_stop(plan: &Plan, until: Instant) {
    let lifecycle = plan.asker.container.lifecycle.as_ref();
    let Some(handler) = lifecycle.and_then(|l| l.pre_stop.as_ref()) else {
        return;
    };
    let limit = until.saturating_duration_since(Instant::now());
    let handled = timeout_at(until, plan.asker.handle(handler, limit)).await;
    let why = match handled {
        Ok(Ok(())) => return,
        Ok(Err(why)) => why,
        Err(_) => format!("not done within the grace period ({limit:?})"),
    };
    plan.events
        .warning("FailedPreStopHook", format!("PreStopHook failed: {why}"));
}

async fn signal(plan: &Plan, signal: Signal) {
    let name = &plan.asker.container.name;
    if let Err(error) = plan.asker.executor.signal(name, signal).await {
        tracing::warn!(container = name, ?signal, %error, "signalling a container");
    }
}
