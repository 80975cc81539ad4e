//! Sync loop (kubelet's `syncLoop`): dispatches the Pods of the API and of manifests to their workers.
//!
//! Each Pod has a worker task by its UID. The loop passes the latest desired state to it and does not wait for
//! containers. A Pod with a known name and another UID replaces the earlier one. Pods that an earlier agent left are
//! adopted by their workers; after the first complete list, the rest is removed. Static Pods start without the API
//! server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::object::{ObjectKey, Resource};
use client::{Event, Query, STRATEGIC_PATCH};
use http::Method;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout};

use crate::confinement::sysctls;
use crate::network;
use crate::network::host_ports::admission;
use crate::object::Pod;
use crate::object::rfc3339::whole_seconds;
use crate::pods::context::Context;
use crate::pods::leftovers::{self, Leftovers};
use crate::pods::pod_worker::{self, DesiredState};
use crate::pods::state_directory::Record;
use crate::pods::{pod_api, status};
use crate::settings::ShutdownPolicy;
use crate::static_pods::StaticPods;
use crate::static_pods::mirror_pod::{self, MirrorPod};

#[cfg(test)]
pub(crate) mod tests;

/// Maximum number of events of the Pod watch that wait for dispatch.
const EVENTS_WAITING_MAX: usize = 256;
/// Time that all workers together have for the shutdown, on top of the grace period of their Pods.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(15);
/// Delay between the panic of a worker and the restart of its Pod. A panic that repeats costs little this way.
const RESTART_DELAY: Duration = Duration::from_secs(60);

/// Task of one Pod.
struct Worker {
    key: ObjectKey,
    desired: watch::Sender<DesiredState>,
    task: Id,
    /// True if a task of the Pod panicked during its deletion.
    has_failed_deletion: bool,
}

/// Workers of the Pods of this node.
pub(crate) struct SyncLoop {
    context: Arc<Context>,
    /// Pods of earlier agents that no worker has adopted yet.
    leftovers: Leftovers,
    /// Workers by UID of the Pod.
    workers: HashMap<String, Worker>,
    /// Tasks of the workers; each returns the UID of its Pod.
    tasks: JoinSet<String>,
    static_pods: StaticPods,
    /// Deletions of orphaned mirror Pods.
    deletions: JoinSet<()>,
}

impl SyncLoop {
    /// Returns a sync loop without workers.
    pub(crate) fn new(context: Arc<Context>, leftovers: Leftovers) -> Self {
        let settings = &context.settings;
        Self {
            static_pods: StaticPods::new(settings.static_pods.as_ref(), &settings.node_name),
            leftovers,
            context,
            workers: HashMap::new(),
            tasks: JoinSet::new(),
            deletions: JoinSet::new(),
        }
    }

    /// Dispatches changes until `shutdown` completes.
    pub(crate) async fn run(&mut self, shutdown: &mut (impl Future<Output = ()> + Unpin)) {
        let query = Query {
            field_selector: format!("spec.nodeName={}", self.context.settings.node_name),
            ..Query::default()
        };
        let mut events = client::watch::<Pod>(&self.context.client, query).into_channel(EVENTS_WAITING_MAX);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.handle(event).await,
                    None => return,
                },
                Some(ended) = self.tasks.join_next() => self.worker_ended(ended),
                () = sleep_until(self.static_pods.next_scan()) => {
                    self.static_pods.scan();
                    self.sync_static_pods();
                }
                Some(_) = self.deletions.join_next() => {}
                () = &mut *shutdown => return,
            }
        }
    }

    /// Starts the static Pods, and removes leftovers of those without a manifest. Needs no API server.
    pub(crate) async fn start_static_pods(&mut self) {
        self.static_pods.scan();
        let static_pods = &self.static_pods;
        let is_orphan = |uid: &String, record: &Record| record.is_static && !static_pods.contains(uid);
        let orphans = self
            .leftovers
            .extract_if(|uid, (record, _)| is_orphan(uid, record));
        for (_, (record, leftover)) in orphans.collect::<Vec<_>>() {
            leftovers::remove(&self.context, &record, leftover).await;
        }
        self.sync_static_pods();
    }

    /// Starts and ends static Pods as their manifests require, and deletes orphaned mirror Pods.
    fn sync_static_pods(&mut self) {
        for ending in self.static_pods.take_removed() {
            if let Some(worker) = self.workers.get(&ending.pod.metadata.uid) {
                let mut pod = (*ending.pod).clone();
                pod.metadata.deletion_timestamp = Some(whole_seconds(Timestamp::now()));
                worker.desired.send_replace(DesiredState::Present(Arc::new(pod)));
            }
        }
        for pod in self.static_pods.startable() {
            if self.is_full() {
                let pods_max = self.context.settings.pods_max;
                tracing::warn!(pod = %pod.key(), pods_max, "static Pod not started; the node is full");
                continue;
            }
            self.static_pods.mark_started(pod.clone());
            let mirror = MirrorPod::new(&pod, Timestamp::now());
            self.start_worker(Arc::clone(&pod.pod), Some(mirror));
        }
        // Orphans of a deletion that is under way are examined again after it.
        if self.deletions.is_empty() {
            for (key, uid) in self.static_pods.orphaned_mirrors() {
                let client = self.context.client.clone();
                self.deletions.spawn(async move {
                    if let Err(error) = mirror_pod::delete_orphan(&client, &key, &uid).await {
                        tracing::debug!(pod = %key, %error, "orphaned mirror Pod not deleted");
                    }
                });
            }
        }
    }

    fn start_worker(&mut self, pod: Arc<Pod>, mirror: Option<MirrorPod>) {
        let (key, uid) = (pod.metadata().key(), pod.metadata.uid.clone());
        let leftover = self.leftovers.remove(&uid).map(|(_, leftover)| leftover);
        let (desired, receiver) = watch::channel(DesiredState::Present(Arc::clone(&pod)));
        let context = Arc::clone(&self.context);
        let worker_uid = uid.clone();
        let task = self.tasks.spawn(async move {
            pod_worker::run(context, pod, receiver, leftover, mirror).await;
            worker_uid
        });
        let worker = Worker {
            key,
            desired,
            task: task.id(),
            has_failed_deletion: false,
        };
        self.workers.insert(uid, worker);
    }

    async fn handle(&mut self, event: Event<Pod>) {
        match event {
            Event::Applied(pod) => self.handle_pod(pod).await,
            Event::Deleted(key) => {
                self.static_pods.mirror_deleted(&key);
                self.remove_pods(&key, None);
            }
            Event::Malformed { key, error } => tracing::warn!(pod = %key, error, "malformed Pod ignored"),
            Event::Synced => {
                // The watch has delivered all Pods of the node, so the API has none for the other leftovers.
                for (_, (record, leftover)) in std::mem::take(&mut self.leftovers) {
                    leftovers::remove(&self.context, &record, leftover).await;
                }
            }
        }
    }

    /// Passes a Pod of the API to its worker, or starts a worker. Rejects a new Pod that this node cannot run.
    async fn handle_pod(&mut self, pod: Pod) {
        // A server without the field selector must not make two nodes run the same Pod.
        if pod.spec.node_name != self.context.settings.node_name {
            return;
        }
        let (key, uid) = (pod.metadata().key(), pod.metadata.uid.clone());
        if let Some(mirrored) = mirror_pod::mirrored_uid_of(&pod) {
            self.static_pods.mirror_seen(key, mirrored);
            return self.sync_static_pods();
        }
        // The watch may have missed the deletion of an earlier Pod of that name.
        self.remove_pods(&key, Some(&uid));
        let pod = Arc::new(pod);
        if let Some(worker) = self.workers.get(&uid) {
            worker.desired.send_replace(DesiredState::Present(pod));
            return;
        }
        if pod.is_finished() && !pod.is_terminating() && !self.leftovers.contains_key(&uid) {
            return;
        }
        if !pod.spec.os.is_supported() && !pod.is_terminating() {
            let message = "Failed to admit pod as the OS field doesn't match node OS";
            return self.reject(&key, &pod, "PodOSNotSupported", message).await;
        }
        // A Pod that an earlier agent admitted stays.
        if let Err(forbidden) = sysctls::of_pod(&pod.spec)
            && !pod.is_terminating()
            && !self.leftovers.contains_key(&uid)
        {
            let message = forbidden.to_string();
            return self.reject(&key, &pod, "SysctlForbidden", &message).await;
        }
        let is_new = !pod.is_terminating() && !self.leftovers.contains_key(&uid);
        if is_new && self.has_taken_port(&pod) {
            return self
                .reject(&key, &pod, admission::REASON, admission::MESSAGE)
                .await;
        }
        if is_new && self.is_full() {
            let pods_max = self.context.settings.pods_max;
            let message = format!(
                "Node didn't have enough resource: pods, requested: 1, used: {pods_max}, capacity: {pods_max}"
            );
            return self.reject(&key, &pod, "OutOfpods", &message).await;
        }
        self.start_worker(pod, None);
    }

    /// Returns true if the node runs as many Pods as it may. Finished Pods, whose workers wait for their deletion, do not count.
    /// The scheduler does not count them either: it would assign Pods to a node that rejects them.
    fn is_full(&self) -> bool {
        let is_active = |state: &DesiredState| match state {
            DesiredState::Present(pod) => !pod.is_finished(),
            DesiredState::Removed | DesiredState::AgentShutdown => true,
        };
        let workers = self.workers.values();
        let active = workers.filter(|worker| is_active(&worker.desired.borrow()));
        active.count() >= self.context.settings.pods_max
    }

    /// Returns true if another Pod, which has not ended, has a host port of this Pod.
    fn has_taken_port(&self, pod: &Pod) -> bool {
        let is_taken_by = |state: &DesiredState| match state {
            DesiredState::Present(other) => !other.is_finished() && admission::collide(pod, other),
            DesiredState::Removed | DesiredState::AgentShutdown => false,
        };
        let mut workers = self.workers.values();
        workers.any(|worker| is_taken_by(&worker.desired.borrow()))
    }

    /// Removes the Pods of the API with that name, except the one with the UID `except`.
    fn remove_pods(&self, key: &ObjectKey, except: Option<&str>) {
        for (uid, worker) in &self.workers {
            if worker.key == *key && Some(uid.as_str()) != except && !self.static_pods.contains(uid) {
                worker.desired.send_replace(DesiredState::Removed);
            }
        }
    }

    fn worker_ended(&mut self, ended: Result<String, JoinError>) {
        match ended {
            Ok(uid) => {
                self.workers.remove(&uid);
                if self.static_pods.mark_ended(&uid) {
                    self.sync_static_pods();
                }
            }
            Err(error) => self.restart_panicked(&error),
        }
    }

    /// Starts the Pod of a worker that panicked again. A panic of one worker does not affect the others.
    fn restart_panicked(&mut self, error: &JoinError) {
        let id = error.id();
        let Some((uid, worker)) = self.workers.iter_mut().find(|(_, worker)| worker.task == id) else {
            return;
        };
        tracing::error!(pod = %worker.key, uid, %error, "worker of a Pod panicked");
        let is_deletion = is_deletion(&worker.desired.borrow());
        let is_repeated = is_deletion && worker.has_failed_deletion;
        worker.has_failed_deletion |= is_deletion;
        let (context, desired) = (Arc::clone(&self.context), worker.desired.subscribe());
        let (uid, mirror) = (uid.clone(), self.static_pods.mirror_of(uid));
        let task = self.tasks.spawn(async move {
            restart(context, desired, &uid, mirror, is_repeated).await;
            uid
        });
        worker.task = task.id();
    }

    /// Fails a Pod that this node does not admit (kubelet's `rejectPod`).
    async fn reject(&self, key: &ObjectKey, pod: &Pod, reason: &str, message: &str) {
        let path = format!("{}/status", pod_api::path(key));
        let body = json!({"metadata": {"uid": pod.metadata.uid}, "status": status::rejected_status(reason, message)});
        let client = &self.context.client;
        let patched = client
            .request(Method::PATCH, &path, STRATEGIC_PATCH, Some(&body))
            .await;
        if let Err(error) = patched {
            tracing::warn!(pod = %key, %error, "status of a rejected Pod not written");
        }
    }

    /// Deletes the links of Pods without a record.
    pub(crate) fn delete_orphaned_links(&self) {
        let known: Vec<_> = self
            .leftovers
            .keys()
            .filter_map(|uid| network::link_name(uid).ok())
            .collect();
        match network::delete_orphaned_links(&known) {
            Ok(deleted) if deleted.is_empty() => {}
            Ok(deleted) => tracing::info!(?deleted, "links of Pods without a record deleted"),
            Err(error) => tracing::warn!(%error, "links of Pods without a record not deleted"),
        }
    }

    /// Shuts all workers down.
    pub(crate) async fn shut_down(mut self) {
        for worker in self.workers.values() {
            worker.desired.send_replace(DesiredState::AgentShutdown);
        }
        let grace = match self.context.settings.shutdown {
            ShutdownPolicy::TerminatePods { grace } => grace,
            ShutdownPolicy::KeepPods => Duration::ZERO,
        };
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(grace + SHUTDOWN_TIMEOUT, all).await.is_err() {
            tracing::warn!("Pods not terminated within the shutdown timeout");
        }
    }
}

/// Ends the processes of a Pod whose worker panicked, then runs the Pod again after a delay. The containers that have
/// started count as lost. A Pod that has to end does not wait, unless a deletion `is_repeated`.
async fn restart(
    context: Arc<Context>,
    mut desired: watch::Receiver<DesiredState>,
    uid: &str,
    mirror: Option<MirrorPod>,
    is_repeated: bool,
) {
    let stopped = leftovers::stop_after_panic(&context, uid).await;
    let ends_delay = |state: &DesiredState| ends_delay(state, is_repeated);
    // The state that ends the delay is read below.
    timeout(RESTART_DELAY, desired.wait_for(ends_delay))
        .await
        .map(drop)
        .ok();
    let state = desired.borrow_and_update().clone();
    match (state, stopped) {
        (DesiredState::Present(pod), None) if pod.is_finished() && !pod.is_terminating() => {}
        (DesiredState::Present(pod), stopped) => {
            let leftover = stopped.map(|(_, leftover)| leftover);
            pod_worker::run(context, pod, desired, leftover, mirror).await;
        }
        (DesiredState::AgentShutdown, _) if keeps_pods(&context) => {}
        (_, Some((record, leftover))) => leftovers::remove(&context, &record, leftover).await,
        (_, None) => {}
    }
}

/// Returns true if the Pods stay on the node for the next agent.
fn keeps_pods(context: &Context) -> bool {
    matches!(context.settings.shutdown, ShutdownPolicy::KeepPods)
}

fn is_deletion(state: &DesiredState) -> bool {
    matches!(state, DesiredState::Present(pod) if pod.is_terminating())
}

/// Returns true if a Pod whose worker panicked does not wait for its restart.
fn ends_delay(state: &DesiredState, is_repeated: bool) -> bool {
    match state {
        DesiredState::Present(_) => is_deletion(state) && !is_repeated,
        DesiredState::Removed | DesiredState::AgentShutdown => true,
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
