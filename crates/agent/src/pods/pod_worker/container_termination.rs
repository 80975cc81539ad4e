//! Termination of one container (kubelet's `killContainer`): `preStop` handler, stop signal, grace period, SIGKILL.

use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::handler_runner::HandlerRunner;
use crate::pods::events::PodEventRecorder;

/// Shortest time between SIGTERM and SIGKILL, even if `preStop` took the whole grace period (upstream's
/// `minimumGracePeriodInSeconds`).
const GRACE_MIN: Duration = Duration::from_secs(2);

/// Task that terminates a container. Dropping it stops the task.
pub(super) struct Termination {
    task: AbortHandle,
    deadline: watch::Sender<Instant>,
}

/// Parameters of a termination.
pub(super) struct TerminationPlan {
    pub runner: HandlerRunner,
    /// Signal that requests the exit of the container.
    pub signal: Signal,
    /// Time of SIGKILL. The `preStop` handler counts towards it.
    pub deadline: Instant,
    /// Delay of SIGTERM, during which clients may still connect.
    pub drain: Duration,
    pub events: PodEventRecorder,
}

impl Termination {
    /// Starts the task.
    pub(super) fn start(plan: TerminationPlan) -> Self {
        let (deadline, receiver) = watch::channel(plan.deadline);
        let task = tokio::spawn(terminate(plan, receiver)).abort_handle();
        Self { task, deadline }
    }

    /// Moves the deadline forward. A later deadline has no effect.
    pub(super) fn advance_deadline(&self, deadline: Instant) {
        self.deadline.send_if_modified(|present| {
            let is_sooner = deadline < *present;
            *present = deadline.min(*present);
            is_sooner
        });
    }
}

impl Drop for Termination {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn terminate(plan: TerminationPlan, mut deadline: watch::Receiver<Instant>) {
    let until = *deadline.borrow_and_update();
    if until > Instant::now() {
        let drained = sleep(plan.drain.min(until.duration_since(Instant::now())));
        tokio::select! {
            ((), ()) = async { tokio::join!(pre_stop(&plan, until), drained) } => {}
            changed = deadline.changed() => if changed.is_err() { return },
        }
        signal(&plan, plan.signal).await;
        let earliest = Instant::now() + GRACE_MIN;
        loop {
            let until = (*deadline.borrow_and_update()).max(earliest);
            tokio::select! {
                () = sleep_until(until) => break,
                changed = deadline.changed() => if changed.is_err() { return },
            }
        }
    }
    signal(&plan, Signal::KILL).await;
}

async fn pre_stop(plan: &TerminationPlan, until: Instant) {
    let lifecycle = plan.runner.container.lifecycle.as_ref();
    let Some(handler) = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref()) else {
        return;
    };
    let timeout = until.saturating_duration_since(Instant::now());
    let cause = match timeout_at(until, plan.runner.run_handler(handler, timeout)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("not done within the grace period ({timeout:?})"),
    };
    plan.events
        .warning("FailedPreStopHook", format!("PreStopHook failed: {cause}"));
}

async fn signal(plan: &TerminationPlan, signal: Signal) {
    let name = &plan.runner.container.name;
    if let Err(error) = plan.runner.executor.signal(name, signal).await {
        tracing::warn!(container = name, ?signal, %error, "container not signalled");
    }
}
