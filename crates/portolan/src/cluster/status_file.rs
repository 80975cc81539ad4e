//! Status file of `portolan up` and `portolan join`, which `portolan status` reads, and the lock of the data directory.
//!
//! The lock file contains the process ID and is locked for the life of the process. The status file is replaced
//! atomically at each change.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::FileError;

const LOCK: &str = "up.lock";
const STATUS: &str = "up.json";
/// Time for which a killed process may hold the lock: the kernel closes its sockets first, and some of them block.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two attempts to take the lock of a killed process.
const LOCK_RETRY_PERIOD: Duration = Duration::from_millis(20);
/// SIGKILL in the signal sets of proc_pid_status(5).
const KILL_BIT: u64 = 1 << 8;

/// Status of a process and its components.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessStatus {
    /// Process ID.
    pub pid: u32,
    /// Path of a kubeconfig for the API server.
    pub kubeconfig: PathBuf,
    /// Name of the Node; empty until the components have started.
    #[serde(default)]
    pub node_name: String,
    /// Components by name.
    #[serde(alias = "parts")]
    pub components: BTreeMap<String, ComponentStatus>,
}

/// Status of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ComponentStatus {
    /// True if the component runs, false if it waits for a restart.
    pub is_running: bool,
    /// Time of the last change, in seconds since 1970.
    pub since_seconds: u64,
    /// Restarts since the start of the process.
    pub restarts: u32,
    /// Reason of the last failure.
    pub reason: Option<String>,
}

/// Failed access to the data directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusFileError {
    /// A file cannot be read or written.
    #[error("{0}")]
    File(#[from] FileError),
    /// Another process holds the lock.
    #[error(
        "portolan is running already with --data-dir {}, as process {pid}; see portolan status",
        directory.display()
    )]
    Locked {
        /// Data directory.
        directory: PathBuf,
        /// ID of the other process.
        pid: String,
    },
    /// The status file is invalid, for example that of another version.
    #[error("invalid {}: {source}", path.display())]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// Violation of the format.
        source: serde_json::Error,
    },
}

impl StatusFileError {
    /// Returns true if another user owns the data directory.
    pub(crate) fn is_permission_denied(&self) -> bool {
        matches!(self, Self::File(error) if error.source.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// Status file of this process. The value holds the lock of the data directory.
#[derive(Debug)]
pub(crate) struct StatusFile {
    directory: PathBuf,
    status: Mutex<ProcessStatus>,
    _lock: File,
}

impl StatusFile {
    /// Creates and locks the data directory. `kubeconfig` is the path for [`ProcessStatus::kubeconfig`].
    ///
    /// # Errors
    ///
    /// [`StatusFileError`] if another process holds the lock or a file is inaccessible.
    pub(crate) fn open(directory: &Path, kubeconfig: &Path) -> Result<Self, StatusFileError> {
        // The directory contains keys.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(FileError::at(directory))?;
        let path = directory.join(LOCK);
        let mut lock = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(FileError::at(&path))?;
        take_lock(&mut lock, &path, directory)?;
        let pid = std::process::id();
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{pid}"))
            .map_err(FileError::at(&path))?;
        Ok(Self {
            directory: directory.to_owned(),
            status: Mutex::new(ProcessStatus {
                pid,
                kubeconfig: kubeconfig.to_owned(),
                ..ProcessStatus::default()
            }),
            _lock: lock,
        })
    }

    /// Records the name of the Node.
    pub(crate) fn set_node_name(&self, name: &str) {
        self.update(|status| name.clone_into(&mut status.node_name));
    }

    /// Records the start or restart of a component.
    pub(crate) fn set_running(&self, name: &str) {
        self.update(|status| {
            let before = status.components.get(name);
            let component = ComponentStatus {
                is_running: true,
                since_seconds: now_seconds(),
                restarts: before.map_or(0, |component| component.restarts + 1),
                reason: before.and_then(|component| component.reason.clone()),
            };
            status.components.insert(name.to_owned(), component);
        });
    }

    /// Records the failure of a component.
    pub(crate) fn set_failed(&self, name: &str, reason: &str) {
        self.update(|status| {
            if let Some(component) = status.components.get_mut(name) {
                component.is_running = false;
                component.since_seconds = now_seconds();
                component.reason = Some(reason.to_owned());
            }
        });
    }

    fn update(&self, update: impl FnOnce(&mut ProcessStatus)) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        update(&mut status);
        let temporary = self.directory.join(format!(".{STATUS}"));
        let written = serde_json::to_vec(&*status)
            .map_err(io::Error::from)
            .and_then(|json| fs::write(&temporary, json))
            .and_then(|()| fs::rename(&temporary, self.directory.join(STATUS)));
        if let Err(error) = written {
            tracing::warn!(%error, "status file for portolan status not written");
        }
    }
}

/// Locks a file. Waits for the exit of a killed process that still holds the lock.
fn take_lock(lock: &mut File, path: &Path, directory: &Path) -> Result<(), StatusFileError> {
    let deadline = Instant::now() + EXIT_TIMEOUT;
    while flock(&*lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut pid = String::new();
        lock.rewind()
            .and_then(|()| lock.read_to_string(&mut pid))
            .map_err(FileError::at(path))?;
        if !is_exiting(pid.trim()) || Instant::now() >= deadline {
            return Err(StatusFileError::Locked {
                directory: directory.to_owned(),
                pid: pid.trim().to_owned(),
            });
        }
        std::thread::sleep(LOCK_RETRY_PERIOD);
    }
    Ok(())
}

/// Returns true if a directory is a data directory of `up` or `join`.
pub(crate) fn is_data_directory(directory: &Path) -> bool {
    directory.join(LOCK).is_file()
}

/// Reads the status of the process that holds the lock of a data directory; `None` if there is no such process.
///
/// # Errors
///
/// [`StatusFileError`] if a file is unreadable or invalid.
pub(crate) fn read(directory: &Path) -> Result<Option<ProcessStatus>, StatusFileError> {
    let path = directory.join(LOCK);
    let lock = match File::open(&path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::at(&path)(error).into()),
    };
    if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
        return Ok(None);
    }
    let path = directory.join(STATUS);
    let json = match fs::read(&path) {
        Ok(json) => json,
        // The process has just started.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(ProcessStatus::default())),
        Err(error) => return Err(FileError::at(&path)(error).into()),
    };
    let status = serde_json::from_slice(&json);
    status
        .map(Some)
        .map_err(|source| StatusFileError::Invalid { path, source })
}

/// Returns true if a process is killed, a zombie, or absent (proc_pid_status(5)).
fn is_exiting(pid: &str) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return true;
    };
    let field = |name: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    };
    let has_kill = |set: Option<String>| {
        let set = set.and_then(|set| u64::from_str_radix(&set, 16).ok());
        set.is_some_and(|set| set & KILL_BIT != 0)
    };
    field("State:").is_some_and(|state| state.starts_with(['Z', 'X']))
        || has_kill(field("SigPnd:"))
        || has_kill(field("ShdPnd:"))
}

/// Returns the seconds since 1970.
pub(crate) fn now_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |passed| passed.as_secs())
}
