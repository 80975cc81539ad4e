//! Pod workers (kubelet's `pod_workers.go`): one task for each Pod, from its start to its removal.
//!
//! - `start`, `user_namespace`, `volumes`, `sandbox`: start of the Pod
//! - `image`, `image_program`, `start_container`: start of a container
//! - `container_runs`, `handler_runner`, `probe_worker`, `storage_monitor`: tasks while containers run
//! - `termination_message`, `status`: results of containers, and the status of the Pod
//! - `container_termination`, `pod_termination`: end of a container, and of the Pod

mod container_runs;
mod container_termination;
mod handler_runner;
mod image;
mod image_program;
mod pod_termination;
mod probe_worker;
mod sandbox;
mod start;
mod start_container;
mod status;
mod storage_monitor;
mod termination_message;
mod user_namespace;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use api::object::{ObjectKey, Resource};
use jiff::{SignedDuration, Timestamp};
use netlink::route::RouteError;
use tokio::sync::watch;

use crate::containers::environment::PodFacts;
use crate::containers::{BACK_OFF_MAX, Checkpoint, Containers, Phase, TrackedContainer};
use crate::object::{Container, ContainerStatus, Pod};
use crate::pods::context::Context;
use crate::pods::events::PodEventRecorder;
use crate::pods::leftovers::Leftover;
use crate::pods::state_directory::{PodDirectory, StateError};
use crate::runtime::SandboxEvent;
use crate::sandbox::protocol::ContainerState;
use crate::static_pods::mirror_pod::MirrorPod;

use container_runs::{ContainerRuns, terminated_state};
use image::ImageSearches;
use sandbox::{AdoptedState, PodSandbox};
use status::PodStatus;
use storage_monitor::StorageMonitor;
use volumes::PodVolumes;

#[cfg(test)]
mod tests;

/// State that a Pod should have.
#[derive(Clone, Debug)]
pub(crate) enum DesiredState {
    /// As its object in the API or its manifest describes.
    Present(Arc<Pod>),
    /// Removed at once, because the API has no such Pod any more.
    Removed,
    /// As the agent's settings say for the agent's shutdown.
    AgentShutdown,
}

/// The Pod of a worker and the state of the agent, as all parts of the worker use them.
struct PodContext {
    agent: Arc<Context>,
    pod: Arc<Pod>,
    key: ObjectKey,
    /// True if the Pod comes from a manifest and not from the API.
    is_static: bool,
    directory: PodDirectory,
    events: PodEventRecorder,
}

/// Worker of one Pod.
struct PodWorker {
    context: PodContext,
    containers: Containers,
    sandbox: PodSandbox,
    volumes: PodVolumes,
    runs: ContainerRuns,
    images: ImageSearches,
    status: PodStatus,
    storage: StorageMonitor,
    /// Last checkpoint of the containers on disk.
    written_checkpoint: Checkpoint,
}

/// Reason why a Pod cannot have a worker.
#[derive(Debug, thiserror::Error)]
enum PodWorkerError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error("cannot name the Pod's link: {0}")]
    Link(#[from] RouteError),
}

/// Runs a Pod until its end. `desired` has the changes after `pod`. A Pod with a mirror Pod is static.
pub(crate) async fn run(
    context: Arc<Context>,
    pod: Arc<Pod>,
    mut desired: watch::Receiver<DesiredState>,
    leftover: Option<Leftover>,
    mirror: Option<MirrorPod>,
) {
    let key = pod.metadata().key();
    let mut worker = match PodWorker::new(context, pod, mirror) {
        Ok(worker) => worker,
        Err(error) => {
            tracing::error!(pod = %key, %error, "Pod not started");
            return;
        }
    };
    if let Some(leftover) = leftover {
        worker.adopt(leftover).await;
    }
    let reason = worker.sync_until_end(&mut desired).await;
    worker.end(reason, &mut desired).await;
}

/// Reason why a worker ends its Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndReason {
    /// The Pod has a deletion timestamp: its containers have their grace period, then it is deleted from the API.
    Deletion,
    /// The API has no such Pod any more: its containers are killed at once.
    Removal,
    /// All containers have terminated and do not restart.
    Completion,
    /// The Pod exceeds a limit of its disk usage.
    Eviction,
    /// The Pod was active for longer than its `activeDeadlineSeconds`.
    Deadline,
    /// The agent shuts down.
    AgentShutdown,
}

impl PodContext {
    /// Returns the API object of a container.
    fn container(&self, name: &str) -> Option<&Container> {
        let mut all = self.pod.spec.all_containers();
        all.find(|container| container.name == name)
    }

    /// Returns the Pod name in messages: `name_namespace(uid)`.
    fn full_name(&self) -> String {
        full_name(&self.pod)
    }
}

impl PodWorker {
    fn new(agent: Arc<Context>, pod: Arc<Pod>, mirror: Option<MirrorPod>) -> Result<Self, PodWorkerError> {
        let now = Timestamp::now();
        let context = PodContext {
            key: pod.metadata().key(),
            is_static: mirror.is_some(),
            directory: agent.state.pod(&pod.metadata.uid)?,
            events: PodEventRecorder::new(agent.events.clone(), &pod),
            agent,
            pod,
        };
        let mut worker = Self {
            containers: track_containers(&context.pod, now),
            sandbox: PodSandbox::new(&context.pod.metadata.uid)?,
            volumes: PodVolumes::default(),
            runs: ContainerRuns::new(),
            images: ImageSearches::default(),
            status: PodStatus::new(&context, mirror, now),
            // As upstream: static Pods are critical and are not evicted.
            storage: if context.is_static {
                StorageMonitor::none()
            } else {
                StorageMonitor::start(&context.pod, context.directory.clone())
            },
            written_checkpoint: Checkpoint::new(),
            context,
        };
        worker.track_ephemeral();
        Ok(worker)
    }

    /// Continues with the sandbox and the containers that an earlier agent, or a worker that panicked, started.
    async fn adopt(&mut self, leftover: Leftover) {
        let checkpoint = self.context.directory.read_checkpoint().unwrap_or_default();
        self.containers.restore(checkpoint.clone());
        self.written_checkpoint = checkpoint;
        let is_running = leftover.sandbox.is_some();
        let adopted = AdoptedState {
            addresses: leftover.addresses,
            users: leftover.users,
            runs_images: leftover.runs_images,
            control_groups: leftover.control_groups,
        };
        self.sandbox.adopt(leftover.sandbox, adopted);
        tracing::info!(pod = %self.context.key, is_running, "Pod adopted");
        let containers = leftover.containers;
        for (name, state) in &containers {
            match state {
                ContainerState::Running { started_at } => {
                    self.containers.adopt_running(name, *started_at);
                    if is_running {
                        self.begin_run(name, *started_at, true);
                    }
                }
                ContainerState::Ended(exit) => {
                    let message = self.termination_message(name, exit.code).await;
                    self.containers
                        .adopt_terminated(name, terminated_state(exit, message));
                }
            }
        }
        // The earlier agent may have ended between the checkpoint and the start of a container.
        let is_present =
            |name: &str| is_running && matches!(containers.get(name), Some(ContainerState::Running { .. }));
        self.containers.mark_lost_unless(Timestamp::now(), is_present);
    }

    /// Keeps the Pod in its desired state until there is a reason to end it.
    async fn sync_until_end(&mut self, desired: &mut watch::Receiver<DesiredState>) -> EndReason {
        loop {
            let pod = &self.context.pod;
            if pod.is_terminating() {
                return EndReason::Deletion;
            }
            let is_final = matches!(self.containers.phase(), Phase::Succeeded | Phase::Failed);
            if is_final || (pod.is_finished() && !self.sandbox.is_running()) {
                return EndReason::Completion;
            }
            let left = self.status.time_to_deadline(pod);
            if left.is_some_and(|left| left.is_zero()) {
                self.status.is_past_deadline = true;
                return EndReason::Deadline;
            }
            let grace = pod.grace();
            self.report_status();
            if self.containers.is_complete() {
                self.stop_next(grace, Duration::ZERO);
            }
            let due = self.containers.next_due();
            tokio::select! {
                changed = desired.changed() => {
                    let latest = desired.borrow_and_update().clone();
                    match (changed, latest) {
                        (Ok(()), DesiredState::Present(pod)) => {
                            self.status.repair(&pod, &self.context.key);
                            self.volumes.pod_changed(&pod);
                            self.context.pod = pod;
                            self.track_ephemeral();
                        }
                        (Ok(()), DesiredState::Removed) => return EndReason::Removal,
                        (Ok(()), DesiredState::AgentShutdown) | (Err(_), _) => return EndReason::AgentShutdown,
                    }
                }
                event = self.sandbox.next_event() => self.handle_sandbox_event(event).await,
                message = self.runs.next_message() => self.handle_run_message(message),
                Some(found) = self.images.next() => self.handle_found_image(found),
                eviction = self.storage.eviction() => {
                    self.status.eviction = Some(eviction);
                    return EndReason::Eviction;
                }
                () = sleep_until(due) => self.start_due().await,
                () = sleep_for(left) => {}
            }
        }
    }

    /// Tracks ephemeral containers that were added to the Pod.
    fn track_ephemeral(&mut self) {
        for container in &self.context.pod.spec.ephemeral_containers {
            let tracked = TrackedContainer::new(&container.name, 0, Timestamp::now());
            self.containers.add_ephemeral(tracked);
        }
    }

    async fn handle_sandbox_event(&mut self, event: SandboxEvent) {
        match event {
            SandboxEvent::ContainerExited { name, exit } => self.container_exited(&name, &exit).await,
            SandboxEvent::SandboxExited => {
                tracing::warn!(pod = %self.context.key, "sandbox killed by another process");
                self.containers.mark_all_lost(Timestamp::now());
                self.runs.clear();
                self.sandbox.remove(&self.context).await;
            }
        }
    }

    /// Writes the checkpoint and the status.
    fn report_status(&mut self) {
        self.write_checkpoint();
        let pod_ips = self.sandbox.pod_ips(&self.context);
        self.status.update(&self.context, &self.containers, &pod_ips);
    }

    /// Writes the checkpoint of the containers if it has changed.
    fn write_checkpoint(&mut self) {
        let checkpoint = self.containers.checkpoint();
        // Before the first sandbox there is neither a directory nor a state to restore.
        let has_state = self.sandbox.is_running() || !self.written_checkpoint.is_empty();
        if checkpoint == self.written_checkpoint || !has_state {
            return;
        }
        match self.context.directory.write_checkpoint(&checkpoint) {
            Ok(()) => self.written_checkpoint = checkpoint,
            Err(error) => tracing::warn!(pod = %self.context.key, %error, "checkpoint not written"),
        }
    }

    /// Returns the values for environment variables and volumes.
    fn facts(&self) -> PodFacts {
        PodFacts {
            host_ips: self.context.agent.host_ips.clone(),
            pod_ips: self.sandbox.pod_ips(&self.context),
            capacity: self.context.agent.capacity,
        }
    }
}

async fn sleep_for(delay: Option<Duration>) {
    match delay {
        Some(delay) => tokio::time::sleep(delay).await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(due: Option<Timestamp>) {
    let Some(due) = due else {
        return std::future::pending().await;
    };
    let delay = due.duration_since(Timestamp::now());
    // A longer delay means that the clock was set back.
    let delay = if delay > BACK_OFF_MAX {
        SignedDuration::ZERO
    } else {
        delay
    };
    tokio::time::sleep(delay.try_into().unwrap_or_default()).await;
}

/// Returns the containers of a Pod in their initial state, with the restart counts of its status.
fn track_containers(pod: &Pod, now: Timestamp) -> Containers {
    let track = |container: &Container, statuses: &[ContainerStatus]| {
        let status = statuses.iter().find(|status| status.name == container.name);
        let restarts = status.map_or(0, |status| status.restart_count);
        let tracked = TrackedContainer::new(&container.name, restarts, now);
        if container.is_restartable() {
            tracked.restartable()
        } else {
            tracked
        }
    };
    let (spec, status) = (&pod.spec, &pod.status);
    let init = spec.init_containers.iter();
    let main = spec.containers.iter();
    Containers::new(
        full_name(pod),
        spec.restart_policy,
        init.map(|container| track(container, &status.init_container_statuses))
            .collect(),
        main.map(|container| track(container, &status.container_statuses))
            .collect(),
    )
}

/// Returns the Pod name in messages: `name_namespace(uid)`.
fn full_name(pod: &Pod) -> String {
    let meta = &pod.metadata;
    format!("{}_{}({})", meta.name, meta.namespace, meta.uid)
}
