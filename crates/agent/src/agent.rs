//! The whole agent: Node, leftovers, watches, workers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::object::{ObjectKey, Resource};
use client::{Client, Event, Query, STRATEGIC_PATCH};
use http::Method;
use ipnet::IpNet;
use jiff::Timestamp;
use rustix::thread::CapabilitySet;
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::cgroups::Cgroups;
use crate::events::Events;
use crate::mirror::{self, Mirror};
use crate::network::addresses::{AddressError, AddressPool};
use crate::object::Pod;
use crate::registration::{known_ranges, register, register_behind};
use crate::resolv_conf::ResolvConf;
use crate::runtime::Sandbox;
use crate::services::Services;
use crate::settings::Settings;
use crate::state_directory::{Record, StateDirectory, StateError};
use crate::static_pods::StaticPods;
use crate::status::seconds;
use crate::user_namespaces::IdMaps;
use crate::user_namespaces::owners::PodUsers;
use crate::user_namespaces::ranges::RangePool;
use crate::worker::{self, Context, Leftover, Wanted, remove_leftover};
use crate::{network, node, serving, status};

/// Events of Pods that wait to be looked at.
const EVENTS_MAX: usize = 256;
/// Where containers find the tokens of their ServiceAccounts.
const TOKEN_PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How long all workers together may take to end with the agent, on top of their Pods' grace.
const END_PATIENCE: Duration = Duration::from_secs(15);

/// Why an agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Network namespaces and links are for root only. No retry mends it.
    #[error("not permitted: the capability {capability} is missing (run as root, or grant it)")]
    NotPermitted {
        /// What is missing.
        capability: &'static str,
    },
    /// The process's own capabilities cannot be read.
    #[error("this process's capabilities: {0}")]
    Capabilities(std::io::Error),
    /// The state directory cannot be used.
    #[error("state directory: {0}")]
    State(#[from] StateError),
    /// The node's links and addresses cannot be read.
    #[error("the node's network: {0}")]
    Network(#[from] netlink::route::RouteError),
    /// The node's Pod ranges cannot be used.
    #[error(transparent)]
    Ranges(#[from] AddressError),
    /// The TLS library has no protocol in common with itself. No retry mends it.
    #[error("TLS for probes: {0}")]
    Tls(#[from] rustls::Error),
    /// The endpoint for the API server cannot be served.
    #[error("serving the API server: {0}")]
    Serving(#[from] serving::ServingError),
    /// The Node has other ranges than those that an agent without the API went by. Starting again helps.
    #[error("the Node's podCIDRs are {now:?}, not those of before; Pods get new addresses")]
    RangesChanged {
        /// What the Node has.
        now: Vec<IpNet>,
    },
    /// The node has no address that others could reach it by.
    #[error("this node has no address beyond the loopback link; name one with --node-ip")]
    NoAddress,
}

/// Runs the Pods of this node until `end`, in the calling process's network namespace. Needs root, or to be root of
/// a user namespace. An API server that is away is waited for; the Pods run on meanwhile.
pub async fn run(
    client: Client,
    settings: Settings,
    end: impl Future<Output = ()>,
) -> Result<(), AgentError> {
    check_capabilities()?;
    let state = StateDirectory::open(&settings.state_directory)?;
    let host_ips = match settings.node_ips.as_slice() {
        [] => network::node_addresses()?,
        given => given.to_vec(),
    };
    if host_ips.is_empty() {
        return Err(AgentError::NoAddress);
    }
    network::prepare_node();
    network::protect_links()?;
    make_token_place();
    tokio::pin!(end);
    let ready = prepare(client, settings, host_ips, state);
    let (context, background, changed) = tokio::select! {
        ready = ready => ready?,
        () = &mut end => return Ok(()),
    };
    let settings = &context.settings;
    let mut agent = Agent {
        leftovers: find_leftovers(&context).await?,
        static_pods: StaticPods::new(settings.static_pods.as_ref(), &settings.node_name),
        context: Arc::new(context),
        pods: HashMap::new(),
        tasks: JoinSet::new(),
        withdrawals: JoinSet::new(),
    };
    agent.remove_unknown_links();
    agent.take_up_static_pods().await;
    let outcome = tokio::select! {
        () = agent.serve(&mut end) => Ok(()),
        Ok(now) = changed => Err(AgentError::RangesChanged { now }),
    };
    agent.end().await;
    drop(background);
    outcome
}

/// Nearly every container has a token at the same place. Where the node has that place, no container needs a copy of
/// the directories above it; where it cannot be made, they have one each.
fn make_token_place() {
    if let Err(error) = std::fs::create_dir_all(TOKEN_PLACE) {
        tracing::debug!(place = TOKEN_PLACE, %error, "containers make the place of their tokens themselves");
    }
}

/// Finds out at once what every Pod would fail for later.
fn check_capabilities() -> Result<(), AgentError> {
    let held = rustix::thread::capabilities(None)
        .map_err(|error| AgentError::Capabilities(error.into()))?
        .effective;
    let needed = [
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    ];
    match needed.iter().find(|(capability, _)| !held.contains(*capability)) {
        Some((_, capability)) => Err(AgentError::NotPermitted { capability }),
        None => Ok(()),
    }
}

/// Makes what workers share, and registers the Node: first, if there is no way yet to know which addresses its Pods
/// have. The tasks end with the returned set; the receiver hears if the addresses turn out to be others.
async fn prepare(
    client: Client,
    settings: Settings,
    host_ips: Vec<IpAddr>,
    state: StateDirectory,
) -> Result<(Context, JoinSet<()>, oneshot::Receiver<Vec<IpNet>>), AgentError> {
    let mut ranges = known_ranges(&settings, &state);
    if ranges.is_empty() {
        ranges = register(&client, &settings, &host_ips, &state).await;
    }
    let mut background = JoinSet::new();
    let (changed, hear_of_change) = oneshot::channel();
    background.spawn(register_behind(
        client.clone(),
        settings.clone(),
        host_ips.clone(),
        state.clone(),
        ranges.clone(),
        changed,
    ));
    let (services, watching) = Services::watch(&client);
    background.spawn(async move {
        if let Err(error) = watching.await {
            tracing::error!(%error, "watching Services");
        }
    });
    let (events, telling) = Events::new(client.clone());
    background.spawn(telling);
    if let Some(serving) = &settings.serving {
        let server = serving::Server::start(serving, state.clone()).await?;
        background.spawn(server.serve());
    }
    let resolv_conf = std::fs::read_to_string(&settings.host_resolv_conf).unwrap_or_else(|error| {
        tracing::warn!(path = %settings.host_resolv_conf.display(), %error, "no resolv.conf for Pods with dnsPolicy Default");
        String::new()
    });
    let context = Context {
        host_resolv_conf: ResolvConf::parse(&resolv_conf),
        pool: Mutex::new(AddressPool::new(ranges)?),
        ranges: Mutex::new(RangePool::new(settings.pods_max, &IdMaps::own())),
        client,
        settings,
        host_ips,
        services,
        state,
        events,
        capacity: node::capacity(),
        cgroups: Cgroups::open().map_err(|error| error.to_string()),
        probe_tls: Arc::new(trust::client_config_without_verification()?),
    };
    if let Err(why) = &context.cgroups {
        tracing::warn!(why, "the limits of Pods are not enforced");
    }
    Ok((context, background, hear_of_change))
}

/// What earlier agents have left, by UID.
type Leftovers = HashMap<String, (Record, Leftover)>;

async fn find_leftovers(context: &Context) -> Result<Leftovers, AgentError> {
    let (records, broken) = context.state.records()?;
    for directory in broken {
        tracing::warn!(?directory, "a Pod's record cannot be read");
        directory.remove()?;
    }
    let mut leftovers = Leftovers::new();
    for record in records {
        let directory = context.state.pod(&record.uid)?;
        let sandbox = Sandbox::connect(&directory).await.ok();
        let mut addresses = record.addresses.clone();
        if !addresses.is_empty() && !reserve_addresses(context, &addresses) {
            tracing::warn!(
                uid = record.uid,
                ?addresses,
                "a Pod's addresses are not of this node's ranges"
            );
            if sandbox.is_none() {
                addresses.clear();
            }
        }
        let mut leftover = Leftover {
            sandbox,
            addresses,
            users: record.users,
        };
        reserve_ids(context, &record, &mut leftover).await;
        leftovers.insert(record.uid.clone(), (record, leftover));
    }
    Ok(leftovers)
}

/// Reserves the addresses of a Pod. Returns false if they are not of this node's ranges.
fn reserve_addresses(context: &Context, addresses: &[IpAddr]) -> bool {
    let mut pool = context.pool.lock().unwrap_or_else(PoisonError::into_inner);
    pool.reserve(addresses)
}

/// Reserves the host IDs of a Pod. A Pod whose record names the IDs of another Pod restarts with new ones.
async fn reserve_ids(context: &Context, record: &Record, leftover: &mut Leftover) {
    let is_taken = |PodUsers { ids, .. }: &PodUsers| {
        let mut ranges = context.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        !ranges.reserve(*ids)
    };
    let Some(users) = leftover.users.take_if(|users| is_taken(users)) else {
        return;
    };
    tracing::error!(
        uid = record.uid,
        first = users.ids.first(),
        "host IDs of a Pod belong to another Pod"
    );
    if let Some((sandbox, _)) = leftover.sandbox.take()
        && let Err(error) = sandbox.kill().await
    {
        tracing::error!(uid = record.uid, %error, "sandbox did not end");
    }
}

struct Agent {
    context: Arc<Context>,
    leftovers: Leftovers,
    /// The worker of each Pod, by UID, and the Pod's key.
    pods: HashMap<String, (ObjectKey, watch::Sender<Wanted>)>,
    /// Workers; each ends with its Pod's UID.
    tasks: JoinSet<String>,
    /// The Pods of files.
    static_pods: StaticPods,
    /// Mirrors that are being taken out of the API.
    withdrawals: JoinSet<()>,
}

impl Agent {
    async fn serve(&mut self, end: &mut (impl Future<Output = ()> + Unpin)) {
        let query = Query {
            field_selector: format!("spec.nodeName={}", self.context.settings.node_name),
            ..Query::default()
        };
        let mut events = client::watch::<Pod>(&self.context.client, query).into_channel(EVENTS_MAX);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.apply(event).await,
                    None => return,
                },
                Some(ended) = self.tasks.join_next() => self.worker_ended(ended, &mut events),
                () = sleep_until(self.static_pods.due()) => {
                    self.static_pods.scan();
                    self.settle_static_pods();
                }
                Some(_) = self.withdrawals.join_next() => {}
                () = &mut *end => return,
            }
        }
    }

    /// Starts the Pods of files, and takes away what is left of those whose file is gone: for both nobody needs the API.
    async fn take_up_static_pods(&mut self) {
        self.static_pods.scan();
        let is_unwanted = |uid: &String, record: &Record| record.is_static && !self.static_pods.has(uid);
        let unwanted: Vec<String> = self
            .leftovers
            .iter()
            .filter(|(uid, (record, _))| is_unwanted(uid, record))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in unwanted {
            if let Some((record, leftover)) = self.leftovers.remove(&uid) {
                remove_leftover(&self.context, &record, leftover).await;
            }
        }
        self.settle_static_pods();
    }

    /// Starts and ends Pods of files as is due, and takes away mirrors that nobody needs.
    fn settle_static_pods(&mut self) {
        for ending in self.static_pods.begin_to_end() {
            if let Some((_, worker)) = self.pods.get(&ending.pod.metadata.uid) {
                let mut pod = (*ending.pod).clone();
                pod.metadata.deletion_timestamp = Some(seconds(Timestamp::now()));
                worker.send_replace(Wanted::Present(Arc::new(pod)));
            }
        }
        for pod in self.static_pods.to_start() {
            if self.pods.len() >= self.context.settings.pods_max {
                tracing::warn!(pod = %pod.key(), pods_max = self.context.settings.pods_max, "no room for a static Pod");
                continue;
            }
            self.static_pods.started(pod.clone());
            let mirror = Mirror::of(&pod, Timestamp::now());
            self.start_worker(Arc::clone(&pod.pod), Some(mirror));
        }
        // Those whose withdrawal is under way are looked at when that is over.
        if self.withdrawals.is_empty() {
            for (key, uid) in self.static_pods.orphans() {
                let client = self.context.client.clone();
                self.withdrawals.spawn(async move {
                    if let Err(error) = mirror::withdraw(&client, &key, &uid).await {
                        tracing::debug!(pod = %key, %error, "a mirror that nobody needs");
                    }
                });
            }
        }
    }

    fn start_worker(&mut self, pod: Arc<Pod>, mirror: Option<Mirror>) {
        let (key, uid) = (pod.metadata().key(), pod.metadata.uid.clone());
        let leftover = self.leftovers.remove(&uid).map(|(_, leftover)| leftover);
        let (sender, receiver) = watch::channel(Wanted::Present(pod));
        let context = Arc::clone(&self.context);
        self.pods.insert(uid.clone(), (key, sender));
        self.tasks.spawn(async move {
            worker::run(context, receiver, leftover, mirror).await;
            uid
        });
    }

    async fn apply(&mut self, event: Event<Pod>) {
        match event {
            Event::Applied(pod) => self.apply_pod(pod).await,
            Event::Deleted(key) => {
                self.static_pods.mirror_lost(&key);
                self.tell(&key, None, &Wanted::Gone);
            }
            Event::Malformed { key, error } => tracing::warn!(pod = %key, error, "unreadable Pod"),
            Event::Synced => {
                // Everything that is wanted has been told, so what is left over is not.
                for (_, (record, leftover)) in std::mem::take(&mut self.leftovers) {
                    remove_leftover(&self.context, &record, leftover).await;
                }
            }
        }
    }

    async fn apply_pod(&mut self, pod: Pod) {
        // The server selects by node name; one that does not must not make two nodes run the same Pod.
        if pod.spec.node_name != self.context.settings.node_name {
            return;
        }
        let (key, uid) = (pod.metadata().key(), pod.metadata.uid.clone());
        if let Some(of) = mirror::of_watched(&pod) {
            self.static_pods.mirror_seen(key, of);
            return self.settle_static_pods();
        }
        // A Pod of before with the same name has gone without a word.
        self.tell(&key, Some(&uid), &Wanted::Gone);
        let wanted = Wanted::Present(Arc::new(pod));
        if let Some((_, worker)) = self.pods.get(&uid) {
            worker.send_replace(wanted);
            return;
        }
        let Wanted::Present(pod) = &wanted else { return };
        if pod.is_finished() && !pod.is_terminating() && !self.leftovers.contains_key(&uid) {
            return;
        }
        if !pod.spec.os.is_supported() && !pod.is_terminating() {
            let message = "Failed to admit pod as the OS field doesn't match node OS";
            return self.refuse(&key, pod, "PodOSNotSupported", message).await;
        }
        let pods_max = self.context.settings.pods_max;
        if self.pods.len() >= pods_max {
            let message = format!(
                "Node didn't have enough resource: pods, requested: 1, used: {pods_max}, capacity: {pods_max}"
            );
            return self.refuse(&key, pod, "OutOfpods", &message).await;
        }
        self.start_worker(Arc::clone(pod), None);
    }

    /// Tells the workers of the API's Pods of that name, but not the one with the UID `except`.
    fn tell(&self, key: &ObjectKey, except: Option<&str>, wanted: &Wanted) {
        for (uid, (its_key, worker)) in &self.pods {
            if its_key == key && Some(uid.as_str()) != except && !self.static_pods.has(uid) {
                worker.send_replace(wanted.clone());
            }
        }
    }

    fn worker_ended(
        &mut self,
        ended: Result<String, tokio::task::JoinError>,
        events: &mut mpsc::Receiver<Event<Pod>>,
    ) {
        match ended {
            Ok(uid) => {
                self.pods.remove(&uid);
                if self.static_pods.ended(&uid) {
                    self.settle_static_pods();
                }
            }
            // One Pod's fault stays with it; the others' workers go on. It is started anew at its next change.
            Err(error) => {
                tracing::error!(%error, waiting = events.len(), "a Pod's worker broke");
                let broken = self.pods.extract_if(|_, (_, worker)| worker.is_closed());
                for (uid, _) in broken.collect::<Vec<_>>() {
                    self.static_pods.ended(&uid);
                }
            }
        }
    }

    /// Fails a Pod that this node does not take, as upstream does.
    async fn refuse(&self, key: &ObjectKey, pod: &Pod, reason: &str, message: &str) {
        let path = format!("{}/{}/status", Pod::collection(Some(&key.namespace)), key.name);
        let body = json!({"metadata": {"uid": pod.metadata.uid}, "status": status::refused(reason, message)});
        let told = self
            .context
            .client
            .request(Method::PATCH, &path, STRATEGIC_PATCH, Some(&body))
            .await;
        if let Err(error) = told {
            tracing::warn!(pod = %key, %error, "refusing a Pod");
        }
    }

    fn remove_unknown_links(&self) {
        let known: Vec<_> = self
            .leftovers
            .keys()
            .filter_map(|uid| network::link_name(uid).ok())
            .collect();
        match network::remove_unknown(&known) {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => tracing::info!(?removed, "links of Pods without a record"),
            Err(error) => tracing::warn!(%error, "looking for links of Pods without a record"),
        }
    }

    async fn end(mut self) {
        for (_, worker) in self.pods.values() {
            worker.send_replace(Wanted::AgentEnds);
        }
        let grace = match self.context.settings.at_end {
            crate::AtEnd::EndPods { grace } => grace,
            crate::AtEnd::KeepPods => Duration::ZERO,
        };
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(grace + END_PATIENCE, all).await.is_err() {
            tracing::warn!("not all Pods have ended in time");
        }
    }
}

async fn sleep_until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
