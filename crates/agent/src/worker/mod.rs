//! One Pod on this node, from its first sight to its end: a task that owns everything of it.

mod asker;
mod ending;
mod probing;
mod runs;
mod start;
mod stop;
mod users;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::object::{ObjectKey, PodCondition, Resource};
use client::Client;
use jiff::{SignedDuration, Timestamp};
use netlink::route::LinkName;
use serde::Deserialize;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::cgroups::Cgroups;
use crate::containers::{Containers, Memory, PAUSE_MAX, Phase, Slot};
use crate::environment::Capacity;
use crate::events::{Events, PodEvents};
use crate::mirror::Mirror;
use crate::network::addresses::AddressPool;
use crate::object::{Container, Pod};
use crate::reporter::Reporter;
use crate::resolv_conf::ResolvConf;
use crate::runtime::{Happening, Sandbox};
use crate::sandbox::protocol::ContainerState;
use crate::services::Services;
use crate::settings::{AtEnd, Settings};
use crate::state_directory::{PodDirectory, StateDirectory};
use crate::status::{self, Observed};
use crate::user_namespaces::owners::PodUsers;
use crate::user_namespaces::ranges::RangePool;

use runs::{RunTasks, Word, ended};
pub use stop::remove_leftover;

/// Words of the containers' tasks that wait to be heard: one for each container, most often.
const WORDS_MAX: usize = 16;

/// What all workers of an agent share.
pub struct Context {
    /// The way to the API.
    pub client: Client,
    /// The agent's settings.
    pub settings: Settings,
    /// The node's addresses, the primary one first.
    pub host_ips: Vec<IpAddr>,
    /// The node's resolv.conf.
    pub host_resolv_conf: ResolvConf,
    /// Addresses for Pods.
    pub pool: Mutex<AddressPool>,
    /// Host IDs for Pods with user namespaces.
    pub ranges: Mutex<RangePool>,
    /// The cluster's Services.
    pub services: Services,
    /// What is kept on disk.
    pub state: StateDirectory,
    /// What people are told.
    pub events: Events,
    /// What holds containers to their limits, or why there is nothing.
    pub cgroups: Result<Cgroups, String>,
    /// What the node has.
    pub capacity: Capacity,
    /// For probes by HTTPS, which look at no certificate.
    pub probe_tls: Arc<rustls::ClientConfig>,
}

/// What the agent wants of a Pod.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// That it is as the API says.
    Present(Arc<Pod>),
    /// That it ends at once: the API has it no more.
    Gone,
    /// That the task ends, because the agent does.
    AgentEnds,
}

/// What an earlier agent left of a Pod.
pub struct Leftover {
    /// Its sandbox if it runs still, and what is in it.
    pub sandbox: Option<(Sandbox, BTreeMap<String, ContainerState>)>,
    /// The Pod's addresses, reserved.
    pub addresses: Vec<IpAddr>,
    /// User namespace of the Pod; its host IDs are reserved.
    pub users: Option<PodUsers>,
}

/// Keeps volumes up to date, until it is dropped.
struct RefreshTask(AbortHandle);

impl Drop for RefreshTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A Pod and everything of it.
struct Worker {
    context: Arc<Context>,
    pod: Arc<Pod>,
    key: ObjectKey,
    directory: PodDirectory,
    link: LinkName,
    /// Whether a file asks for it, and not the API.
    is_static: bool,
    reporter: Reporter,
    containers: Containers,
    sandbox: Option<Sandbox>,
    addresses: Vec<IpAddr>,
    /// User namespace of the Pod, once its first sandbox starts.
    users: Option<PodUsers>,
    start_time: Timestamp,
    /// Where the volumes are, once they are.
    volumes: Option<BTreeMap<String, PathBuf>>,
    refreshing: Option<RefreshTask>,
    /// What is on disk of the containers.
    kept: Memory,
    /// The conditions that were told last.
    told: Vec<PodCondition>,
    /// By container, for those that run.
    runs: BTreeMap<String, RunTasks>,
    /// Numbers the runs.
    runs_begun: u64,
    words: mpsc::Receiver<Word>,
    word_sender: mpsc::Sender<Word>,
    is_ending: watch::Sender<bool>,
    events: PodEvents,
}

/// Runs a Pod until it is gone. `wanted` must be [`Wanted::Present`] at first.
/// A Pod with a `mirror` is a static one.
pub async fn run(
    context: Arc<Context>,
    mut wanted: watch::Receiver<Wanted>,
    leftover: Option<Leftover>,
    mirror: Option<Mirror>,
) {
    let Wanted::Present(pod) = wanted.borrow_and_update().clone() else {
        return;
    };
    let key = pod.metadata().key();
    let mut worker = match Worker::new(context, pod, leftover, mirror) {
        Ok(worker) => worker,
        Err(error) => {
            tracing::error!(pod = %key, %error, "this Pod cannot be run");
            return;
        }
    };
    let end = worker.live(&mut wanted).await;
    worker.end(end, &mut wanted).await;
}

/// Why a Pod's life here ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its deletion was asked for: it may take its grace period, and is deleted from the API then.
    Deletion,
    /// The API has it no more: it ends at once.
    Gone,
    /// All containers have ended for good.
    Completion,
    /// The agent ends, and its Pods with it or not.
    AgentEnds,
}

impl Worker {
    fn new(
        context: Arc<Context>,
        pod: Arc<Pod>,
        leftover: Option<Leftover>,
        mirror: Option<Mirror>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let now = Timestamp::now();
        let uid = &pod.metadata.uid;
        let key = pod.metadata().key();
        let (word_sender, words) = mpsc::channel(WORDS_MAX);
        let mut worker = Self {
            directory: context.state.pod(uid)?,
            link: crate::network::link_name(uid)?,
            is_static: mirror.is_some(),
            reporter: match mirror {
                Some(mirror) => Reporter::start_mirror(context.client.clone(), &key, mirror),
                None => Reporter::start(context.client.clone(), &key, uid),
            },
            containers: containers_of(&pod, now),
            start_time: pod
                .status
                .start_time
                .as_ref()
                .and_then(|t| t.parse().ok())
                .unwrap_or(now),
            told: pod.status.conditions.clone(),
            volumes: None,
            refreshing: None,
            kept: Memory::new(),
            sandbox: None,
            addresses: Vec::new(),
            users: None,
            runs: BTreeMap::new(),
            runs_begun: 0,
            words,
            word_sender,
            is_ending: watch::channel(false).0,
            events: context.events.of(&pod),
            key,
            context,
            pod,
        };
        if let Some(leftover) = leftover {
            worker.take_over(leftover);
        }
        Ok(worker)
    }

    /// Goes on with what an earlier agent has started.
    fn take_over(&mut self, leftover: Leftover) {
        self.addresses = leftover.addresses;
        self.users = leftover.users;
        let memory = self.directory.memory().unwrap_or_default();
        self.containers.recall(memory.clone());
        self.kept = memory;
        let Some((sandbox, containers)) = leftover.sandbox else {
            tracing::info!(pod = %self.key, "taking up a Pod whose processes are gone");
            return self.containers.lost(Timestamp::now());
        };
        tracing::info!(pod = %self.key, "taking over a running Pod");
        self.sandbox = Some(sandbox);
        for (name, state) in &containers {
            match state {
                ContainerState::Running { started_at } => {
                    self.containers.found_running(name, *started_at);
                    self.follow(name, *started_at, true);
                }
                ContainerState::Ended(exit) => self.containers.found_ended(name, ended(exit)),
            }
        }
        // What was being started when the earlier agent ended, and was not.
        self.containers.lost_but(Timestamp::now(), |name| {
            matches!(containers.get(name), Some(ContainerState::Running { .. }))
        });
    }

    /// Keeps the Pod as it should be, until there is a reason to end it.
    async fn live(&mut self, wanted: &mut watch::Receiver<Wanted>) -> End {
        loop {
            if self.pod.is_terminating() {
                return End::Deletion;
            }
            let is_over = matches!(self.containers.phase(), Phase::Succeeded | Phase::Failed);
            if is_over || (self.pod.is_finished() && self.sandbox.is_none()) {
                return End::Completion;
            }
            self.report();
            if self.containers.is_done() {
                self.end_next(Duration::from_secs(self.pod.grace_seconds()), Duration::ZERO);
            }
            let due = self.containers.next_due();
            let happening = next_happening(&mut self.sandbox);
            tokio::select! {
                changed = wanted.changed() => {
                    let now = wanted.borrow_and_update().clone();
                    match (changed, now) {
                        (Ok(()), Wanted::Present(pod)) => {
                            self.hear(&pod);
                            self.pod = pod;
                        }
                        (Ok(()), Wanted::Gone) => return End::Gone,
                        (Ok(()), Wanted::AgentEnds) | (Err(_), _) => return End::AgentEnds,
                    }
                }
                happening = happening => self.happened(happening).await,
                Some(word) = self.words.recv() => self.heed(word),
                () = sleep_until(due) => self.start_due().await,
            }
        }
    }

    /// What somebody else has written over the status is put right: while a Node is silent, for one, it is said of its
    /// Pods that they are not ready.
    fn hear(&mut self, pod: &Pod) {
        if self.reporter.correct(pod) {
            tracing::info!(pod = %self.key, "somebody else has written the Pod's status; it is put right");
            // The times of changes begin anew for what was written over.
            self.told.clone_from(&pod.status.conditions);
        }
    }

    async fn happened(&mut self, happening: Happening) {
        match happening {
            Happening::Ended { name, exit } => self.container_ended(&name, &exit),
            Happening::Gone => {
                tracing::warn!(pod = %self.key, "the Pod's sandbox was killed from outside");
                self.containers.lost(Timestamp::now());
                self.runs.clear();
                self.remove_sandbox().await;
            }
        }
    }

    /// Tells the API what is.
    fn report(&mut self) {
        self.keep();
        let pod_ips = self.pod_ips();
        let observed = Observed {
            containers: &self.containers,
            pod_ips: &pod_ips,
            host_ips: &self.context.host_ips,
            start_time: self.start_time,
            told: &self.told,
        };
        let status = status::build(&self.pod, &observed, Timestamp::now());
        // Written by `build`, so it is a list of conditions.
        self.told = Vec::deserialize(&status["conditions"]).unwrap_or_default();
        self.reporter.tell(status);
    }

    /// Keeps on disk what has changed.
    fn keep(&mut self) {
        let memory = self.containers.remember();
        // Without a sandbox there is no directory, or not yet anything to know.
        if memory == self.kept || self.sandbox.is_none() && self.kept.is_empty() {
            return;
        }
        match self.directory.write_memory(&memory) {
            Ok(()) => self.kept = memory,
            Err(error) => {
                tracing::warn!(pod = %self.key, %error, "what the next agent should know is not kept")
            }
        }
    }

    /// A Pod in the node's network has the node's addresses.
    fn pod_ips(&self) -> Vec<IpAddr> {
        if self.pod.spec.host_network {
            self.context.host_ips.clone()
        } else {
            self.addresses.clone()
        }
    }
}

/// What the sandbox says next; without a sandbox nothing, ever.
async fn next_happening(sandbox: &mut Option<Sandbox>) -> Happening {
    match sandbox {
        Some(sandbox) => sandbox.next().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(due: Option<Timestamp>) {
    let Some(due) = due else {
        return std::future::pending().await;
    };
    let pause = due.duration_since(Timestamp::now());
    // The clock was set back meanwhile.
    let pause = if pause > PAUSE_MAX {
        SignedDuration::ZERO
    } else {
        pause
    };
    tokio::time::sleep(pause.try_into().unwrap_or_default()).await;
}

fn containers_of(pod: &Pod, now: Timestamp) -> Containers {
    let slots = |specs: &[Container], known: &[crate::object::ContainerStatus]| -> Vec<Slot> {
        let restarts = |name: &str| {
            known
                .iter()
                .find(|s| s.name == name)
                .map_or(0, |s| s.restart_count)
        };
        let slot = |c: &Container| {
            let slot = Slot::new(&c.name, restarts(&c.name), now);
            if c.is_restartable() {
                slot.restartable()
            } else {
                slot
            }
        };
        specs.iter().map(slot).collect()
    };
    Containers::new(
        full_name(pod),
        pod.spec.restart_policy,
        slots(&pod.spec.init_containers, &pod.status.init_container_statuses),
        slots(&pod.spec.containers, &pod.status.container_statuses),
    )
}

/// What messages call a Pod.
fn full_name(pod: &Pod) -> String {
    let meta = &pod.metadata;
    format!("{}_{}({})", meta.name, meta.namespace, meta.uid)
}

/// Whether Pods end with the agent.
fn ends_with_agent(settings: &Settings) -> bool {
    matches!(settings.at_end, AtEnd::EndPods { .. })
}
