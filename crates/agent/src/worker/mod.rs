//! One Pod on this node, from its first sight to its end: a task that owns everything of it.

mod start;
mod stop;
mod watch_probe;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use api::object::{ObjectKey, PodCondition, Resource};
use client::Client;
use jiff::Timestamp;
use netlink::route::LinkName;
use serde::Deserialize;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use crate::containers::{Containers, Ended, Phase, Slot};
use crate::network::addresses::AddressPool;
use crate::object::{Container, Pod};
use crate::probe::Readiness;
use crate::reporter::Reporter;
use crate::resolv_conf::ResolvConf;
use crate::runtime::{Happening, Sandbox};
use crate::sandbox::protocol::{ContainerState, Exit};
use crate::services::Services;
use crate::settings::{AtEnd, Settings};
use crate::state_directory::{PodDirectory, StateDirectory};
use crate::status::{self, Observed};

pub use stop::remove_leftover;

/// Results of probes that wait to be counted: one for each container, most often.
const PROBE_RESULTS_MAX: usize = 16;

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
    /// The cluster's Services.
    pub services: Services,
    /// What is kept on disk.
    pub state: StateDirectory,
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

/// A Pod's sandbox that an earlier agent left running.
pub struct Leftover {
    /// The sandbox.
    pub sandbox: Sandbox,
    /// What is in it.
    pub containers: BTreeMap<String, ContainerState>,
    /// The Pod's addresses.
    pub addresses: Vec<IpAddr>,
}

/// The result of a probe.
struct ProbeResult {
    container: String,
    succeeded: bool,
}

/// A Pod and everything of it.
struct Worker {
    context: Arc<Context>,
    pod: Arc<Pod>,
    key: ObjectKey,
    directory: PodDirectory,
    link: LinkName,
    reporter: Reporter,
    containers: Containers,
    sandbox: Option<Sandbox>,
    addresses: Vec<IpAddr>,
    start_time: Timestamp,
    /// The conditions that were told last.
    told: Vec<PodCondition>,
    /// By container: whether it is ready.
    readiness: BTreeMap<String, Readiness>,
    probes: BTreeMap<String, AbortHandle>,
    probe_results: mpsc::Receiver<ProbeResult>,
    probe_sender: mpsc::Sender<ProbeResult>,
}

/// Runs a Pod until it is gone. `wanted` must be [`Wanted::Present`] at first.
pub async fn run(context: Arc<Context>, mut wanted: watch::Receiver<Wanted>, leftover: Option<Leftover>) {
    let Wanted::Present(pod) = wanted.borrow_and_update().clone() else {
        return;
    };
    let key = pod.metadata().key();
    let mut worker = match Worker::new(context, pod, leftover) {
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
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let now = Timestamp::now();
        let uid = &pod.metadata.uid;
        let key = pod.metadata().key();
        let (probe_sender, probe_results) = mpsc::channel(PROBE_RESULTS_MAX);
        let mut worker = Self {
            directory: context.state.pod(uid)?,
            link: crate::network::link_name(uid)?,
            reporter: Reporter::start(context.client.clone(), &key, uid),
            containers: containers_of(&pod, now),
            start_time: pod
                .status
                .start_time
                .as_ref()
                .and_then(|t| t.parse().ok())
                .unwrap_or(now),
            told: pod.status.conditions.clone(),
            sandbox: None,
            addresses: Vec::new(),
            readiness: BTreeMap::new(),
            probes: BTreeMap::new(),
            probe_results,
            probe_sender,
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
        tracing::info!(pod = %self.key, "taking over a running Pod");
        self.addresses = leftover.addresses;
        self.sandbox = Some(leftover.sandbox);
        for (name, state) in leftover.containers {
            match state {
                ContainerState::Running { started_at } => self.container_started(&name, started_at),
                ContainerState::Ended(exit) => {
                    self.container_started(&name, exit.started_at);
                    self.container_ended(&name, exit);
                }
            }
        }
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
                Some(result) = self.probe_results.recv() => self.count(&result),
                () = sleep_until(due) => self.start_due().await,
            }
        }
    }

    /// While a Node is silent, it is said of its Pods that they are not ready. Then what is so is told anew.
    fn hear(&mut self, pod: &Pod) {
        let ready = |conditions: &[PodCondition]| {
            let ready = conditions.iter().find(|condition| condition.kind == "Ready")?;
            Some((ready.status == "True", ready.last_transition_time.clone()))
        };
        // An older state of what was told here is no news.
        if let (Some((true, told_at)), Some((false, said_at))) =
            (ready(&self.told), ready(&pod.status.conditions))
            && said_at > told_at
        {
            self.told.clone_from(&pod.status.conditions);
        }
    }

    async fn happened(&mut self, happening: Happening) {
        match happening {
            Happening::Ended { name, exit } => self.container_ended(&name, exit),
            Happening::Gone => {
                tracing::warn!(pod = %self.key, "the Pod's sandbox was killed from outside");
                self.containers.lost(Timestamp::now());
                self.readiness.clear();
                for (_, probe) in std::mem::take(&mut self.probes) {
                    probe.abort();
                }
                self.remove_sandbox().await;
            }
        }
    }

    fn container_started(&mut self, name: &str, since: Timestamp) {
        self.containers.started(name, since);
        let pod = Arc::clone(&self.pod);
        let Some(container) = pod.spec.containers.iter().find(|c| c.name == name) else {
            return;
        };
        self.readiness.insert(name.to_owned(), Readiness::default());
        match (&container.readiness_probe, &self.sandbox) {
            (Some(_), Some(sandbox)) => {
                let to = self.probe_address();
                let probe = watch_probe::start(container, to, sandbox.executor(), self.probe_sender.clone());
                self.stop_probe(name);
                self.probes.insert(name.to_owned(), probe);
            }
            _ => {
                let always = crate::object::Probe::default();
                if let Some(readiness) = self.readiness.get_mut(name) {
                    readiness.count(true, &always);
                }
            }
        }
    }

    fn container_ended(&mut self, name: &str, exit: Exit) {
        self.stop_probe(name);
        self.readiness.remove(name);
        let ended = Ended {
            exit_code: exit.code,
            signal: exit.signal,
            reason: if exit.code == 0 { "Completed" } else { "Error" },
            started_at: Some(exit.started_at),
            finished_at: exit.finished_at,
        };
        tracing::debug!(pod = %self.key, container = name, exit_code = exit.code, "a container ended");
        self.containers.ended(name, ended);
    }

    fn count(&mut self, result: &ProbeResult) {
        let name = &result.container;
        let container = self.pod.spec.containers.iter().find(|c| c.name == *name);
        let probe = container.and_then(|c| c.readiness_probe.as_ref());
        // A result of a container that has ended meanwhile finds no readiness here.
        if let (Some(probe), Some(readiness)) = (probe, self.readiness.get_mut(name))
            && readiness.count(result.succeeded, probe)
        {
            tracing::debug!(pod = %self.key, container = name, ready = readiness.is_ready(), "readiness changed");
        }
    }

    fn stop_probe(&mut self, name: &str) {
        if let Some(probe) = self.probes.remove(name) {
            probe.abort();
        }
    }

    /// Tells the API what is.
    fn report(&mut self) {
        let ready = self
            .readiness
            .iter()
            .map(|(name, r)| (name.clone(), r.is_ready()))
            .collect();
        let pod_ips = self.pod_ips();
        let observed = Observed {
            containers: &self.containers,
            ready: &ready,
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

    /// A Pod in the node's network has the node's addresses.
    fn pod_ips(&self) -> Vec<IpAddr> {
        if self.pod.spec.host_network {
            self.context.host_ips.clone()
        } else {
            self.addresses.clone()
        }
    }

    fn probe_address(&self) -> Option<IpAddr> {
        self.pod_ips().first().copied()
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
    tokio::time::sleep(pause.try_into().unwrap_or_default()).await;
}

fn containers_of(pod: &Pod, now: Timestamp) -> Containers {
    let slots = |specs: &[Container], known: &[crate::object::RestartCount]| -> Vec<Slot> {
        let restarts = |name: &str| {
            known
                .iter()
                .find(|s| s.name == name)
                .map_or(0, |s| s.restart_count)
        };
        specs
            .iter()
            .map(|c| Slot::new(&c.name, restarts(&c.name), now))
            .collect()
    };
    Containers::new(
        pod.spec.restart_policy,
        slots(&pod.spec.init_containers, &pod.status.init_container_statuses),
        slots(&pod.spec.containers, &pod.status.container_statuses),
    )
}

/// Whether Pods end with the agent.
fn ends_with_agent(settings: &Settings) -> bool {
    matches!(settings.at_end, AtEnd::EndPods { .. })
}
