//! Pulls of all Pods of the node: few at once, and one for each image.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use ::images::{Image, ImageStore, PullError, Reference, RegistryCredential};
use tokio::sync::{Semaphore, watch};

#[cfg(test)]
mod tests;

/// Maximum number of images that are pulled at once. Each has several connections.
const PULLS_MAX: usize = 4;

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

/// Pull that is under way. Pods with other credentials do not share it.
type PullKey = (Reference, Vec<[String; 3]>);

/// Channel for the result of a pull. The task of the pull holds it.
type PullSender = watch::Sender<Option<PullResult>>;

/// Starter of pulls. A pull continues as long as a Pod waits for it.
pub(crate) struct ImagePuller {
    store: ImageStore,
    permits: Arc<Semaphore>,
    running: Arc<Mutex<HashMap<PullKey, Weak<PullSender>>>>,
}

impl ImagePuller {
    /// Returns a puller for a store.
    pub(crate) fn new(store: ImageStore) -> Self {
        Self {
            store,
            permits: Arc::new(Semaphore::new(PULLS_MAX)),
            running: Arc::default(),
        }
    }

    /// Pulls an image, or waits for the pull that is under way.
    ///
    /// # Errors
    /// See [`SharedPullError`].
    pub(crate) async fn pull(
        &self,
        reference: &Reference,
        credentials: Vec<RegistryCredential>,
    ) -> PullResult {
        let mut result = self.start(reference, credentials);
        let finished = result.wait_for(Option::is_some).await;
        let finished = finished.map(|finished| finished.clone());
        finished.ok().flatten().unwrap_or(Err(SharedPullError::Shutdown))
    }

    /// Returns the receiver of the result of a pull, and starts the pull unless it runs already.
    fn start(
        &self,
        reference: &Reference,
        credentials: Vec<RegistryCredential>,
    ) -> watch::Receiver<Option<PullResult>> {
        let parts = credentials.iter().map(|credential| {
            let RegistryCredential {
                registry,
                username,
                password,
            } = credential;
            [registry.clone(), username.clone(), password.clone()]
        });
        let key = (reference.clone(), parts.collect());
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = running.get(&key).and_then(Weak::upgrade) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(None);
        let sender = Arc::new(sender);
        running.insert(key.clone(), Arc::downgrade(&sender));
        let (store, permits) = (self.store.clone(), Arc::clone(&self.permits));
        let (running, reference) = (Arc::clone(&self.running), reference.clone());
        tokio::spawn(async move {
            let pull = async {
                let _permit = permits.acquire().await;
                let progress = |progress| tracing::trace!(?progress, "image pull");
                store.pull(&reference, &credentials, &progress).await
            };
            let mut pull = std::pin::pin!(pull);
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
