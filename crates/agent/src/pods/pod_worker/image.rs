//! Image of a container before its start: image table, store of the node, registry (kubelet's `image_manager.go`).

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ::images::{Image, Reference, ReferenceError, StoreError};
use jiff::{SignedDuration, Timestamp};
use tokio::task::{JoinSet, spawn_blocking};

use super::PodWorker;
use crate::containers::BACK_OFF_MAX;
use crate::images::image_puller::SharedPullError;
use crate::images::image_table::Entrypoint;
use crate::images::images_in_use::HoldError;
use crate::images::pull_credentials;
use crate::images::pull_policy::PullPolicy;
use crate::object::{Container, Pod};
use crate::pods::context::{Context, NodeImages};
use crate::pods::events::PodEventRecorder;

/// Delay after the first failed pull of an image; it doubles with each failure (upstream's `imageBackOffPeriod`).
const BACK_OFF_FIRST: SignedDuration = SignedDuration::from_secs(10);
/// Interval at which a container checks its pull. The pull also reports its end. The interval must be below
/// [`BACK_OFF_MAX`].
const PULL_CHECK_INTERVAL: SignedDuration = SignedDuration::from_mins(4);

/// Maximum number of characters of a message about an image, as in Events. A registry writes a part of it.
const MESSAGE_CHARACTERS_MAX: usize = 1024;

/// Source of a container's program.
#[derive(Debug)]
pub(super) enum ImageSource {
    /// Program of the image table.
    Table(Entrypoint),
    /// Image of the store.
    Store(Box<Image>),
}

/// Reason why a container has no image.
#[derive(Debug, thiserror::Error)]
pub(super) enum ImageError {
    #[error("Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: {source}")]
    Name { image: String, source: ReferenceError },
    #[error("Container image {image:?} is not present with pull policy of Never")]
    NeverPull { image: String },
    #[error(
        "Container image {image:?} was pulled with credentials of another namespace, and the pull policy is Never; use \
         IfNotPresent"
    )]
    NotPermitted { image: String },
    #[error("{0}")]
    Pull(#[from] SharedPullError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Hold(#[from] HoldError),
    #[error("the agent is shutting down")]
    Shutdown,
}

impl ImageError {
    /// Returns the reason of the container's `waiting` state, as the kubelet writes it.
    fn reason(&self) -> &'static str {
        match self {
            Self::Name { .. } => "InvalidImageName",
            Self::NeverPull { .. } | Self::NotPermitted { .. } => "ErrImageNeverPull",
            Self::Pull(_) => "ErrImagePull",
            Self::Store(_) | Self::Hold(_) | Self::Shutdown => "ImageInspectError",
        }
    }
}

/// End of a search for an image.
pub(super) struct FoundImage {
    container: String,
    result: Result<Image, ImageError>,
}

/// Delay after failed pulls of one container.
struct BackOff {
    delay: SignedDuration,
    until: Timestamp,
    /// Message of the last failure, with its reason.
    cause: String,
}

/// Searches for the images of a Pod's containers.
#[derive(Default)]
pub(super) struct ImageSearches {
    tasks: JoinSet<FoundImage>,
    /// Containers with a search.
    running: Vec<String>,
    /// Images of the next starts.
    found: BTreeMap<String, Image>,
    back_offs: BTreeMap<String, BackOff>,
    /// Set when the searches end. A blocking task outlives its search and must not hold an image after that.
    is_ended: Arc<AtomicBool>,
}

impl ImageSearches {
    /// Waits for the end of a search; `None` if no search runs.
    pub(super) async fn next(&mut self) -> Option<FoundImage> {
        let found = self.tasks.join_next().await?;
        // A search panicked: the container looks again at the next check.
        let found = found.ok()?;
        self.running.retain(|name| *name != found.container);
        Some(found)
    }

    /// Ends all searches.
    pub(super) fn clear(&mut self) {
        self.is_ended.store(true, Ordering::Release);
        *self = Self::default();
    }
}

impl PodWorker {
    /// Returns the source of a container's program. Without one, the container waits: for the end of a search, or for
    /// the next attempt.
    pub(super) fn image_source(&mut self, name: &str) -> Option<ImageSource> {
        let now = Timestamp::now();
        let Some(container) = self.context.container(name).cloned() else {
            let message = format!("the Pod has no container {name} any more");
            self.wait_for_image(
                name,
                "CreateContainerError",
                message,
                time_after(now, BACK_OFF_FIRST),
            );
            return None;
        };
        let agent = Arc::clone(&self.context.agent);
        let unknown = match agent.settings.images.entrypoint(&container.image) {
            Ok(entrypoint) => return Some(ImageSource::Table(entrypoint)),
            Err(unknown) => unknown,
        };
        if agent.images.is_none() {
            let message = message_of(&unknown);
            self.report_image_failure(name, "ErrImagePull", &message);
            self.containers
                .mark_start_failed(name, "ErrImagePull", message, now);
            return None;
        }
        if let Some(image) = self.images.found.remove(name) {
            return Some(ImageSource::Store(Box::new(image)));
        }
        if self.images.tasks.is_empty() {
            // A search that panicked reports no end.
            self.images.running.clear();
        }
        if self.images.running.iter().any(|running| running == name) {
            self.wait_for_image(
                name,
                "ContainerCreating",
                String::new(),
                time_after(now, PULL_CHECK_INTERVAL),
            );
            return None;
        }
        if self.is_backing_off(name, now) {
            return None;
        }
        let search = ImageSearch {
            agent,
            pod: Arc::clone(&self.context.pod),
            container,
            events: self.context.events.for_container(name),
            is_ended: Arc::clone(&self.images.is_ended),
        };
        self.images.running.push(name.to_owned());
        self.images.tasks.spawn(search.run());
        self.wait_for_image(
            name,
            "ContainerCreating",
            String::new(),
            time_after(now, PULL_CHECK_INTERVAL),
        );
        None
    }

    /// Starts the container of a search at once, or delays it after a failure.
    pub(super) fn handle_found_image(&mut self, found: FoundImage) {
        let FoundImage {
            container: name,
            result,
        } = found;
        let now = Timestamp::now();
        let error = match result {
            Ok(image) => {
                self.images.back_offs.remove(&name);
                self.images.found.insert(name.clone(), image);
                return self.wait_for_image(&name, "ContainerCreating", String::new(), now);
            }
            Err(error) => error,
        };
        let (reason, message) = (error.reason(), message_of(&error));
        tracing::info!(pod = %self.context.key, container = name, reason, message, "no image for a container");
        self.report_image_failure(&name, reason, &message);
        let last = self.images.back_offs.get(&name);
        let delay = last.map_or(BACK_OFF_FIRST, |last| {
            last.delay.saturating_mul(2).min(BACK_OFF_MAX)
        });
        let until = time_after(now, delay);
        let back_off = BackOff {
            delay,
            until,
            cause: format!("{reason}: {message}"),
        };
        self.images.back_offs.insert(name.clone(), back_off);
        // Only pulls burden a registry. Half of the time the container shows the failure, then the back-off.
        let due = match error {
            ImageError::Pull(_) => time_after(now, delay / 2),
            _ => until,
        };
        self.wait_for_image(&name, reason, message, due);
    }

    /// Shows the back-off of a container, if it has one.
    fn is_backing_off(&mut self, name: &str, now: Timestamp) -> bool {
        let Some(container) = self.context.container(name) else {
            return false;
        };
        let Some(back_off) = self.images.back_offs.get(name) else {
            return false;
        };
        let left = back_off.until.duration_since(now);
        // A longer back-off is from before the clock was set back.
        if left <= SignedDuration::ZERO || left > BACK_OFF_MAX {
            return false;
        }
        let (until, image) = (back_off.until, &container.image);
        let events = self.context.events.for_container(name);
        events.normal("BackOff", format!("Back-off pulling image {image:?}"));
        events.warning("Failed", "Error: ImagePullBackOff".to_owned());
        let message = format!("Back-off pulling image {image:?}: {}", back_off.cause);
        self.wait_for_image(name, "ImagePullBackOff", message, until);
        true
    }

    fn wait_for_image(&mut self, name: &str, reason: &'static str, message: String, due: Timestamp) {
        self.containers.wait_for_image(name, reason, message, due);
    }

    fn report_image_failure(&self, name: &str, reason: &'static str, message: &str) {
        let image = self
            .context
            .container(name)
            .map_or("", |container| &container.image);
        let events = self.context.events.for_container(name);
        match reason {
            "InvalidImageName" => events.warning("InspectFailed", message.to_owned()),
            "ErrImageNeverPull" => events.warning("ErrImageNeverPull", message.to_owned()),
            _ => events.warning("Failed", format!("Failed to pull image {image:?}: {message}")),
        }
        events.warning("Failed", format!("Error: {reason}"));
    }
}

/// Search for the image of one container.
struct ImageSearch {
    agent: Arc<Context>,
    pod: Arc<Pod>,
    container: Container,
    events: PodEventRecorder,
    is_ended: Arc<AtomicBool>,
}

impl ImageSearch {
    async fn run(self) -> FoundImage {
        let result = match &self.agent.images {
            Some(images) => self.find(images).await,
            None => Err(ImageError::Shutdown),
        };
        FoundImage {
            container: self.container.name,
            result,
        }
    }

    async fn find(&self, images: &NodeImages) -> Result<Image, ImageError> {
        let name = &self.container.image;
        let reference: Reference = name.parse().map_err(|source| ImageError::Name {
            image: name.clone(),
            source,
        })?;
        let policy = PullPolicy::of(&self.container.image_pull_policy, &reference);
        let present = match policy {
            PullPolicy::Always => None,
            PullPolicy::IfNotPresent | PullPolicy::Never => {
                let (store, reference) = (images.store.clone(), reference.clone());
                let find = spawn_blocking(move || store.find(&reference)).await;
                find.map_err(|_| ImageError::Shutdown)??
            }
        };
        let namespace = &self.pod.metadata.namespace;
        let image = match present {
            Some(image) if images.access.permits(namespace, &reference, &image.digest) => {
                let message = format!("Container image {name:?} already present on machine");
                self.events.normal("Pulled", message);
                image
            }
            Some(_) if policy == PullPolicy::Never => {
                return Err(ImageError::NotPermitted { image: name.clone() });
            }
            None if policy == PullPolicy::Never => {
                return Err(ImageError::NeverPull { image: name.clone() });
            }
            _ => self.pull(images, &reference).await?,
        };
        let (in_use, id) = (Arc::clone(&images.in_use), image.id.clone());
        let (uid, container) = (self.pod.metadata.uid.clone(), self.container.name.clone());
        let is_ended = Arc::clone(&self.is_ended);
        let held = spawn_blocking(move || in_use.hold(&uid, &container, &id, &is_ended)).await;
        held.map_err(|_| ImageError::Shutdown)??;
        Ok(image)
    }

    async fn pull(&self, images: &NodeImages, reference: &Reference) -> Result<Image, ImageError> {
        let name = &self.container.image;
        self.events.normal("Pulling", format!("Pulling image {name:?}"));
        let begun = Instant::now();
        let credentials = pull_credentials::of_pod(&self.agent, &self.pod, &self.events).await;
        let namespace = &self.pod.metadata.namespace;
        let image = images.puller.pull(namespace, reference, credentials).await?;
        let (seconds, size) = (begun.elapsed().as_secs_f64(), image.size_bytes);
        let message = format!(
            "Successfully pulled image {name:?} in {seconds:.3}s ({seconds:.3}s including waiting). \
             Image size: {size} bytes."
        );
        self.events.normal("Pulled", message);
        Ok(image)
    }
}

/// Returns the message of an error for status and Events.
fn message_of(error: &impl Display) -> String {
    error.to_string().chars().take(MESSAGE_CHARACTERS_MAX).collect()
}

/// Returns the time after `start`. Beyond the range of timestamps, `start` itself.
fn time_after(start: Timestamp, delay: SignedDuration) -> Timestamp {
    start.checked_add(delay).unwrap_or(start)
}
