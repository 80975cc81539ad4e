//! Images that the containers of this node use. The store keeps them, also while the agent does not run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::images::{DiskThresholds, ImageId, ImageStore, StoreError, StoreSettings};

/// Name of the agent in the store.
const HOLDER: &str = "agent";
/// Interval between checks of the disk (upstream's `ImageGCPeriod`).
const DISK_CHECK_INTERVAL: Duration = Duration::from_secs(300);

/// Images in use, by UID of the Pod and name of the container.
pub(crate) struct ImagesInUse {
    store: ImageStore,
    held: Mutex<BTreeMap<(String, String), ImageId>>,
}

/// Reason why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HoldError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the image was removed from the node meanwhile")]
    Removed,
    #[error("the Pod has terminated")]
    Ended,
}

/// Releases the images of all Pods of a node on which no agent runs.
///
/// # Errors
/// [`StoreError`] if the store cannot be opened or changed.
pub fn release_images(store_directory: &Path) -> Result<(), StoreError> {
    let store = ImageStore::open(store_directory, StoreSettings::default())?;
    store.protect(HOLDER, &BTreeSet::new()).map(drop)
}

impl ImagesInUse {
    /// Returns a set with the images of containers that an earlier agent started.
    pub(crate) fn new(store: ImageStore, held: BTreeMap<(String, String), ImageId>) -> Self {
        Self {
            store,
            held: Mutex::new(held),
        }
    }

    /// Holds the image of a container in place of its earlier image, unless its Pod has ended. The Pod sets `is_ended`
    /// before it releases its images. Blocks on the lock of the store.
    ///
    /// # Errors
    /// See [`HoldError`].
    pub(crate) fn hold(
        &self,
        uid: &str,
        container: &str,
        image: &ImageId,
        is_ended: &AtomicBool,
    ) -> Result<(), HoldError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if is_ended.load(Ordering::Acquire) {
            return Err(HoldError::Ended);
        }
        let is_held = held.values().any(|other| other == image);
        let key = (uid.to_owned(), container.to_owned());
        held.insert(key.clone(), image.clone());
        if is_held {
            return Ok(());
        }
        let result = match self.store.protect(HOLDER, &held.values().cloned().collect()) {
            Ok(missing) if missing.contains(image) => Err(HoldError::Removed),
            Ok(_) => return Ok(()),
            Err(error) => Err(error.into()),
        };
        held.remove(&key);
        result
    }

    /// Releases the images of a Pod. Blocks on the lock of the store.
    pub(crate) fn release(&self, uid: &str) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let before = held.len();
        held.retain(|(pod, _), _| pod != uid);
        if held.len() != before {
            self.write(&held);
        }
    }

    /// Records the images in place of those of an earlier agent. Blocks on the lock of the store.
    pub(crate) fn record(&self) {
        self.write(&self.held.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn write(&self, held: &BTreeMap<(String, String), ImageId>) {
        let images = held.values().cloned().collect();
        if let Err(error) = self.store.protect(HOLDER, &images) {
            tracing::warn!(%error, "images in use not recorded");
        }
    }

    fn all(&self) -> BTreeSet<ImageId> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.values().cloned().collect()
    }

    /// Removes unused images whenever the disk is full. Never completes.
    pub(crate) async fn collect_garbage(&self) {
        loop {
            tokio::time::sleep(DISK_CHECK_INTERVAL).await;
            let (store, in_use) = (self.store.clone(), self.all());
            let prune = move || store.prune_for_disk(&in_use, DiskThresholds::default());
            match tokio::task::spawn_blocking(prune).await {
                Ok(Ok(report)) if report.removed.is_empty() => {}
                Ok(Ok(report)) => {
                    tracing::info!(
                        removed = report.removed.len(),
                        freed_bytes = report.freed_bytes,
                        disk_used_percent = report.disk_used_percent,
                        "unused images removed; the disk was full"
                    );
                }
                Ok(Err(error)) => tracing::warn!(%error, "unused images not removed"),
                Err(error) => tracing::warn!(%error, "unused images not removed"),
            }
        }
    }
}
