//! Settings of a store and of its client for registries.

use std::path::PathBuf;
use std::time::Duration;

use crate::platform::Platform;

/// Time without a byte after which a connection to a registry counts as stalled.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a whole pull. Larger images on slow links are loaded from an archive.
const PULL_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Device files in layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DevicePolicy {
    /// Device files are left out. Containers have a `/dev` of their own.
    #[default]
    Skip,
    /// Device files are created.
    Create,
}

/// Settings of [`crate::ImageStore`].
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Platform whose images are chosen from indexes.
    pub platform: Platform,
    /// Device files in layers.
    pub devices: DevicePolicy,
    /// Directory with a directory `HOST` or `HOST:PORT` for each registry, and a file `hosts.toml` in it.
    pub hosts_directory: Option<PathBuf>,
    /// Time without a byte after which a connection to a registry counts as stalled.
    pub stall_timeout: Duration,
    /// Time for a whole pull.
    pub pull_timeout: Duration,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            platform: Platform::host(),
            devices: DevicePolicy::Skip,
            hosts_directory: None,
            stall_timeout: STALL_TIMEOUT,
            pull_timeout: PULL_TIMEOUT,
        }
    }
}
