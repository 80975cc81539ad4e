//! Bringing a Pod up: its network, its sandbox, its containers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use client::ClientError;
use jiff::{SignedDuration, Timestamp};

use super::{RefreshTask, Worker};
use crate::cgroups::{CgroupError, Limits};
use crate::confinement::confinement;
use crate::echo;
use crate::environment::{
    EnvironmentError, PodFacts, SourceKind, Sources, Variables, container_variables, expand, referenced,
};
use crate::images::{Entrypoint, ImageUser};
use crate::network;
use crate::network::addresses::AddressError;
use crate::object::Container;
use crate::resolv_conf::{for_pod, kernel_hostname};
use crate::runtime::{RuntimeError, Sandbox};
use crate::sandbox::protocol::Program;
use crate::sandbox::{self, OWN_PROGRAM};
use crate::state_directory::{Record, StateError};
use crate::user_namespaces::{Holder, UserNamespaceError};
use crate::volumes::{VolumeError, Volumes, prepare_memory, read_object};

/// Why a Pod has no sandbox.
#[derive(Debug, thiserror::Error)]
pub(super) enum SandboxError {
    /// No address is left.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The state directory is full or read-only.
    #[error(transparent)]
    State(#[from] StateError),
    /// The kernel's network refused.
    #[error("network: {0}")]
    Network(#[from] netlink::route::RouteError),
    /// The sandbox did not start.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The user namespace was not created.
    #[error(transparent)]
    Users(#[from] UserNamespaceError),
    /// The network was not made because this process ends.
    #[error("this process is ending")]
    Ending,
}

/// How long a Pod waits until its network or its volumes are tried again.
const SANDBOX_PAUSE: SignedDuration = SignedDuration::from_secs(2);

/// Why a container was not started: what its status says.
struct NotStarted {
    reason: &'static str,
    message: String,
}

impl Worker {
    /// Starts the containers whose time has come, and the sandbox before the first of them.
    pub(super) async fn start_due(&mut self) {
        let due = self.containers.due(Timestamp::now());
        if self.sandbox.is_some() && self.wants_users() && self.users.is_none() {
            // An agent without user namespaces started it; it rejected all containers.
            self.remove_sandbox().await;
        }
        if self.sandbox.is_none() {
            // ENV-10: a Pod is not started before Services were listed, if it is not a static one.
            if !self.is_static {
                self.context.services.synced().await;
            }
            let holder = match self.create_user_namespace().await {
                Ok(holder) => holder,
                Err(error) => return self.sandbox_failed(&due, &error).await,
            };
            if let Err(failed) = prepare_memory(&self.directory.volumes(), &self.pod, self.users) {
                let (name, error) = *failed;
                return self.volume_failed(&due, &name, &error);
            }
            if let Err(error) = self.start_sandbox(holder).await {
                return self.sandbox_failed(&due, &error).await;
            }
        }
        if self.volumes.is_none()
            && let Err((name, error)) = self.prepare_volumes().await
        {
            return self.volume_failed(&due, &name, &error);
        }
        for name in due {
            match self.start_container(&name).await {
                Ok(()) => {
                    let events = self.events.of_container(&name);
                    events.normal("Created", format!("Created container: {name}"));
                    events.normal("Started", format!("Started container {name}"));
                    self.container_started(&name);
                }
                Err(NotStarted { reason, message }) => {
                    tracing::info!(pod = %self.key, container = name, reason, message, "a container waits");
                    let events = self.events.of_container(&name);
                    events.warning("Failed", format!("Error: {message}"));
                    self.containers
                        .failed_to_start(&name, reason, message, Timestamp::now());
                }
            }
        }
    }

    async fn sandbox_failed(&mut self, due: &[String], error: &SandboxError) {
        tracing::warn!(pod = %self.key, %error, "starting the Pod's sandbox");
        self.remove_sandbox().await;
        let message = format!("Failed to create pod sandbox: {error}");
        self.events.warning("FailedCreatePodSandBox", message.clone());
        self.hold_up(due, &message);
    }

    fn volume_failed(&mut self, due: &[String], name: &str, error: &VolumeError) {
        let message = format!("MountVolume.SetUp failed for volume {name:?} : {error}");
        tracing::info!(pod = %self.key, message, "a Pod waits");
        self.events.warning("FailedMount", message.clone());
        self.hold_up(due, &message);
    }

    /// None of them can be started yet, for which none of them can do anything.
    fn hold_up(&mut self, names: &[String], message: &str) {
        let now = Timestamp::now();
        let due = now.checked_add(SANDBOX_PAUSE).unwrap_or(now);
        for name in names {
            self.containers.hold_up(name, message.to_owned(), due);
        }
    }

    /// What the next agent finds of this Pod.
    pub(super) fn record(&self) -> Record {
        let meta = &self.pod.metadata;
        Record {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            addresses: self.addresses.clone(),
            is_static: self.is_static,
            users: self.users,
        }
    }

    async fn prepare_volumes(&mut self) -> Result<(), (String, VolumeError)> {
        let directory = self.directory.volumes();
        let client = self.context.client.clone();
        let hidden = self.context.settings.hidden_paths();
        let (pod, users) = (Arc::clone(&self.pod), self.users);
        let mut volumes = Volumes::new(directory, client, pod, self.facts(), hidden, users);
        let places = volumes.prepare().await?;
        if volumes.can_change() {
            self.refreshing = Some(RefreshTask(tokio::spawn(volumes.keep_fresh()).abort_handle()));
        }
        self.volumes = Some(places);
        Ok(())
    }

    fn facts(&self) -> PodFacts {
        PodFacts {
            host_ips: self.context.host_ips.clone(),
            pod_ips: self.pod_ips(),
            capacity: self.context.capacity,
        }
    }

    async fn start_sandbox(&mut self, holder: Option<Holder>) -> Result<(), SandboxError> {
        let pod = &self.pod;
        if !pod.spec.host_network && self.addresses.is_empty() {
            let mut pool = self.context.pool.lock().unwrap_or_else(PoisonError::into_inner);
            self.addresses = pool.allocate()?;
        }
        self.directory.create(&self.record())?;
        let cluster_dns = &self.context.settings.cluster_dns;
        let (resolv_conf, warnings) = for_pod(pod, cluster_dns, &self.context.host_resolv_conf);
        for message in warnings {
            self.events.warning("DNSConfigForming", message);
        }
        let namespace = if pod.spec.host_network {
            None
        } else {
            let gateways = {
                let pool = self.context.pool.lock().unwrap_or_else(PoisonError::into_inner);
                pool.gateways()
            };
            let (link, addresses) = (self.link.clone(), self.addresses.clone());
            let own = holder.as_ref().map(Holder::network).transpose()?;
            let connect = move || match own {
                Some(own) => network::connect_to(&own, &link, &addresses, &gateways).map(|()| own),
                None => network::connect(&link, &addresses, &gateways),
            };
            Some(
                tokio::task::spawn_blocking(connect)
                    .await
                    .map_err(|_| SandboxError::Ending)??,
            )
        };
        let settings = sandbox::Settings {
            socket: self.directory.socket(),
            hostname: (!pod.spec.host_network).then(|| kernel_hostname(pod, cluster_dns)),
            resolv_conf: self.directory.write("resolv.conf", &resolv_conf.render())?,
            hidden: self.context.settings.hidden_paths(),
            namespaces_of: holder.as_ref().map(Holder::pid),
        };
        let sandbox = Sandbox::start(&self.directory, &settings, namespace.as_ref()).await?;
        self.sandbox = Some(sandbox);
        Ok(())
    }

    async fn start_container(&self, name: &str) -> Result<(), NotStarted> {
        let mut all = self.pod.spec.all_containers();
        let (Some(container), Some(sandbox)) = (all.find(|c| c.name == name), &self.sandbox) else {
            return Err(NotStarted {
                reason: "CreateContainerError",
                message: format!("the Pod has no container {name} any more"),
            });
        };
        let image = self.context.settings.images.entrypoint(&container.image);
        let entrypoint = image.map_err(|error| NotStarted {
            reason: "ErrImagePull",
            message: error.to_string(),
        })?;
        let environment = self.environment(container).await.map_err(|error| NotStarted {
            reason: "CreateContainerConfigError",
            message: error.to_string(),
        })?;
        let none = BTreeMap::new();
        let volumes = self.volumes.as_ref().unwrap_or(&none);
        let profiles = self.context.state.seccomp_profiles();
        // A command of the Pod's own is not the image's program.
        let image_user = match container.command.is_empty() {
            true => entrypoint.user(self.pod.spec.host_network),
            false => ImageUser::Root,
        };
        let confinement = confinement(
            &self.pod,
            container,
            volumes,
            &environment,
            image_user,
            &profiles,
            self.users,
        );
        let mut confinement = confinement.map_err(|error| NotStarted {
            reason: "CreateContainerConfigError",
            message: error.to_string(),
        })?;
        confinement.staging = self.directory.staging().map_err(|error| NotStarted {
            reason: "CreateContainerError",
            message: error.to_string(),
        })?;
        confinement.cgroups = self.hold_to_limits(container).map_err(|error| NotStarted {
            reason: "CreateContainerError",
            message: error.to_string(),
        })?;
        let program = Program {
            command: self.command(container, entrypoint, &environment),
            environment,
            directory: container.working_dir.clone(),
            confinement,
        };
        let log = self.directory.prepare_log(name, self.containers.next_run(name));
        let log = log.map_err(|error| NotStarted {
            reason: "CreateContainerError",
            message: error.to_string(),
        })?;
        let started = sandbox.start_container(name, program, &log).await;
        started.map_err(|error| NotStarted {
            reason: "RunContainerError",
            message: format!("failed to start container {name:?}: {error}"),
        })
    }

    /// The control groups of a container; none, and a word of that, where there are none to be had.
    fn hold_to_limits(&self, container: &Container) -> Result<Vec<PathBuf>, CgroupError> {
        let limits = Limits::of(container, self.context.settings.pids_max);
        match &self.context.cgroups {
            Ok(cgroups) => cgroups.prepare(&self.pod.metadata.uid, &container.name, &limits),
            Err(why) => {
                if limits.are_asked_for() {
                    let message = format!(
                        "the limits of container {} are not enforced: {why}",
                        container.name
                    );
                    self.events
                        .of_container(&container.name)
                        .warning("LimitsNotEnforced", message);
                }
                Ok(Vec::new())
            }
        }
    }

    /// `command` goes before the image's own, `args` are appended; both with `$(VAR)` expanded.
    fn command(&self, container: &Container, image: Entrypoint, environment: &Variables) -> Vec<String> {
        let expanded = |words: &[String]| -> Vec<String> {
            words
                .iter()
                .map(|word| expand(word, |name| environment.get(name).map(String::as_str)))
                .collect()
        };
        let mut command = match image {
            _ if !container.command.is_empty() => expanded(&container.command),
            Entrypoint::Command(command) => command,
            // The echo server has arguments of its own and takes no others.
            Entrypoint::Echo => return self.echo_command(container),
        };
        command.extend(expanded(&container.args));
        command
    }

    fn echo_command(&self, container: &Container) -> Vec<String> {
        let settings = echo::Settings {
            pod: self.pod.metadata.name.clone(),
            namespace: self.pod.metadata.namespace.clone(),
            node: self.context.settings.node_name.clone(),
            ports: container
                .ports
                .iter()
                .map(|p| (p.protocol, p.container_port))
                .collect(),
        };
        let mut command = vec![OWN_PROGRAM.to_owned(), echo::SUBCOMMAND.to_owned()];
        command.extend(settings.arguments());
        command
    }

    async fn environment(&self, container: &Container) -> Result<Variables, EnvironmentError> {
        let links = self.pod.spec.enable_service_links.unwrap_or(true);
        let namespace = &self.pod.metadata.namespace;
        let services = self.context.services.variables(namespace, links);
        let sources = self.sources(container).await;
        container_variables(&self.pod, container, &self.facts(), &services, &sources)
    }

    /// Reads the ConfigMaps and Secrets that the container refers to. Those that cannot be read are left out, and
    /// the container waits for them if it must.
    async fn sources(&self, container: &Container) -> Sources {
        let mut sources = Sources::new();
        for (kind, name) in referenced(container) {
            let key = (kind, name.to_owned());
            if sources.contains_key(&key) {
                continue;
            }
            match self.source(kind, name).await {
                Ok(values) => {
                    sources.insert(key, values);
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    tracing::warn!(pod = %self.key, %error, "reading what the environment refers to")
                }
            }
        }
        sources
    }

    async fn source(&self, kind: SourceKind, name: &str) -> Result<Variables, ClientError> {
        let read = read_object(&self.context.client, &self.pod.metadata.namespace, kind, name).await?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(read.into_iter().map(|(key, value)| (key, text(value))).collect())
    }

    /// Ends the sandbox, if there is one, and takes the network away; the addresses stay the Pod's.
    pub(super) async fn remove_sandbox(&mut self) {
        if let Some(sandbox) = self.sandbox.take()
            && let Err(error) = sandbox.kill().await
        {
            tracing::error!(pod = %self.key, %error, "ending the Pod's sandbox");
        }
        let link = self.link.clone();
        let gone = tokio::task::spawn_blocking(move || network::disconnect(&link)).await;
        match gone {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(pod = %self.key, %error, "taking the Pod's network away"),
            Err(error) => tracing::error!(pod = %self.key, %error, "taking the Pod's network away"),
        }
    }
}
