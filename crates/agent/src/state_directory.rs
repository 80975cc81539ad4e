//! What the agent keeps on disk: a directory for each Pod, by its UID. A restarted agent finds its Pods there.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::containers::Memory;
use crate::user_namespaces::owners::PodUsers;
use crate::volumes::memory;

#[cfg(test)]
mod tests;

const RECORD: &str = "record.json";
const MEMORY: &str = "containers.json";
const RANGES: &str = "ranges.json";
const SECCOMP: &str = "seccomp";
/// Longest UID that names a directory: the server's have 36 characters.
const UID_BYTES_MAX: usize = 64;

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file or directory could not be read, written or removed. Retrying helps once the disk has room.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// What failed.
        source: io::Error,
    },
    /// The UID cannot name a directory: the server does not make such ones.
    #[error("Pod UID {uid:?} is not one that a server makes")]
    Uid {
        /// The UID.
        uid: String,
    },
}

/// What must be known to take a Pod over, or away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Namespace of the Pod.
    pub namespace: String,
    /// Name of the Pod.
    pub name: String,
    /// UID of the Pod.
    pub uid: String,
    /// Addresses from the node's Pod ranges; none for a Pod in the node's own network.
    pub addresses: Vec<IpAddr>,
    /// Whether it is a static Pod, which is wanted by a file and not by the API.
    #[serde(default)]
    pub is_static: bool,
    /// User namespace of the Pod; `None` for a Pod that shares the users of the host.
    #[serde(default)]
    pub users: Option<PodUsers>,
}

/// The agent's directory.
#[derive(Clone, Debug)]
pub struct StateDirectory {
    pods: PathBuf,
    ranges: PathBuf,
    seccomp: PathBuf,
}

/// A Pod's directory.
#[derive(Clone, Debug)]
pub struct PodDirectory {
    path: PathBuf,
}

impl StateDirectory {
    /// Makes the directory if it is not there, for its owner alone.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        // The sandboxes' processes start in a directory of their own, so paths must not be relative.
        let path = std::path::absolute(path).map_err(|source| file_error(path, source))?;
        let pods = path.join("pods");
        create_private(&pods)?;
        Ok(Self {
            pods,
            ranges: path.join(RANGES),
            seccomp: path.join(SECCOMP),
        })
    }

    /// Directory of the administrator's seccomp profiles, as in kubelet's root directory.
    pub fn seccomp_profiles(&self) -> PathBuf {
        self.seccomp.clone()
    }

    /// The ranges of Pods' addresses that the Node had last; none if that is not known.
    pub fn ranges(&self) -> Vec<IpNet> {
        let kept = fs::read(&self.ranges).ok();
        kept.and_then(|json| serde_json::from_slice(&json).ok())
            .unwrap_or_default()
    }

    /// Keeps the Node's ranges for an agent that starts before it reaches the API.
    pub fn keep_ranges(&self, ranges: &[IpNet]) -> Result<(), StateError> {
        let failed = |source: io::Error| file_error(&self.ranges, source);
        let unfinished = self.ranges.with_extension("new");
        let json = serde_json::to_string(ranges).map_err(|error| failed(error.into()))?;
        fs::write(&unfinished, json)
            .and_then(|()| fs::rename(&unfinished, &self.ranges))
            .map_err(failed)
    }

    /// The Pods that left a record, and the directories of those whose record cannot be read.
    pub fn records(&self) -> Result<(Vec<Record>, Vec<PodDirectory>), StateError> {
        let (mut records, mut broken) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.pods).map_err(|source| file_error(&self.pods, source))? {
            let entry = entry.map_err(|source| file_error(&self.pods, source))?;
            let directory = PodDirectory { path: entry.path() };
            match directory.record() {
                Some(record) if entry.file_name().to_str() == Some(&record.uid) => records.push(record),
                _ => broken.push(directory),
            }
        }
        Ok((records, broken))
    }

    /// The directory of the Pod with that name; of the latest, if one of before has not gone yet.
    pub fn find(&self, namespace: &str, name: &str) -> Option<PodDirectory> {
        let (records, _) = self.records().ok()?;
        let named = records
            .iter()
            .filter(|record| record.namespace == namespace && record.name == name);
        let directories = named.filter_map(|record| self.pod(&record.uid).ok());
        let written = |directory: &PodDirectory| {
            fs::metadata(directory.path.join(RECORD))
                .and_then(|m| m.modified())
                .ok()
        };
        directories.max_by_key(written)
    }

    /// The directory of the Pod with that UID; it need not be there.
    pub fn pod(&self, uid: &str) -> Result<PodDirectory, StateError> {
        let plain = uid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if uid.is_empty() || uid.len() > UID_BYTES_MAX || !plain {
            return Err(StateError::Uid { uid: uid.to_owned() });
        }
        Ok(PodDirectory {
            path: self.pods.join(uid),
        })
    }
}

impl PodDirectory {
    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory and writes the record.
    pub fn create(&self, record: &Record) -> Result<(), StateError> {
        create_private(&self.path.join("logs"))?;
        let json = serde_json::to_string(record).map_err(|error| file_error(&self.path, error.into()))?;
        self.write(RECORD, &json).map(drop)
    }

    /// Writes a file of the Pod, whole or not at all; its path.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf, StateError> {
        let path = self.path.join(name);
        let unfinished = self.path.join(format!(".{name}"));
        match fs::write(&unfinished, content).and_then(|()| fs::rename(&unfinished, &path)) {
            Ok(()) => Ok(path),
            Err(source) => Err(file_error(&path, source)),
        }
    }

    /// Keeps what the next agent must know of the containers.
    pub fn write_memory(&self, memory: &Memory) -> Result<(), StateError> {
        let json = serde_json::to_string(memory).map_err(|error| file_error(&self.path, error.into()))?;
        self.write(MEMORY, &json).map(drop)
    }

    /// What an earlier agent kept; nothing if it cannot be read.
    pub fn memory(&self) -> Option<Memory> {
        serde_json::from_slice(&fs::read(self.path.join(MEMORY)).ok()?).ok()
    }

    /// Where the sandbox is reached.
    pub fn socket(&self) -> PathBuf {
        self.path.join("sandbox.sock")
    }

    /// Where the sandbox itself complains.
    pub fn sandbox_log(&self) -> PathBuf {
        self.path.join("sandbox.log")
    }

    /// Where a container's output goes at its run of that number.
    pub fn log(&self, container: &str, run: u32) -> PathBuf {
        self.logs(container).join(format!("{run}.log"))
    }

    /// Makes room for the log of a run: that of the run before is kept, others go.
    pub fn prepare_log(&self, container: &str, run: u32) -> Result<PathBuf, StateError> {
        let logs = self.logs(container);
        create_private(&logs)?;
        let kept = [run, run.saturating_sub(1)].map(|run| format!("{run}.log"));
        for entry in fs::read_dir(&logs).map_err(|source| file_error(&logs, source))? {
            let entry = entry.map_err(|source| file_error(&logs, source))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !kept.iter().any(|kept| name.starts_with(kept.as_str())) {
                fs::remove_file(entry.path()).map_err(|source| file_error(&entry.path(), source))?;
            }
        }
        Ok(self.log(container, run))
    }

    fn logs(&self, container: &str) -> PathBuf {
        // Names of containers are DNS labels; a slash in one of an odd server must not lead elsewhere.
        self.path.join("logs").join(container.replace('/', "_"))
    }

    /// Where its volumes are.
    pub fn volumes(&self) -> PathBuf {
        self.path.join("volumes")
    }

    /// An empty directory.
    pub fn staging(&self) -> Result<PathBuf, StateError> {
        let path = self.path.join("staging");
        create_private(&path)?;
        Ok(path)
    }

    /// Removes the directory with all that is in it; fine if it is gone.
    pub fn remove(&self) -> Result<(), StateError> {
        memory::unmount_all(&self.volumes());
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file_error(&self.path, error)),
            _ => Ok(()),
        }
    }

    fn record(&self) -> Option<Record> {
        serde_json::from_slice(&fs::read(self.path.join(RECORD)).ok()?).ok()
    }
}

fn create_private(path: &Path) -> Result<(), StateError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| file_error(path, source))
}

fn file_error(path: &Path, source: io::Error) -> StateError {
    StateError::File {
        path: path.to_owned(),
        source,
    }
}
