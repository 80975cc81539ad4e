//! Start of the agent: checks, registration of the Node, shared state, then the sync loop.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};

use ::images::ImageStore;
use client::events::{EventQueue, EventRecorder};
use client::{Client, WallClock};
use ipnet::IpNet;
use rustix::thread::CapabilitySet;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

use crate::confinement::user_namespaces::IdMaps;
use crate::confinement::user_namespaces::ranges::RangePool;
use crate::containers::services::Services;
use crate::images::image_access::ImageAccess;
use crate::images::image_puller::ImagePuller;
use crate::images::images_in_use::ImagesInUse;
use crate::network::addresses::{AddressError, AddressPool};
use crate::network::resolv_conf::ResolvConf;
use crate::node::registration::{known_pod_cidrs, register, register_in_background};
use crate::pods::context::{Context, NodeImages};
use crate::pods::leftovers;
use crate::pods::state_directory::{StateDirectory, StateError};
use crate::pods::sync_loop::SyncLoop;
use crate::resources::cgroups::Cgroups;
use crate::resources::stats::Stats;
use crate::settings::Settings;
use crate::{network, node, server};

/// Mount path of ServiceAccount tokens in containers.
const TOKEN_DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Reason why an agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The process lacks a capability that network namespaces and links need. Retries do not help.
    #[error("not permitted: the capability {capability} is missing (run as root, or grant it)")]
    NotPermitted {
        /// Name of the capability.
        capability: &'static str,
    },
    /// The capabilities of the process cannot be read.
    #[error("this process's capabilities: {0}")]
    Capabilities(std::io::Error),
    /// The state directory cannot be used.
    #[error("state directory: {0}")]
    State(#[from] StateError),
    /// The links and addresses of the node cannot be read.
    #[error("the node's network: {0}")]
    Network(#[from] netlink::route::RouteError),
    /// The Pod ranges of the node are invalid.
    #[error(transparent)]
    Ranges(#[from] AddressError),
    /// The TLS configuration for probes cannot be built. Retries do not help.
    #[error("TLS for probes: {0}")]
    Tls(#[from] rustls::Error),
    /// The endpoint for the API server cannot be served.
    #[error("cannot serve the API server: {0}")]
    Server(#[from] server::ServerError),
    /// The Node has other Pod ranges than the agent assumed without the API. A restart uses the new ones.
    #[error(
        "the Node has podCIDRs {now:?}, the agent started Pods with others; a restart of the agent uses the Node's"
    )]
    RangesChanged {
        /// Pod ranges of the Node.
        now: Vec<IpNet>,
    },
    /// The node has no address at which others reach it.
    #[error("this node has no address beyond the loopback link; name one with --node-ip")]
    NoAddress,
}

/// Runs the Pods of this node in the calling process's network namespace, until `shutdown` completes.
///
/// The process must be root, or root of a user namespace. Pods keep running while the API server is unreachable.
///
/// # Errors
/// See [`AgentError`].
pub async fn run(
    client: Client,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), AgentError> {
    check_capabilities()?;
    let state = StateDirectory::open(&settings.state_directory)?;
    let host_ips = match settings.node_ips.as_slice() {
        [] => network::node_addresses()?,
        configured => configured.to_vec(),
    };
    if host_ips.is_empty() {
        return Err(AgentError::NoAddress);
    }
    create_token_directory();
    let network = tokio::task::spawn_blocking(prepare_network);
    tokio::pin!(shutdown);
    // Pods need both, and the Node is registered while the kernel changes the network.
    let prepared = async {
        tokio::try_join!(
            prepare(client, settings, host_ips, state),
            wait_for_network(network)
        )
    };
    let ((context, background, ranges_changed), ()) = tokio::select! {
        prepared = prepared => prepared?,
        () = &mut shutdown => return Ok(()),
    };
    let leftovers = leftovers::find(&context).await?;
    if let Err(error) = network::host_ports::watch(&context.host_ports) {
        tracing::warn!(%error, "host port rules not watched; changes by other programs are not restored");
    }
    let mut sync_loop = SyncLoop::new(Arc::new(context), leftovers);
    sync_loop.delete_orphaned_links();
    sync_loop.start_static_pods().await;
    let outcome = tokio::select! {
        () = sync_loop.run(&mut shutdown) => Ok(()),
        Ok(now) = ranges_changed => Err(AgentError::RangesChanged { now }),
    };
    sync_loop.shut_down().await;
    drop(background);
    outcome
}

/// Prepares the network of the node for Pods. Blocks.
fn prepare_network() -> Result<(), AgentError> {
    network::prepare_node();
    Ok(network::validate_existing_links()?)
}

async fn wait_for_network(preparation: JoinHandle<Result<(), AgentError>>) -> Result<(), AgentError> {
    match preparation.await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime shuts down, and with it this agent.
        Err(_) => std::future::pending().await,
    }
}

/// Creates the mount path of tokens on the node.
///
/// Nearly every container mounts a token there. A mount point that the node lacks costs each container a copy of the
/// directory tree above it.
fn create_token_directory() {
    if let Err(error) = std::fs::create_dir_all(TOKEN_DIRECTORY) {
        tracing::debug!(path = TOKEN_DIRECTORY, %error, "mount path of tokens not created on the node");
    }
}

/// Checks the capabilities that every Pod needs. [`run`] does so, too.
///
/// # Errors
///
/// [`AgentError::NotPermitted`] if one is missing, [`AgentError::Capabilities`] if they cannot be read.
pub fn check_capabilities() -> Result<(), AgentError> {
    let effective = rustix::thread::capabilities(None)
        .map_err(|error| AgentError::Capabilities(error.into()))?
        .effective;
    let needed = [
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
    ];
    let missing = needed
        .iter()
        .find(|(capability, _)| !effective.contains(*capability));
    match missing {
        Some((_, capability)) => Err(AgentError::NotPermitted { capability }),
        None => Ok(()),
    }
}

/// Builds the shared state and starts the background tasks, which end with the returned set.
///
/// Registers the Node first if the Pod ranges are unknown. The receiver gets the Pod ranges of the Node if they differ
/// from those in use.
async fn prepare(
    client: Client,
    settings: Settings,
    host_ips: Vec<IpAddr>,
    state: StateDirectory,
) -> Result<(Context, JoinSet<()>, oneshot::Receiver<Vec<IpNet>>), AgentError> {
    let mut background = JoinSet::new();
    let cgroups = Cgroups::open();
    // A Node that is ready answers the API server.
    start_server(&settings, &state, cgroups.as_ref().ok(), &mut background).await?;
    let mut pod_cidrs = known_pod_cidrs(&settings, &state);
    if pod_cidrs.is_empty() {
        pod_cidrs = register(&client, &settings, &host_ips, &state).await;
    }
    let (changed, ranges_changed) = oneshot::channel();
    background.spawn(register_in_background(
        client.clone(),
        settings.clone(),
        host_ips.clone(),
        state.clone(),
        pod_cidrs.clone(),
        changed,
    ));
    let (services, watch) = Services::watch(&client);
    background.spawn(async move {
        if let Err(error) = watch.await {
            tracing::error!(%error, "watch of Services ended");
        }
    });
    let recorder = EventRecorder::new(client.clone(), WallClock::system());
    let (events, write_events) = EventQueue::new(recorder);
    background.spawn(write_events);
    let images = open_images(&settings, &state, &mut background)?;
    let context = Context {
        host_resolv_conf: read_resolv_conf(&settings),
        addresses: Mutex::new(AddressPool::new(pod_cidrs)?),
        host_ports: Arc::default(),
        id_ranges: Mutex::new(RangePool::new(settings.pods_max, &IdMaps::own())),
        client,
        settings,
        host_ips,
        services,
        state,
        events,
        status_pace: Arc::default(),
        capacity: node::capacity(),
        cgroups,
        probe_tls: Arc::new(trust::client_config_without_verification()?),
        images,
    };
    if let Err(error) = &context.cgroups {
        tracing::warn!(%error, "limits of Pods not enforced");
    }
    Ok((context, background, ranges_changed))
}

/// Starts the endpoint for the API server, if the settings have one, and the measurements that it reports.
async fn start_server(
    settings: &Settings,
    state: &StateDirectory,
    cgroups: Option<&Cgroups>,
    background: &mut JoinSet<()>,
) -> Result<(), AgentError> {
    let Some(server_settings) = &settings.server else {
        return Ok(());
    };
    let stats = Stats::default();
    background.spawn(stats.clone().measure(state.clone(), cgroups.cloned()));
    let reports = server::NodeReports {
        node_name: settings.node_name.clone(),
        reports: settings.reports.clone(),
        stats,
    };
    let server = server::Server::start(server_settings, state.clone(), reports).await?;
    background.spawn(server.serve());
    Ok(())
}

/// Returns the images of the node, if the settings have a store, and starts the removal of unused ones.
fn open_images(
    settings: &Settings,
    state: &StateDirectory,
    background: &mut JoinSet<()>,
) -> Result<Option<NodeImages>, StateError> {
    let Some(settings) = &settings.image_store else {
        return Ok(None);
    };
    let images = node_images(&settings.store, state)?;
    let in_use = Arc::clone(&images.in_use);
    background.spawn(async move { in_use.collect_garbage().await });
    Ok(Some(images))
}

/// Returns the images of the node. Containers that an earlier agent started keep theirs.
fn node_images(store: &ImageStore, state: &StateDirectory) -> Result<NodeImages, StateError> {
    let mut held = BTreeMap::new();
    for record in state.records()?.0 {
        let checkpoint = state.pod(&record.uid)?.read_checkpoint().unwrap_or_default();
        for (container, checkpoint) in checkpoint {
            if let Some(image) = checkpoint.image() {
                held.insert((record.uid.clone(), container), image.id.clone());
            }
        }
    }
    let in_use = Arc::new(ImagesInUse::new(store.clone(), held));
    in_use.record();
    let access = Arc::new(ImageAccess::open(state.image_access()));
    Ok(NodeImages {
        store: store.clone(),
        puller: ImagePuller::new(store.clone(), Arc::clone(&access)),
        access,
        in_use,
    })
}

fn read_resolv_conf(settings: &Settings) -> ResolvConf {
    let path = &settings.host_resolv_conf;
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| {
        tracing::warn!(path = %path.display(), %error, "no resolv.conf for Pods with dnsPolicy Default");
        String::new()
    });
    ResolvConf::parse(&text)
}
