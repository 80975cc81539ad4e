//! Pulls of all Pods of the node: few at once, and one for each image and namespace. A registry can delay a pull for an
//! hour. Therefore a namespace has a part of the pulls at most, and a pull that takes long leaves its place to others.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ::images::{Digest, Image, ImageStore, PullError, Reference, RegistryCredential};
use counting::SharedValues;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;

use crate::images::image_access::{ImageAccess, SuccessfulPull};

#[cfg(test)]
mod tests;

/// Maximum number of images that are pulled at once, without those that take longer than [`PLACE_TIME_MAX`]. Each has
/// several connections.
const PULLS_MAX: usize = 4;
/// Time after which a pull leaves its place to others, and continues. The slow pulls of a few namespaces could otherwise
/// take all places.
const PLACE_TIME_MAX: Duration = Duration::from_secs(120);
/// Maximum number of images that are pulled at once for the Pods of one namespace.
const PULLS_OF_NAMESPACE_MAX: usize = 2;

/// Failure of a pull, which several Pods can share.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum SharedPullError {
    /// The pull failed.
    #[error("{0}")]
    Failed(Arc<PullError>),
    /// The agent shuts down.
    #[error("the agent is shutting down")]
    Shutdown,
}

type PullResult = Result<Image, SharedPullError>;

/// Pull that is under way. Pods of other namespaces, and Pods with other credentials, do not share it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct PullKey {
    namespace: String,
    reference: Reference,
    credentials: Vec<[String; 3]>,
}

impl PullKey {
    fn new(namespace: &str, reference: &Reference, credentials: &[RegistryCredential]) -> Self {
        let parts = credentials.iter().map(|credential| {
            let RegistryCredential {
                registry,
                username,
                password,
            } = credential;
            [registry.clone(), username.clone(), password.clone()]
        });
        Self {
            namespace: namespace.to_owned(),
            reference: reference.clone(),
            credentials: parts.collect(),
        }
    }
}

/// Channel for the result of a pull. The task of the pull holds it.
type PullSender = watch::Sender<Option<PullResult>>;

/// Starter of pulls. A pull continues as long as a Pod waits for it.
pub(crate) struct ImagePuller {
    store: ImageStore,
    access: Arc<ImageAccess>,
    permits: Arc<Semaphore>,
    place_time_max: Duration,
    /// Permits of the namespaces with pulls.
    namespaces: SharedValues<Semaphore>,
    running: Arc<Mutex<HashMap<PullKey, Weak<PullSender>>>>,
}

impl ImagePuller {
    /// Returns a puller for a store.
    pub(crate) fn new(store: ImageStore, access: Arc<ImageAccess>) -> Self {
        Self {
            store,
            access,
            permits: Arc::new(Semaphore::new(PULLS_MAX)),
            place_time_max: PLACE_TIME_MAX,
            namespaces: SharedValues::default(),
            running: Arc::default(),
        }
    }

    /// Pulls an image for a Pod of a namespace, or waits for the pull that is under way.
    ///
    /// # Errors
    /// See [`SharedPullError`].
    pub(crate) async fn pull(
        &self,
        namespace: &str,
        reference: &Reference,
        credentials: Vec<RegistryCredential>,
    ) -> PullResult {
        let mut result = self.start(namespace, reference, credentials);
        let finished = result.wait_for(Option::is_some).await;
        let finished = finished.map(|finished| finished.clone());
        finished.ok().flatten().unwrap_or(Err(SharedPullError::Shutdown))
    }

    /// Returns the receiver of the result of a pull, and starts the pull unless it runs already.
    fn start(
        &self,
        namespace: &str,
        reference: &Reference,
        credentials: Vec<RegistryCredential>,
    ) -> watch::Receiver<Option<PullResult>> {
        let key = PullKey::new(namespace, reference, &credentials);
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = running.get(&key).and_then(Weak::upgrade) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(None);
        let sender = Arc::new(sender);
        running.insert(key.clone(), Arc::downgrade(&sender));
        let places = Places {
            of_namespace: self
                .namespaces
                .get(namespace, || Semaphore::new(PULLS_OF_NAMESPACE_MAX)),
            of_node: Arc::clone(&self.permits),
            time_max: self.place_time_max,
        };
        let recorded = RecordedPull {
            store: self.store.clone(),
            access: Arc::clone(&self.access),
            namespace: namespace.to_owned(),
            reference: reference.clone(),
            has_credentials: credentials.iter().any(|credential| credential.is_for(reference)),
        };
        let running = Arc::clone(&self.running);
        tokio::spawn(async move {
            let mut pull = std::pin::pin!(places.hold_for(recorded.pull(&credentials)));
            let result = loop {
                tokio::select! {
                    result = &mut pull => break result,
                    () = sender.closed() => {
                        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
                        // Another Pod may have joined meanwhile.
                        if sender.receiver_count() == 0 {
                            running.remove(&key);
                            return;
                        }
                    }
                }
            };
            running
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&key);
            sender.send_replace(Some(
                result.map_err(|error| SharedPullError::Failed(Arc::new(error))),
            ));
        });
        receiver
    }
}

/// Places among the pulls of a node and of a namespace.
struct Places {
    of_namespace: Arc<Semaphore>,
    of_node: Arc<Semaphore>,
    /// Time after which a pull leaves its place of the node.
    time_max: Duration,
}

impl Places {
    /// Runs a pull when it has its places.
    async fn hold_for<T>(&self, pull: impl Future<Output = T>) -> T {
        // First: a pull that waits for its namespace must not hold a permit of the node.
        let _of_namespace = self.of_namespace.acquire().await;
        let of_node = self.of_node.acquire().await;
        let mut pull = std::pin::pin!(pull);
        if let Ok(result) = tokio::time::timeout(self.time_max, &mut pull).await {
            return result;
        }
        drop(of_node);
        pull.await
    }
}

/// Pull whose end is recorded.
#[derive(Clone)]
struct RecordedPull {
    store: ImageStore,
    access: Arc<ImageAccess>,
    namespace: String,
    reference: Reference,
    /// True if credentials of the Pod are for the registry.
    has_credentials: bool,
}

impl RecordedPull {
    async fn pull(&self, credentials: &[RegistryCredential]) -> Result<Image, PullError> {
        let begun = self.clone();
        let before = spawn_blocking(move || begun.begin()).await;
        let before = before.map_err(PullError::Thread)?;
        let progress = |progress| tracing::trace!(?progress, "image pull");
        let pulled = self.store.pull(&self.reference, credentials, &progress).await;
        let (ended, digest) = (
            self.clone(),
            pulled.as_ref().ok().map(|image| image.digest.clone()),
        );
        let recorded = spawn_blocking(move || ended.finish(before.as_ref(), digest.as_ref())).await;
        recorded.map_err(PullError::Thread)?;
        pulled
    }

    /// Returns the digest of the image that the store has under the name.
    fn begin(&self) -> Option<Digest> {
        let before = self.store.find(&self.reference).ok().flatten();
        if self.has_credentials && before.is_none() {
            self.access.begin(&self.reference);
        }
        before.map(|image| image.digest)
    }

    fn finish(&self, before: Option<&Digest>, digest: Option<&Digest>) {
        let pulled = digest.map(|digest| SuccessfulPull {
            digest,
            before,
            has_credentials: self.has_credentials,
        });
        let present = self.store.list().ok().map(|summaries| {
            let digests = summaries.iter().map(|summary| summary.digest.to_string());
            digests.collect::<BTreeSet<String>>()
        });
        self.access
            .finish(&self.namespace, &self.reference, pulled, present.as_ref());
    }
}
