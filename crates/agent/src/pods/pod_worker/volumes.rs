//! Volumes of a Pod: set up before its containers start, then refreshed by a task.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::PodContext;
use crate::containers::environment::PodFacts;
use crate::object::Pod;
use crate::volumes::file_owners::PodUsers;
use crate::volumes::{VolumeSetUpError, Volumes};

/// Volumes of one Pod.
#[derive(Default)]
pub(super) struct PodVolumes {
    /// Paths by volume name, once the volumes are set up.
    paths: Option<BTreeMap<String, PathBuf>>,
    refresh: Option<RefreshTask>,
}

/// Task that refreshes volumes until it is dropped.
struct RefreshTask {
    task: AbortHandle,
    /// Latest state of the Pod.
    pods: watch::Sender<Arc<Pod>>,
}

impl Drop for RefreshTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PodVolumes {
    /// Sets the volumes up unless they are, and starts the refresh if their content can change.
    ///
    /// # Errors
    /// [`VolumeSetUpError`] for the first volume that cannot be set up.
    pub(super) async fn set_up(
        &mut self,
        context: &PodContext,
        facts: PodFacts,
        users: Option<PodUsers>,
    ) -> Result<(), VolumeSetUpError> {
        if self.paths.is_some() {
            return Ok(());
        }
        let directory = context.directory.volumes();
        let client = context.agent.client.clone();
        let hidden = context.agent.settings.hidden_paths();
        let pod = Arc::clone(&context.pod);
        let mut volumes = Volumes::new(directory, client, pod, facts, hidden, users);
        self.paths = Some(volumes.set_up().await?);
        if volumes.needs_refresh() {
            let (pods, latest) = watch::channel(Arc::clone(&context.pod));
            let task = tokio::spawn(volumes.refresh_until_aborted(latest)).abort_handle();
            self.refresh = Some(RefreshTask { task, pods });
        }
        Ok(())
    }

    /// Passes a changed Pod to the refresh, for volumes with its labels and annotations.
    pub(super) fn pod_changed(&self, pod: &Arc<Pod>) {
        if let Some(refresh) = &self.refresh {
            refresh.pods.send_replace(Arc::clone(pod));
        }
    }

    /// Returns the path of a volume by name; empty before the set-up.
    pub(super) fn paths(&self) -> BTreeMap<String, PathBuf> {
        self.paths.clone().unwrap_or_default()
    }

    /// Stops the refresh.
    pub(super) fn stop_refresh(&mut self) {
        self.refresh = None;
    }
}
