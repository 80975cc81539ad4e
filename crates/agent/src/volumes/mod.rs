//! Volumes of a Pod as directories of the node (kubelet's `pkg/volume`): set up before the containers start, then
//! refreshed.

pub mod atomic_writer;
pub mod directory;
mod empty_dir;
mod error;
mod fetch;
pub mod file_owners;
mod host_path;
pub mod payload;
pub mod tmpfs;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use tokio::sync::watch;

use crate::containers::environment::PodFacts;
use crate::object::{Pod, Volume};
use crate::volumes::file_owners::{Owners, PodUsers};

use fetch::FetchedSources;

pub use empty_dir::set_up_tmpfs;
pub use error::{VolumeError, VolumeSetUpError};
pub use fetch::{read as read_object, read_variables};

#[cfg(test)]
mod tests;

/// Interval at which volumes are refreshed from the API. The kubelet takes up to 90 s.
const REFRESH_INTERVAL: Duration = Duration::from_secs(15);

/// Volumes of one Pod.
pub struct Volumes {
    directory: PathBuf,
    client: Client,
    pod: Arc<Pod>,
    facts: PodFacts,
    sources: FetchedSources,
    hidden: Vec<PathBuf>,
    owners: Owners,
}

impl Volumes {
    /// Returns the volumes below `directory`, none of which is set up. No `hostPath` volume may lead into the paths
    /// `hidden`. `users` describes the Pod's user namespace.
    pub fn new(
        directory: PathBuf,
        client: Client,
        pod: Arc<Pod>,
        facts: PodFacts,
        hidden: Vec<PathBuf>,
        users: Option<PodUsers>,
    ) -> Self {
        Self {
            directory,
            owners: Owners::of(users, pod.spec.security_context.fs_group),
            client,
            pod,
            facts,
            sources: FetchedSources::default(),
            hidden,
        }
    }

    /// Sets all volumes up, or updates their content. Returns their paths by name.
    ///
    /// # Errors
    /// [`VolumeSetUpError`] for the first volume that cannot be set up.
    pub async fn set_up(&mut self) -> Result<BTreeMap<String, PathBuf>, VolumeSetUpError> {
        let mut paths = BTreeMap::new();
        for volume in &self.pod.clone().spec.volumes {
            let path = self.set_up_one(volume).await;
            let path = path.map_err(|error| VolumeSetUpError::new(&volume.name, error))?;
            paths.insert(volume.name.clone(), path);
        }
        Ok(paths)
    }

    /// Returns true if the content of a volume can change.
    pub fn needs_refresh(&self) -> bool {
        let mut volumes = self.pod.spec.volumes.iter();
        volumes.any(|volume| payload::projections(volume).is_some())
    }

    /// Refreshes the volumes as long as it is polled, with the latest of `pods`. After an error, the previous content
    /// stays.
    pub async fn refresh_until_aborted(mut self, pods: watch::Receiver<Arc<Pod>>) {
        loop {
            tokio::time::sleep(REFRESH_INTERVAL).await;
            let pod = Arc::clone(&pods.borrow());
            self.refresh(pod).await;
        }
    }

    /// Updates the content of the volumes. Labels and annotations of the Pod may have changed.
    async fn refresh(&mut self, pod: Arc<Pod>) {
        self.pod = Arc::clone(&pod);
        for volume in &pod.spec.volumes {
            if payload::projections(volume).is_none() {
                continue;
            }
            if let Err(error) = self.set_up_one(volume).await {
                tracing::warn!(pod = self.pod.metadata.name, volume = volume.name, %error, "volume not refreshed");
            }
        }
    }

    async fn set_up_one(&mut self, volume: &Volume) -> Result<PathBuf, VolumeError> {
        if let Some(host_path) = &volume.host_path {
            return host_path::set_up(host_path, &self.hidden);
        }
        if !atomic_writer::is_valid_path(&volume.name) {
            return Err(VolumeError::Path {
                path: volume.name.clone(),
            });
        }
        let path = self.directory.join(&volume.name);
        if let Some(empty_dir) = &volume.empty_dir {
            empty_dir::set_up(&path, empty_dir, self.owners)?;
            return Ok(path);
        }
        let Some((projections, mode)) = payload::projections(volume) else {
            return Err(VolumeError::Kind {
                name: volume.name.clone(),
            });
        };
        self.sources.update(&self.client, &self.pod, &projections).await?;
        let sources = payload::Sources {
            pod: &self.pod,
            facts: &self.facts,
            objects: &self.sources.objects,
            tokens: &self.sources.tokens(),
        };
        let files = payload::files(&projections, mode, &sources)?;
        atomic_writer::write(&path, &files, self.owners)
            .map_err(|source| VolumeError::file(&path, source))?;
        Ok(path)
    }
}
