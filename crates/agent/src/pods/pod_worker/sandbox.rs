//! Sandbox of a Pod with its network: addresses, link, namespaces.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use netlink::route::{LinkName, NetworkNamespace, RouteError};

use super::PodContext;
use crate::confinement::sysctls::{self, ForbiddenSysctl};
use crate::confinement::user_namespaces::{Holder, UserNamespaceError};
use crate::network;
use crate::network::addresses::AddressError;
use crate::network::host_ports::{HostPort, HostPortError};
use crate::network::hosts_file;
use crate::network::resolv_conf::{for_pod, kernel_hostname};
use crate::pods::state_directory::{Record, StateError};
use crate::resources::cgroups;
use crate::runtime::{Executor, RuntimeError, Sandbox, SandboxEvent};
use crate::sandbox;
use crate::volumes::file_owners::PodUsers;

/// Host names of the node, which Pods in the host network share.
const HOSTS: &str = "/etc/hosts";

/// State of a sandbox that an earlier agent started.
pub(super) struct AdoptedState {
    pub addresses: Vec<IpAddr>,
    pub users: Option<PodUsers>,
    pub runs_images: bool,
    pub control_groups: Vec<PathBuf>,
}

/// Reason why a Pod has no sandbox. The worker retries.
#[derive(Debug, thiserror::Error)]
pub(super) enum SandboxError {
    /// All addresses are in use.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The state directory is full or read-only.
    #[error(transparent)]
    State(#[from] StateError),
    /// The kernel rejects the link, an address or a route.
    #[error("network: {0}")]
    Network(#[from] RouteError),
    /// A host port is taken, or the kernel rejects its rules.
    #[error(transparent)]
    HostPorts(#[from] HostPortError),
    /// The sandbox process does not start.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The user namespace cannot be created.
    #[error(transparent)]
    Users(#[from] UserNamespaceError),
    /// A static Pod, or one that an earlier agent admitted, has a sysctl that is not safe. The agent rejects others.
    #[error(transparent)]
    Sysctl(#[from] ForbiddenSysctl),
    /// The Pod has `hostPID`, and nothing could end its processes.
    #[error("hostPID needs control groups, which end the processes of the Pod: {reason}")]
    HostProcesses {
        /// Reason why the node has no control groups.
        reason: String,
    },
    /// The agent shuts down.
    #[error("the agent is shutting down")]
    Shutdown,
}

/// Sandbox and network of one Pod.
pub(super) struct PodSandbox {
    link: LinkName,
    /// Addresses of the Pod, from the first start of its sandbox to its end.
    pub(super) addresses: Vec<IpAddr>,
    /// User namespace of the Pod, from the first start of its sandbox to its end.
    pub(super) users: Option<PodUsers>,
    /// True if the sandbox process can start containers from images.
    pub(super) runs_images: bool,
    /// Ports of the node that lead to the Pod, from the first start of its sandbox to its end.
    pub(super) host_ports: Vec<HostPort>,
    /// Control groups of a Pod with `hostPID`, from the first start of its sandbox.
    control_groups: Vec<PathBuf>,
    running: Option<Sandbox>,
}

impl PodSandbox {
    /// Returns the sandbox of a Pod before its first start.
    ///
    /// # Errors
    /// [`RouteError`] if the name of the link is invalid.
    pub(super) fn new(uid: &str) -> Result<Self, RouteError> {
        Ok(Self {
            link: network::link_name(uid)?,
            addresses: Vec::new(),
            users: None,
            runs_images: false,
            host_ports: Vec::new(),
            control_groups: Vec::new(),
            running: None,
        })
    }

    /// Takes over the sandbox, addresses and host IDs of an earlier agent.
    pub(super) fn adopt(&mut self, sandbox: Option<Sandbox>, leftover: AdoptedState) {
        self.running = sandbox;
        self.addresses = leftover.addresses;
        self.users = leftover.users;
        self.runs_images = leftover.runs_images;
        self.control_groups = leftover.control_groups;
    }

    /// Returns true if the sandbox process runs.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the handle of the sandbox process.
    pub(super) fn process(&self) -> Option<&Sandbox> {
        self.running.as_ref()
    }

    /// Returns the executor of commands in the containers.
    pub(super) fn executor(&self) -> Option<Executor> {
        self.running.as_ref().map(Sandbox::executor)
    }

    /// Waits for the next event. Without a sandbox process, it never completes.
    pub(super) async fn next_event(&mut self) -> SandboxEvent {
        match &mut self.running {
            Some(sandbox) => sandbox.next_event().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the addresses in the Pod's status. A Pod in the host network has the addresses of the node.
    pub(super) fn pod_ips(&self, context: &PodContext) -> Vec<IpAddr> {
        if context.pod.spec.host_network {
            context.agent.host_ips.clone()
        } else {
            self.addresses.clone()
        }
    }

    /// Returns the record of the Pod for the next agent.
    pub(super) fn record(&self, context: &PodContext) -> Record {
        let meta = &context.pod.metadata;
        Record {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            addresses: self.addresses.clone(),
            is_static: context.is_static,
            users: self.users,
            runs_images: self.runs_images,
            host_ports: self.host_ports.clone(),
            control_groups: self.control_groups.clone(),
        }
    }

    /// Creates the network and starts the sandbox process, in the namespaces of `holder` if the Pod has a
    /// user namespace.
    ///
    /// # Errors
    /// See [`SandboxError`]. Call [`PodSandbox::remove`] afterwards, because the network may exist.
    pub(super) async fn start(
        &mut self,
        context: &PodContext,
        holder: Option<Holder>,
    ) -> Result<(), SandboxError> {
        let (agent, pod) = (&context.agent, &context.pod);
        let shares_processes = pod.spec.host_pid && holder.is_none();
        if shares_processes {
            self.end_host_processes();
            self.control_groups = control_groups(context)?;
        }
        if !pod.spec.host_network && self.addresses.is_empty() {
            self.addresses = agent.addresses().allocate()?;
        }
        if !pod.spec.host_network {
            self.host_ports = HostPort::of_pod(pod, &self.addresses);
        }
        let images = agent
            .settings
            .image_store
            .as_ref()
            .map(|images| images.directory.clone());
        self.runs_images = images.is_some();
        context.directory.create(&self.record(context))?;
        let cluster_dns = &agent.settings.cluster_dns;
        let (resolv_conf, warnings) = for_pod(pod, cluster_dns, &agent.host_resolv_conf);
        for message in warnings {
            context.events.warning("DNSConfigForming", message);
        }
        let namespace = if pod.spec.host_network {
            None
        } else {
            Some(self.create_network(context, holder.as_ref()).await?)
        };
        self.open_host_ports(context).await?;
        let settings = sandbox::Settings {
            socket: context.directory.socket(),
            hostname: (!pod.spec.host_network).then(|| kernel_hostname(pod, cluster_dns)),
            resolv_conf: context.directory.write("resolv.conf", &resolv_conf.render())?,
            hidden: agent.settings.hidden_paths(),
            namespaces_of: holder.as_ref().map(Holder::pid),
            images,
            shares_ipc: pod.spec.host_ipc,
            shares_processes,
            sysctls: sysctls::of_pod(&pod.spec)?,
        };
        self.write_files(context, settings.hostname.as_deref())?;
        let started = Sandbox::start(&context.directory, &settings, namespace.as_ref()).await?;
        self.running = Some(started);
        Ok(())
    }

    /// Writes the files of the Pod that containers from images see in `/etc`, beside resolv.conf.
    fn write_files(&self, context: &PodContext, hostname: Option<&str>) -> Result<(), StateError> {
        let (agent, pod) = (&context.agent, &context.pod);
        let host_file = if pod.spec.host_network {
            fs::read_to_string(HOSTS).unwrap_or_default()
        } else {
            String::new()
        };
        let hosts = hosts_file::for_pod(pod, &agent.settings.cluster_dns, &self.addresses, &host_file);
        context.directory.write("hosts", &hosts)?;
        let node_hostname = rustix::system::uname();
        let node_hostname = node_hostname.nodename().to_string_lossy();
        let hostname = hostname.unwrap_or(&node_hostname);
        context
            .directory
            .write("hostname", &format!("{hostname}\n"))
            .map(drop)
    }

    /// Creates the network namespace, unless the holder has one, and connects it with the node.
    async fn create_network(
        &self,
        context: &PodContext,
        holder: Option<&Holder>,
    ) -> Result<NetworkNamespace, SandboxError> {
        let gateways = context.agent.addresses().gateways();
        let (link, addresses) = (self.link.clone(), self.addresses.clone());
        let held = holder.map(Holder::network).transpose()?;
        let connect = move || match held {
            Some(held) => network::connect_namespace(&held, &link, &addresses, &gateways).map(|()| held),
            None => network::create_namespace(&link, &addresses, &gateways),
        };
        let connected = tokio::task::spawn_blocking(connect).await;
        Ok(connected.map_err(|_| SandboxError::Shutdown)??)
    }

    /// Ends the processes of a Pod with `hostPID`, which outlive its sandbox.
    fn end_host_processes(&self) {
        cgroups::remove_groups(&self.control_groups);
    }

    async fn open_host_ports(&self, context: &PodContext) -> Result<(), SandboxError> {
        if self.host_ports.is_empty() {
            return Ok(());
        }
        network::route_loopback(&self.link);
        let uid = &context.pod.metadata.uid;
        let added = context.agent.add_host_ports(uid, self.host_ports.clone()).await;
        Ok(added.ok_or(SandboxError::Shutdown)??)
    }

    /// Kills the sandbox process, if it runs, and deletes the network. The Pod keeps its addresses.
    pub(super) async fn remove(&mut self, context: &PodContext) {
        if let Some(sandbox) = self.running.take()
            && let Err(error) = sandbox.kill().await
        {
            tracing::error!(pod = %context.key, %error, "sandbox not killed");
        }
        self.end_host_processes();
        context.agent.remove_host_ports(&context.pod.metadata.uid).await;
        let link = self.link.clone();
        match tokio::task::spawn_blocking(move || network::disconnect(&link)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(pod = %context.key, %error, "link of a Pod not deleted"),
            Err(error) => tracing::error!(pod = %context.key, %error, "link of a Pod not deleted"),
        }
    }
}

/// Returns the control groups of a Pod with `hostPID`.
fn control_groups(context: &PodContext) -> Result<Vec<PathBuf>, SandboxError> {
    match &context.agent.cgroups {
        Ok(cgroups) => Ok(cgroups.of_pod(&context.pod.metadata.uid)),
        Err(error) => Err(SandboxError::HostProcesses {
            reason: error.to_string(),
        }),
    }
}
