//! Limits of the directory of access logs: bytes of each Service, bytes in all, and free space of the file system. The
//! oldest files are removed first. Files with names of another form stay unchanged.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use tokio::sync::OnceCell;

use crate::settings::ServiceName;

#[cfg(test)]
mod tests;

/// Minimum size that counts for a file: a block of the file system. The limit of bytes therefore limits the number of
/// files, too.
const FILE_BYTES_MIN: u64 = 4_096;
/// Maximum number of files that are removed for a new one. A lowered quota takes several steps.
const REMOVED_FILES_MAX: usize = 1_024;

/// Limits of the directory of access logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryLimits {
    /// Bytes of all files.
    pub bytes_max: u64,
    /// Bytes of the files of one Service.
    pub service_bytes_max: u64,
    /// Percent of the file system that must be free for a file to be written.
    pub free_percent_min: u8,
}

impl Default for DirectoryLimits {
    fn default() -> Self {
        Self {
            bytes_max: 1 << 30,
            service_bytes_max: 256 << 20,
            free_percent_min: 10,
        }
    }
}

/// Reason why a file is not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReserveError {
    /// The file system is too full.
    #[error("file system of {directory}: less than {percent} % free")]
    FileSystem {
        /// Minimum of free space in percent.
        percent: u8,
        /// Directory of access logs.
        directory: PathBuf,
    },
    /// The file alone exceeds the quota.
    #[error("file of {bytes} bytes exceeds the quota of {quota} bytes")]
    Quota {
        /// Size of the file.
        bytes: u64,
        /// Quota in bytes.
        quota: u64,
    },
    /// Old files cannot be listed or removed.
    #[error("old access logs not removed: {0}")]
    Removal(String),
}

/// Space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskSpace {
    /// Bytes that this process may use.
    pub free: u64,
    /// All bytes.
    pub total: u64,
}

/// Function that returns the space of a directory's file system.
pub(super) type SpaceProbe = fn(&std::path::Path) -> std::io::Result<DiskSpace>;

/// Returns the space of a directory's file system, from statvfs(3).
///
/// # Errors
/// The error of the system.
pub(super) fn space(directory: &std::path::Path) -> std::io::Result<DiskSpace> {
    let stat = rustix::fs::statvfs(directory)?;
    Ok(DiskSpace {
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
    })
}

/// Files of this node's access logs in a directory.
#[derive(Debug)]
pub(super) struct Quota {
    limits: DirectoryLimits,
    directory: PathBuf,
    host: Arc<str>,
    store: Arc<dyn ObjectStore>,
    probe_space: SpaceProbe,
    /// Initialized once files of earlier processes are in the index.
    indexed: OnceCell<()>,
    index: Mutex<Index>,
}

/// Log files of all Services, and the sum of their bytes.
#[derive(Debug, Default)]
struct Index {
    services: BTreeMap<ServiceName, Files>,
    bytes: u64,
}

/// Files of a Service.
#[derive(Debug, Default)]
struct Files {
    /// Size of each file, the oldest first.
    by_age: BTreeMap<(Box<str>, Path), u64>,
    bytes: u64,
    removed: u64,
}

impl Quota {
    /// Creates the limits of a directory to which `store` writes, on a node with that name.
    pub(super) fn new(
        limits: DirectoryLimits,
        directory: PathBuf,
        host: Arc<str>,
        store: Arc<dyn ObjectStore>,
        probe_space: SpaceProbe,
    ) -> Self {
        Self {
            limits,
            directory,
            host,
            store,
            probe_space,
            indexed: OnceCell::new(),
            index: Mutex::default(),
        }
    }

    /// Makes space for a file of a Service and counts it. Removes older files as needed.
    ///
    /// # Errors
    /// See [`ReserveError`]; the file is not counted then.
    pub(super) async fn reserve(
        &self,
        service: &ServiceName,
        file: &Path,
        bytes: u64,
    ) -> Result<(), ReserveError> {
        self.check_space()?;
        let quota = self.limits.service_bytes_max.min(self.limits.bytes_max);
        if bytes > quota {
            return Err(ReserveError::Quota { bytes, quota });
        }
        self.indexed
            .get_or_try_init(|| self.index_existing())
            .await
            .map_err(|error| ReserveError::Removal(error.to_string()))?;
        let bytes = bytes.max(FILE_BYTES_MIN);
        for _ in 0..REMOVED_FILES_MAX {
            let Some(old) = self.index().oldest_beyond(&self.limits, service, bytes) else {
                break;
            };
            match self.store.delete(&old).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(ReserveError::Removal(error.to_string())),
            }
        }
        let age = parse(file, &self.host).map(|(_, time)| time).unwrap_or_default();
        self.index().add(service, age, file.clone(), bytes);
        Ok(())
    }

    /// Removes the count of a file that could not be written.
    pub(super) fn release(&self, service: &ServiceName, file: &Path) {
        let age = parse(file, &self.host).map(|(_, time)| time).unwrap_or_default();
        self.index().remove(service, &(age, file.clone()));
    }

    /// Returns the bytes of all files, and the number of removed files of each Service.
    pub(super) fn counts(&self) -> (u64, Vec<(ServiceName, u64)>) {
        let index = self.index();
        let removed = index
            .services
            .iter()
            .map(|(name, files)| (name.clone(), files.removed));
        (index.bytes, removed.collect())
    }

    fn check_space(&self) -> Result<(), ReserveError> {
        let percent = self.limits.free_percent_min;
        match (self.probe_space)(&self.directory) {
            Ok(DiskSpace { free, total })
                if u128::from(free) * 100 >= u128::from(total) * u128::from(percent) =>
            {
                Ok(())
            }
            Ok(_) => Err(ReserveError::FileSystem {
                percent,
                directory: self.directory.clone(),
            }),
            Err(error) => Err(ReserveError::Removal(error.to_string())),
        }
    }

    /// Adds the files of earlier processes to the index.
    async fn index_existing(&self) -> object_store::Result<()> {
        let mut files = self.store.list(None);
        while let Some(ObjectMeta { location, size, .. }) = files.try_next().await? {
            if let Some((service, time)) = parse(&location, &self.host) {
                let bytes = size.max(FILE_BYTES_MIN);
                self.index().add(&service, time, location, bytes);
            }
        }
        Ok(())
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    fn add(&mut self, service: &ServiceName, age: Box<str>, file: Path, bytes: u64) {
        let files = self.services.entry(service.clone()).or_default();
        let before = files.by_age.insert((age, file), bytes).unwrap_or(0);
        files.bytes = files.bytes + bytes - before;
        self.bytes = self.bytes + bytes - before;
    }

    fn remove(&mut self, service: &ServiceName, file: &(Box<str>, Path)) {
        if let Some(files) = self.services.get_mut(service)
            && let Some(bytes) = files.by_age.remove(file)
        {
            files.bytes -= bytes;
            self.bytes -= bytes;
        }
    }

    /// Removes from the index the next file that must be deleted, so that `more` bytes of a Service are within the
    /// limits. Returns `None` if they are within the limits.
    ///
    /// For the limit of all Services, it is the oldest file of the Service with most bytes. One Service therefore does
    /// not remove the logs of others.
    fn oldest_beyond(&mut self, limits: &DirectoryLimits, service: &ServiceName, more: u64) -> Option<Path> {
        let service_bytes = self.services.get(service).map_or(0, |files| files.bytes);
        let name = if service_bytes > 0 && service_bytes + more > limits.service_bytes_max {
            service.clone()
        } else if self.bytes > 0 && self.bytes + more > limits.bytes_max {
            let most = self.services.iter().max_by_key(|(_, files)| files.bytes)?;
            most.0.clone()
        } else {
            return None;
        };
        let files = self.services.get_mut(&name)?;
        let (file, bytes) = files.by_age.pop_first()?;
        files.bytes -= bytes;
        files.removed += 1;
        self.bytes -= bytes;
        Some(file.1)
    }
}

/// Returns the Service and the time of a file; `None` if it is not an access log of this node. See
/// [`super::batch::name`].
fn parse(file: &Path, host: &str) -> Option<(ServiceName, Box<str>)> {
    let name = file.filename()?.strip_suffix(".log")?;
    let (rest, random) = name.rsplit_once('_')?;
    let (rest, time) = rest.rsplit_once('_')?;
    let rest = rest.strip_suffix(host)?.strip_suffix('_')?;
    let (namespace, name) = rest.split_once('_')?;
    let is_ours = random.len() == 16
        && random.bytes().all(|byte| byte.is_ascii_hexdigit())
        && time.len() == "20260102T030405Z".len()
        && time.ends_with('Z');
    is_ours.then(|| {
        let service = ServiceName {
            namespace: namespace.into(),
            name: name.into(),
        };
        (service, time.into())
    })
}
