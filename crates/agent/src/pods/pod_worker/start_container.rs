//! Program of a container: entrypoint, environment, confinement and limits (kubelet's `kuberuntime_container.go`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use client::ClientError;

use super::PodContext;
use super::image::ImageSource;
use crate::confinement::{ConfinementError, check_image_user, confinement};
use crate::containers::environment::{
    EnvironmentError, PodFacts, SourceKind, Sources, Variables, container_variables, expand_words,
    referenced_sources,
};
use crate::echo;
use crate::images::image_table::{Entrypoint, ImageUser};
use crate::object::Container;
use crate::pods::state_directory::StateError;
use crate::resources::cgroups::{CgroupError, Limits};
use crate::runtime::RuntimeError;
use crate::sandbox::SELF_EXE;
use crate::sandbox::protocol::{Program, StandardStreams};
use crate::volumes::file_owners::PodUsers;
use crate::volumes::read_variables;

/// Reason why a container does not start. The message goes into its status; the worker retries with back-off.
#[derive(Debug, thiserror::Error)]
pub(super) enum ContainerStartError {
    #[error("the Pod has no container {name} any more")]
    Missing { name: String },
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    #[error(transparent)]
    Confinement(#[from] ConfinementError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Cgroups(#[from] CgroupError),
    #[error("the agent is shutting down")]
    Shutdown,
    #[error("the Pod was started by an agent without images; replace the Pod")]
    NoImages,
    #[error("failed to start container {name:?}: {source}")]
    Runtime { name: String, source: RuntimeError },
}

impl ContainerStartError {
    /// Returns the reason of the container's `waiting` state, as the kubelet writes it.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Environment(_) | Self::Confinement(_) => "CreateContainerConfigError",
            Self::Missing { .. } | Self::State(_) | Self::Cgroups(_) | Self::NoImages | Self::Shutdown => {
                "CreateContainerError"
            }
            Self::Runtime { .. } => "RunContainerError",
        }
    }
}

/// Inputs of a container's program.
pub(super) struct ContainerStart<'a> {
    pub image: &'a ImageSource,
    /// Restart count of the run.
    pub run: u32,
    pub context: &'a PodContext,
    pub container: &'a Container,
    pub facts: PodFacts,
    pub users: Option<PodUsers>,
    /// Paths of the Pod's volumes by name.
    pub volumes: BTreeMap<String, PathBuf>,
}

impl ContainerStart<'_> {
    /// Returns the program of the container, and creates its control groups.
    ///
    /// # Errors
    /// See [`ContainerStartError`].
    pub(super) async fn program(&self) -> Result<Program, ContainerStartError> {
        let agent = &self.context.agent;
        let environment = self.environment().await?;
        let image_user = match self.image {
            ImageSource::Store(image) => {
                check_image_user(&self.context.pod, self.container, &image.config.user)?;
                ImageUser::InImage
            }
            // A `command` of the Pod replaces the program of the image.
            ImageSource::Table(_) if !self.container.command.is_empty() => ImageUser::Root,
            ImageSource::Table(entrypoint) => entrypoint.user(self.context.pod.spec.host_network),
        };
        let mut confinement = confinement(
            &self.context.pod,
            self.container,
            &self.volumes,
            &environment,
            image_user,
            &agent.state.seccomp_profiles(),
            self.users,
        )?;
        let message_file = self.termination_mount(&confinement)?;
        confinement.mounts.extend(message_file);
        confinement.staging = self.context.directory.staging()?;
        confinement.cgroups = self.create_cgroups()?;
        let entrypoint = match self.image {
            ImageSource::Store(image) => {
                return self.image_program(image, environment, confinement).await;
            }
            ImageSource::Table(entrypoint) => entrypoint,
        };
        Ok(Program {
            closes_stdin_when_serving: *entrypoint == Entrypoint::Echo && self.container.command.is_empty(),
            command: self.command(entrypoint, &environment)?,
            environment,
            directory: self.container.working_dir.clone(),
            confinement,
            streams: self.streams(),
            processes_of: None,
        })
    }

    /// Returns the standard streams of the container.
    pub(super) fn streams(&self) -> StandardStreams {
        StandardStreams {
            has_input: self.container.stdin,
            is_input_for_one: self.container.stdin_once,
            has_terminal: self.container.tty,
        }
    }

    /// Creates the control groups of the container. On a node without control groups, an Event reports that limits are
    /// not enforced.
    fn create_cgroups(&self) -> Result<Vec<PathBuf>, CgroupError> {
        let (agent, name) = (&self.context.agent, &self.container.name);
        let limits = Limits::of(self.container, agent.settings.pids_max);
        match &agent.cgroups {
            Ok(cgroups) => cgroups.prepare(&self.context.pod.metadata.uid, name, &limits),
            Err(error) => {
                if limits.has_limits() {
                    let message = format!("the limits of container {name} are not enforced: {error}");
                    let events = self.context.events.for_container(name);
                    events.warning("LimitsNotEnforced", message);
                }
                Ok(Vec::new())
            }
        }
    }

    /// `command` replaces the image's command, `args` are appended. Both have `$(VAR)` expanded.
    fn command(
        &self,
        entrypoint: &Entrypoint,
        environment: &Variables,
    ) -> Result<Vec<String>, EnvironmentError> {
        let mut command = match entrypoint {
            _ if !self.container.command.is_empty() => expand_words(&self.container.command, environment)?,
            Entrypoint::Command(command) => command.clone(),
            // The echo server takes no arguments of the Pod.
            Entrypoint::Echo => return Ok(self.echo_command()),
        };
        command.extend(expand_words(&self.container.args, environment)?);
        Ok(command)
    }

    fn echo_command(&self) -> Vec<String> {
        let meta = &self.context.pod.metadata;
        let ports = self.container.ports.iter();
        let settings = echo::Settings {
            pod: meta.name.clone(),
            namespace: meta.namespace.clone(),
            node: self.context.agent.settings.node_name.clone(),
            ports: ports.map(|port| (port.protocol, port.container_port)).collect(),
        };
        let mut command = vec![SELF_EXE.to_owned(), echo::SUBCOMMAND.to_owned()];
        command.extend(settings.arguments());
        command
    }

    async fn environment(&self) -> Result<Variables, EnvironmentError> {
        let pod = &self.context.pod;
        let has_links = pod.spec.enable_service_links.unwrap_or(true);
        let services = &self.context.agent.services;
        let service_variables = services.variables(&pod.metadata.namespace, has_links);
        let sources = self.sources().await;
        container_variables(pod, self.container, &self.facts, &service_variables, &sources)
    }

    /// Reads the ConfigMaps and Secrets to which the container refers. Sources that cannot be read are left out: a
    /// container that needs one waits.
    async fn sources(&self) -> Sources {
        let mut sources = Sources::new();
        for (kind, name) in referenced_sources(self.container) {
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
                    tracing::warn!(pod = %self.context.key, name, %error, "source of the environment not read")
                }
            }
        }
        sources
    }

    async fn source(&self, kind: SourceKind, name: &str) -> Result<Variables, ClientError> {
        let namespace = &self.context.pod.metadata.namespace;
        read_variables(&self.context.agent.client, namespace, kind, name).await
    }
}
