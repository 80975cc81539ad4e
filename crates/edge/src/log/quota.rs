//! Bounds on what access logs take of a directory: bytes of each Service, bytes in all, and a part of the file system that
//! stays free. The oldest files go first. Files that this module did not name are never touched.

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

/// What a file counts for at least: a block of the file system. So a bound of bytes bounds the number of files, too.
const FILE_BYTES_MIN: u64 = 4_096;
/// Files that are removed for a new one at most: those of a Service whose quota was lowered go in several steps.
const REMOVED_AT_ONCE_MAX: usize = 1_024;

/// How much access logs may take of their directory.
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

/// Why a file is not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRoom {
    /// The store or others fill the file system.
    #[error("less than {percent} % of the file system of {directory} is free: free some of it")]
    FileSystem {
        /// The bound.
        percent: u8,
        /// The directory of access logs.
        directory: PathBuf,
    },
    /// It alone is larger than the quota.
    #[error("a file of {bytes} bytes is larger than the quota of {quota} bytes")]
    Quota {
        /// Of the file.
        bytes: u64,
        /// The bound.
        quota: u64,
    },
    /// Old files cannot be found or removed.
    #[error("old access logs cannot be removed: {0}")]
    Removal(String),
}

/// Bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    /// Those that this process may use.
    pub free: u64,
    /// All of them.
    pub total: u64,
}

/// Tells the space of the file system of a directory.
pub(super) type TellSpace = fn(&std::path::Path) -> std::io::Result<Space>;

/// The space as the kernel tells it.
pub(super) fn space(directory: &std::path::Path) -> std::io::Result<Space> {
    let told = rustix::fs::statvfs(directory)?;
    Ok(Space {
        free: told.f_bavail.saturating_mul(told.f_frsize),
        total: told.f_blocks.saturating_mul(told.f_frsize),
    })
}

/// The files of a directory that this machine's access logs consist of.
#[derive(Debug)]
pub(super) struct Quota {
    limits: DirectoryLimits,
    directory: PathBuf,
    host: Arc<str>,
    store: Arc<dyn ObjectStore>,
    tell_space: TellSpace,
    /// Whether files of before this process are in the index.
    has_read: OnceCell<()>,
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    services: BTreeMap<ServiceName, Files>,
    bytes: u64,
}

/// The files of a Service.
#[derive(Debug, Default)]
struct Files {
    /// Bytes of each, the oldest first.
    by_age: BTreeMap<(Box<str>, Path), u64>,
    bytes: u64,
    removed: u64,
}

impl Quota {
    /// For a directory to which `store` writes, on the machine of that name.
    pub(super) fn new(
        limits: DirectoryLimits,
        directory: PathBuf,
        host: Arc<str>,
        store: Arc<dyn ObjectStore>,
        tell_space: TellSpace,
    ) -> Self {
        Self {
            limits,
            directory,
            host,
            store,
            tell_space,
            has_read: OnceCell::new(),
            index: Mutex::default(),
        }
    }

    /// Makes room for a file of a Service and counts it; older files are removed as needed.
    ///
    /// # Errors
    /// See [`NoRoom`]; nothing is counted then.
    pub(super) async fn reserve(&self, service: &ServiceName, file: &Path, bytes: u64) -> Result<(), NoRoom> {
        self.check_space()?;
        let quota = self.limits.service_bytes_max.min(self.limits.bytes_max);
        if bytes > quota {
            return Err(NoRoom::Quota { bytes, quota });
        }
        self.has_read
            .get_or_try_init(|| self.read())
            .await
            .map_err(|error| NoRoom::Removal(error.to_string()))?;
        let bytes = bytes.max(FILE_BYTES_MIN);
        for _ in 0..REMOVED_AT_ONCE_MAX {
            let Some(old) = self.index().oldest_beyond(&self.limits, service, bytes) else {
                break;
            };
            match self.store.delete(&old).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(NoRoom::Removal(error.to_string())),
            }
        }
        let age = parse(file, &self.host).map(|(_, time)| time).unwrap_or_default();
        self.index().add(service, age, file.clone(), bytes);
        Ok(())
    }

    /// A file that was counted could not be written.
    pub(super) fn release(&self, service: &ServiceName, file: &Path) {
        let age = parse(file, &self.host).map(|(_, time)| time).unwrap_or_default();
        self.index().remove(service, &(age, file.clone()));
    }

    /// Bytes of the files of all Services, and the files that were removed of each.
    pub(super) fn counts(&self) -> (u64, Vec<(ServiceName, u64)>) {
        let index = self.index();
        let removed = index
            .services
            .iter()
            .map(|(name, files)| (name.clone(), files.removed));
        (index.bytes, removed.collect())
    }

    fn check_space(&self) -> Result<(), NoRoom> {
        let percent = self.limits.free_percent_min;
        match (self.tell_space)(&self.directory) {
            Ok(Space { free, total })
                if u128::from(free) * 100 >= u128::from(total) * u128::from(percent) =>
            {
                Ok(())
            }
            Ok(_) => Err(NoRoom::FileSystem {
                percent,
                directory: self.directory.clone(),
            }),
            Err(error) => Err(NoRoom::Removal(error.to_string())),
        }
    }

    /// Finds the files that earlier processes wrote.
    async fn read(&self) -> object_store::Result<()> {
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

    /// Takes out the file that must go before `more` bytes of a Service are within the limits; nothing if they are. For the
    /// bound of all Services it is the oldest one of the Service that has most, so that one Service does not remove the
    /// logs of the others.
    fn oldest_beyond(&mut self, limits: &DirectoryLimits, service: &ServiceName, more: u64) -> Option<Path> {
        let of_service = self.services.get(service).map_or(0, |files| files.bytes);
        let name = if of_service > 0 && of_service + more > limits.service_bytes_max {
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

/// The Service of a file, and when it was written; nothing for files that are not this machine's access logs. See
/// [`super::part::name`].
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
