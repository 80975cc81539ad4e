//! Termination message of a container: its file, which is mounted in the container, and its text after the exit.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

use super::PodWorker;
use super::start_container::ContainerStart;
use crate::containers::termination_message::{read_file, read_log};
use crate::pods::state_directory::StateError;
use crate::sandbox::protocol::{Confinement, Mount};
use crate::volumes::file_owners::VolumeOwners;

/// Time in which a log stays the same after the exit of its container. The sandbox writes it on a thread of its own.
const LOG_QUIET_TIME: Duration = Duration::from_millis(100);
/// Longest wait for that: another process of the container may write on.
const LOG_CHECKS_MAX: usize = 10;

impl ContainerStart<'_> {
    /// Creates the file of the message and returns its mount. A volume at the path takes precedence. A privileged container
    /// has the devices of the node, and therefore no such file in `/dev`. A read-only volume gets no mount point for it.
    ///
    /// # Errors
    /// [`StateError::File`].
    pub(super) fn termination_mount(&self, confinement: &Confinement) -> Result<Option<Mount>, StateError> {
        let target = Path::new(&self.container.termination_message_path);
        let is_plain = target.is_absolute() && !target.components().any(|part| part == Component::ParentDir);
        let is_of_node = confinement.is_privileged && target.starts_with("/dev");
        let is_volume = confinement.mounts.iter().any(|mount| mount.target == target);
        let outer = confinement
            .mounts
            .iter()
            .filter(|mount| target.starts_with(&mount.target));
        let outer = outer.max_by_key(|mount| mount.target.components().count());
        let is_read_only = outer.is_some_and(|mount| mount.is_read_only);
        if !is_plain || is_of_node || is_volume || is_read_only {
            return Ok(None);
        }
        let directory = &self.context.directory;
        Ok(Some(Mount {
            source: directory.prepare_termination_message(&self.container.name, self.run)?,
            target: PathBuf::from(target),
            is_id_mapped: self
                .users
                .is_some_and(|users| users.volumes == VolumeOwners::IdMapped),
            ..Mount::default()
        }))
    }
}

impl PodWorker {
    /// Returns the termination message of a container that has exited, or "".
    pub(super) async fn termination_message(&self, name: &str, exit_code: i32) -> String {
        let Some(container) = self.context.container(name) else {
            return String::new();
        };
        let run = self
            .containers
            .get(name)
            .map_or(0, |container| container.restarts);
        let directory = &self.context.directory;
        let path = directory.termination_message(name, run);
        let own = match read_file(&path) {
            Ok(message) => message,
            Err(error) => return format!("Error on reading termination log: {error}"),
        };
        let falls_back = container.termination_message_policy == "FallbackToLogsOnError" && exit_code != 0;
        if !own.is_empty() || !falls_back {
            return own;
        }
        let log = directory.log(name, run);
        wait_until_quiet(&log).await;
        read_log(&log).unwrap_or_else(|error| {
            tracing::debug!(pod = %self.context.key, container = name, %error, "log for a termination message not read");
            String::new()
        })
    }
}

/// Waits until a log does not grow.
async fn wait_until_quiet(log: &Path) {
    let length = || std::fs::metadata(log).map_or(0, |metadata| metadata.len());
    let mut before = length();
    for _ in 0..LOG_CHECKS_MAX {
        sleep(LOG_QUIET_TIME).await;
        let now = length();
        if now == before {
            return;
        }
        before = now;
    }
}
