//! The whole agent: Node, leftovers, watches, workers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::object::{ObjectKey, Resource};
use client::{Client, Event, Query, STRATEGIC_PATCH};
use http::Method;
use rustix::thread::CapabilitySet;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::cgroups::Cgroups;
use crate::events::Events;
use crate::network::addresses::{AddressError, AddressPool};
use crate::object::Pod;
use crate::resolv_conf::ResolvConf;
use crate::runtime::Sandbox;
use crate::services::Services;
use crate::settings::{PODS_MAX, Settings};
use crate::state_directory::{Record, StateDirectory, StateError};
use crate::worker::{self, Context, Leftover, Wanted, remove_leftover};
use crate::{network, node, serving, status};

/// Events of Pods that wait to be looked at.
const EVENTS_MAX: usize = 256;
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
    Tls(#[from] client::ConfigError),
    /// The endpoint for the API server cannot be served.
    #[error("serving the API server: {0}")]
    Serving(#[from] serving::ServingError),
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
    tokio::pin!(end);
    let ready = prepare(client, settings, host_ips, state);
    let (context, background) = tokio::select! {
        ready = ready => ready?,
        () = &mut end => return Ok(()),
    };
    let mut agent = Agent {
        leftovers: find_leftovers(&context).await?,
        context: Arc::new(context),
        pods: HashMap::new(),
        tasks: JoinSet::new(),
    };
    agent.remove_unknown_links();
    agent.serve(&mut end).await;
    agent.end().await;
    drop(background);
    Ok(())
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

/// Registers the Node and makes what workers share. The tasks end with the returned set.
async fn prepare(
    client: Client,
    settings: Settings,
    host_ips: Vec<IpAddr>,
    state: StateDirectory,
) -> Result<(Context, JoinSet<()>), AgentError> {
    node::register(&client, &settings, &host_ips).await;
    let ranges = node::pod_cidrs(&client, &settings.node_name).await;
    tracing::info!(node = settings.node_name, podCIDRs = ?ranges, addresses = ?host_ips, "registered");
    let mut background = JoinSet::new();
    background.spawn(node::heartbeat(
        client.clone(),
        settings.clone(),
        host_ips.clone(),
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
        client,
        settings,
        host_ips,
        services,
        state,
        events,
        capacity: node::capacity(),
        cgroups: Cgroups::open().map_err(|error| error.to_string()),
        probe_tls: Arc::new(client::tls_without_verification()?),
    };
    if let Err(why) = &context.cgroups {
        tracing::warn!(why, "the limits of Pods are not enforced");
    }
    Ok((context, background))
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
        let mut pool = context.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if !addresses.is_empty() && !pool.reserve(&addresses) {
            tracing::warn!(
                uid = record.uid,
                ?addresses,
                "a Pod's addresses are not of this node's ranges"
            );
            if sandbox.is_none() {
                addresses.clear();
            }
        }
        drop(pool);
        leftovers.insert(record.uid.clone(), (record, Leftover { sandbox, addresses }));
    }
    Ok(leftovers)
}

struct Agent {
    context: Arc<Context>,
    leftovers: Leftovers,
    /// The worker of each Pod, by UID, and the Pod's key.
    pods: HashMap<String, (ObjectKey, watch::Sender<Wanted>)>,
    /// Workers; each ends with its Pod's UID.
    tasks: JoinSet<String>,
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
                () = &mut *end => return,
            }
        }
    }

    async fn apply(&mut self, event: Event<Pod>) {
        match event {
            Event::Applied(pod) => self.apply_pod(pod).await,
            Event::Deleted(key) => self.tell(&key, None, &Wanted::Gone),
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
        if self.pods.len() >= PODS_MAX {
            return self.refuse(&key, pod).await;
        }
        let leftover = self.leftovers.remove(&uid).map(|(_, leftover)| leftover);
        let (sender, receiver) = watch::channel(wanted);
        let context = Arc::clone(&self.context);
        self.pods.insert(uid.clone(), (key, sender));
        self.tasks.spawn(async move {
            worker::run(context, receiver, leftover).await;
            uid
        });
    }

    /// Tells the workers of the Pods of that name, but not the one with the UID `except`.
    fn tell(&self, key: &ObjectKey, except: Option<&str>, wanted: &Wanted) {
        for (uid, (its_key, worker)) in &self.pods {
            if its_key == key && Some(uid.as_str()) != except {
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
            }
            // One Pod's fault stays with it; the others' workers go on. It is started anew at its next change.
            Err(error) => {
                tracing::error!(%error, waiting = events.len(), "a Pod's worker broke");
                self.pods.retain(|_, (_, worker)| !worker.is_closed());
            }
        }
    }

    /// More Pods than this node takes: the Pod fails, as upstream's do.
    async fn refuse(&self, key: &ObjectKey, pod: &Pod) {
        let message = format!(
            "Node didn't have enough resource: pods, requested: 1, used: {PODS_MAX}, capacity: {PODS_MAX}"
        );
        let path = format!("{}/{}/status", Pod::collection(Some(&key.namespace)), key.name);
        let body =
            json!({"metadata": {"uid": pod.metadata.uid}, "status": status::refused("OutOfpods", &message)});
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
