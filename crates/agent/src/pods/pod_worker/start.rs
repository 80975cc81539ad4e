//! Start of a Pod: user namespace, volumes in memory, sandbox, other volumes, containers.

use jiff::{SignedDuration, Timestamp};

use super::PodWorker;
use super::image::ImageSource;
use super::image_program::container_image;
use super::sandbox::SandboxError;
use super::start_container::{ContainerStart, ContainerStartError};
use crate::volumes::{VolumeSetUpError, set_up_tmpfs};

/// Delay until the next attempt to start a sandbox or to set volumes up.
const RETRY_DELAY: SignedDuration = SignedDuration::from_secs(2);

/// Reason why no container of a Pod can start yet.
#[derive(Debug, thiserror::Error)]
enum PodStartError {
    #[error("Failed to create pod sandbox: {0}")]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Volume(#[from] VolumeSetUpError),
}

impl PodStartError {
    /// Returns the reason of the Event, as the kubelet writes it.
    fn event_reason(&self) -> &'static str {
        match self {
            Self::Sandbox(_) => "FailedCreatePodSandBox",
            Self::Volume(_) => "FailedMount",
        }
    }
}

impl PodWorker {
    /// Starts the containers that are due, and before the first of them the sandbox and the volumes.
    pub(super) async fn start_due(&mut self) {
        let due = self.containers.due(Timestamp::now());
        if let Err(error) = self.start_pod().await {
            tracing::warn!(pod = %self.context.key, %error, "Pod not started");
            if matches!(error, PodStartError::Sandbox(_)) {
                self.sandbox.remove(&self.context).await;
            }
            let message = error.to_string();
            self.context.events.warning(error.event_reason(), message.clone());
            return self.delay_start(&due, &message);
        }
        for name in due {
            let Some(image) = self.image_source(&name) else {
                continue;
            };
            let events = self.context.events.for_container(&name);
            match self.start_container(&name, &image).await {
                Ok(()) => {
                    let image = match &image {
                        ImageSource::Store(image) => Some(container_image(image)),
                        ImageSource::Table(_) => None,
                    };
                    self.containers.set_image(&name, image);
                    events.normal("Created", format!("Created container: {name}"));
                    events.normal("Started", format!("Started container {name}"));
                    self.container_started(&name);
                }
                Err(error) => {
                    let (reason, message) = (error.reason(), error.to_string());
                    tracing::info!(pod = %self.context.key, container = name, reason, message, "container not started");
                    events.warning("Failed", format!("Error: {message}"));
                    self.containers
                        .mark_start_failed(&name, reason, message, Timestamp::now());
                }
            }
        }
    }

    /// Starts the sandbox and sets the volumes up, unless that is done.
    async fn start_pod(&mut self) -> Result<(), PodStartError> {
        let context = &self.context;
        if self.sandbox.is_running() && context.has_user_namespace() && self.sandbox.users.is_none() {
            // An agent without user namespaces started this sandbox. Its containers were all rejected.
            self.sandbox.remove(context).await;
        }
        if self.sandbox.is_running() && !self.sandbox.runs_images && self.needs_images() {
            // Likewise for an agent without images. A container of the image table starts again.
            self.sandbox.remove(&self.context).await;
            self.containers.mark_all_lost(Timestamp::now());
            self.runs.clear();
        }
        if !self.sandbox.is_running() {
            // ENV-10: the environment needs all Services. Static Pods run without the API.
            if !context.is_static {
                context.agent.services.wait_for_sync().await;
            }
            let holder = self.sandbox.create_user_namespace(context).await?;
            // The sandbox sees the mounts that exist when it starts.
            set_up_tmpfs(&context.directory.volumes(), &context.pod, self.sandbox.users)?;
            self.sandbox.start(context, holder).await?;
        }
        let facts = self.facts();
        let users = self.sandbox.users;
        Ok(self.volumes.set_up(&self.context, facts, users).await?)
    }

    /// Returns true if a container has an image of the store. Ephemeral containers do not count: they must not restart the
    /// others.
    fn needs_images(&self) -> bool {
        let (settings, spec) = (&self.context.agent.settings, &self.context.pod.spec);
        let mut all = spec.init_containers.iter().chain(&spec.containers);
        settings.image_store.is_some()
            && all.any(|container| settings.images.entrypoint(&container.image).is_err())
    }

    /// Delays containers for a reason outside of them.
    fn delay_start(&mut self, names: &[String], message: &str) {
        let now = Timestamp::now();
        let due = now.checked_add(RETRY_DELAY).unwrap_or(now);
        for name in names {
            self.containers.delay_start(name, message.to_owned(), due);
        }
    }

    async fn start_container(&self, name: &str, image: &ImageSource) -> Result<(), ContainerStartError> {
        let (Some(container), Some(sandbox)) = (self.context.container(name), self.sandbox.process()) else {
            return Err(ContainerStartError::Missing {
                name: name.to_owned(),
            });
        };
        if matches!(image, ImageSource::Store(_)) && !self.sandbox.runs_images {
            return Err(ContainerStartError::NoImages);
        }
        let run = self.containers.next_restart_count(name);
        let start = ContainerStart {
            image,
            run,
            context: &self.context,
            container,
            facts: self.facts(),
            users: self.sandbox.users,
            volumes: self.volumes.paths(),
        };
        let program = start.program().await?;
        let directory = &self.context.directory;
        let log = directory.prepare_log(name, run)?;
        let started = sandbox.start_container(name, program, &log).await;
        started.map_err(|source| ContainerStartError::Runtime {
            name: name.to_owned(),
            source,
        })
    }
}
