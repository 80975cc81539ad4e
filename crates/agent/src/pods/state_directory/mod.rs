//! State directory of the agent: one directory for each Pod, named by its UID. A restarted agent finds its Pods there.

mod removal;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::containers::Checkpoint;
use crate::network::host_ports::HostPort;
use crate::volumes::file_owners::PodUsers;
use crate::volumes::tmpfs;

#[cfg(test)]
mod tests;

const RECORD: &str = "record.json";
const CHECKPOINT: &str = "containers.json";
const POD_CIDRS: &str = "ranges.json";
const SECCOMP: &str = "seccomp";
const IMAGE_ACCESS: &str = "image-access.json";
/// Longest UID that names a directory. UIDs of API servers have 36 characters.
const UID_BYTES_MAX: usize = 64;

/// Error of the state directory.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file or directory cannot be read, written or removed. A retry may succeed once the disk has space.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
    /// The UID is not usable as the name of a directory. API servers do not issue such UIDs.
    #[error("Pod UID {uid:?}: expected 1 to {UID_BYTES_MAX} letters, digits and dashes")]
    Uid {
        /// UID of the Pod.
        uid: String,
    },
}

/// Data for adopting or removing a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Namespace of the Pod.
    pub namespace: String,
    /// Name of the Pod.
    pub name: String,
    /// UID of the Pod.
    pub uid: String,
    /// Addresses from the node's Pod ranges; none in the host network.
    pub addresses: Vec<IpAddr>,
    /// Set for a static Pod, which comes from a manifest and not from the API.
    #[serde(default)]
    pub is_static: bool,
    /// User namespace of the Pod; `None` for a Pod that shares the users of the host.
    #[serde(default)]
    pub users: Option<PodUsers>,
    /// True if the sandbox can start containers from images.
    #[serde(default)]
    pub runs_images: bool,
    /// Ports of the node that lead to the Pod.
    #[serde(default)]
    pub host_ports: Vec<HostPort>,
    /// Control groups of a Pod that shares the PID namespace of the node: its processes outlive its sandbox. Another
    /// process of this program may be in another control group and would not find them.
    #[serde(default)]
    pub control_groups: Vec<PathBuf>,
}

/// State directory.
#[derive(Clone, Debug)]
pub struct StateDirectory {
    pods: PathBuf,
    pod_cidrs: PathBuf,
    seccomp: PathBuf,
    image_access: PathBuf,
}

/// Directory of one Pod.
#[derive(Clone, Debug)]
pub struct PodDirectory {
    path: PathBuf,
}

impl StateDirectory {
    /// Opens the directory, and creates it for its owner only.
    ///
    /// # Errors
    /// [`StateError::File`].
    pub fn open(path: &Path) -> Result<Self, StateError> {
        // Sandboxes have another working directory, so paths must be absolute.
        let path = std::path::absolute(path).map_err(|source| file_error(path, source))?;
        let pods = path.join("pods");
        create_private(&pods)?;
        Ok(Self {
            pods,
            pod_cidrs: path.join(POD_CIDRS),
            seccomp: path.join(SECCOMP),
            image_access: path.join(IMAGE_ACCESS),
        })
    }

    /// Returns the directory of the administrator's seccomp profiles, as in the kubelet's root directory.
    pub fn seccomp_profiles(&self) -> PathBuf {
        self.seccomp.clone()
    }

    /// Returns the path of the file with the namespaces that may use images.
    pub(crate) fn image_access(&self) -> PathBuf {
        self.image_access.clone()
    }

    /// Returns the last Pod ranges of the Node; none if they are unknown.
    pub fn pod_cidrs(&self) -> Vec<IpNet> {
        let stored = fs::read(&self.pod_cidrs).ok();
        stored
            .and_then(|json| serde_json::from_slice(&json).ok())
            .unwrap_or_default()
    }

    /// Stores the Pod ranges of the Node for an agent that starts without the API server.
    ///
    /// # Errors
    /// [`StateError::File`].
    pub fn write_pod_cidrs(&self, pod_cidrs: &[IpNet]) -> Result<(), StateError> {
        let failed = |source: io::Error| file_error(&self.pod_cidrs, source);
        let temporary = self.pod_cidrs.with_extension("new");
        let json = serde_json::to_string(pod_cidrs).map_err(|error| failed(error.into()))?;
        fs::write(&temporary, json)
            .and_then(|()| fs::rename(&temporary, &self.pod_cidrs))
            .map_err(failed)
    }

    /// Returns the records of all Pods, and the directories without a readable record.
    ///
    /// # Errors
    /// [`StateError::File`] if the directory cannot be listed.
    pub fn records(&self) -> Result<(Vec<Record>, Vec<PodDirectory>), StateError> {
        let (mut records, mut unreadable) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.pods).map_err(|source| file_error(&self.pods, source))? {
            let entry = entry.map_err(|source| file_error(&self.pods, source))?;
            let directory = PodDirectory { path: entry.path() };
            match directory.record() {
                Some(record) if entry.file_name().to_str() == Some(&record.uid) => records.push(record),
                _ => unreadable.push(directory),
            }
        }
        Ok((records, unreadable))
    }

    /// Returns the directory of the Pod with that name. Of several Pods, that of the latest.
    pub fn find_pod(&self, namespace: &str, name: &str) -> Option<PodDirectory> {
        let (records, _) = self.records().ok()?;
        let named = records
            .iter()
            .filter(|record| record.namespace == namespace && record.name == name);
        let directories = named.filter_map(|record| self.pod(&record.uid).ok());
        let written = |directory: &PodDirectory| {
            fs::metadata(directory.path.join(RECORD))
                .and_then(|metadata| metadata.modified())
                .ok()
        };
        directories.max_by_key(written)
    }

    /// Returns the directory of the Pod with that UID, which need not exist.
    ///
    /// # Errors
    /// [`StateError::Uid`].
    pub fn pod(&self, uid: &str) -> Result<PodDirectory, StateError> {
        let is_plain = uid
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if uid.is_empty() || uid.len() > UID_BYTES_MAX || !is_plain {
            return Err(StateError::Uid { uid: uid.to_owned() });
        }
        Ok(PodDirectory {
            path: self.pods.join(uid),
        })
    }
}

impl PodDirectory {
    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the directory and writes the record.
    ///
    /// # Errors
    /// [`StateError::File`].
    pub fn create(&self, record: &Record) -> Result<(), StateError> {
        create_private(&self.path.join("logs"))?;
        let json = serde_json::to_string(record).map_err(|error| file_error(&self.path, error.into()))?;
        self.write(RECORD, &json).map(drop)
    }

    /// Writes a file of the Pod atomically and returns its path.
    ///
    /// # Errors
    /// [`StateError::File`].
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf, StateError> {
        let path = self.path.join(name);
        let temporary = self.path.join(format!(".{name}"));
        match fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, &path)) {
            Ok(()) => Ok(path),
            Err(source) => Err(file_error(&path, source)),
        }
    }

    /// Writes the checkpoint of the containers.
    ///
    /// # Errors
    /// [`StateError::File`].
    pub fn write_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StateError> {
        let json = serde_json::to_string(checkpoint).map_err(|error| file_error(&self.path, error.into()))?;
        self.write(CHECKPOINT, &json).map(drop)
    }

    /// Returns the checkpoint of the containers; `None` if there is no readable one.
    pub fn read_checkpoint(&self) -> Option<Checkpoint> {
        serde_json::from_slice(&fs::read(self.path.join(CHECKPOINT)).ok()?).ok()
    }

    /// Returns the path of the sandbox's socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("sandbox.sock")
    }

    /// Returns the path of the sandbox's error log.
    pub fn sandbox_log(&self) -> PathBuf {
        self.path.join("sandbox.log")
    }

    /// Returns the path of a container's log for the run with that restart count.
    pub fn log(&self, container: &str, run: u32) -> PathBuf {
        self.logs(container).join(format!("{run}.log"))
    }

    /// Prepares the log of a run and returns its path. The log of the previous run stays, older ones are removed.
    ///
    /// # Errors
    /// [`StateError::File`].
    pub fn prepare_log(&self, container: &str, run: u32) -> Result<PathBuf, StateError> {
        let logs = self.logs(container);
        create_private(&logs)?;
        let retained = [run, run.saturating_sub(1)].map(|run| format!("{run}.log"));
        for entry in fs::read_dir(&logs).map_err(|source| file_error(&logs, source))? {
            let entry = entry.map_err(|source| file_error(&logs, source))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !retained.iter().any(|log| name.starts_with(log.as_str())) {
                fs::remove_file(entry.path()).map_err(|source| file_error(&entry.path(), source))?;
            }
        }
        Ok(self.log(container, run))
    }

    fn logs(&self, container: &str) -> PathBuf {
        // Container names are DNS labels. A slash from an unusual server must not lead to another directory.
        self.path.join("logs").join(container.replace('/', "_"))
    }

    /// Returns the path of the termination message of a container's run.
    pub fn termination_message(&self, container: &str, run: u32) -> PathBuf {
        self.termination_messages(container).join(run.to_string())
    }

    /// Creates an empty file for the termination message of a run, which every user may write, and returns its path.
    /// Removes the files of earlier runs.
    ///
    /// # Errors
    /// [`StateError::File`].
    pub fn prepare_termination_message(&self, container: &str, run: u32) -> Result<PathBuf, StateError> {
        let directory = self.termination_messages(container);
        removal::remove_tree(&directory).map_err(|source| file_error(&directory, source))?;
        create_private(&directory)?;
        let path = self.termination_message(container, run);
        fs::File::create(&path)
            .and_then(|file| file.set_permissions(fs::Permissions::from_mode(0o666)))
            .map_err(|source| file_error(&path, source))?;
        Ok(path)
    }

    fn termination_messages(&self, container: &str) -> PathBuf {
        // As for logs, a slash must not lead to another directory.
        self.path.join("termination").join(container.replace('/', "_"))
    }

    /// Directories on disk that a container fills: writable layers, logs and termination messages.
    pub fn container_storage(&self, container: &str) -> [PathBuf; 3] {
        [
            self.writable_layers(container),
            self.logs(container),
            self.termination_messages(container),
        ]
    }

    /// Files of the Pod that its containers from images see in `/etc`, and can write.
    pub(crate) fn shared_files(&self) -> [PathBuf; 3] {
        ["hosts", "hostname", "resolv.conf"].map(|name| self.path.join(name))
    }

    /// Returns the directory of the volumes.
    pub fn volumes(&self) -> PathBuf {
        self.path.join("volumes")
    }

    /// Creates an empty directory for the writable layer of a run and returns its path. Removes the
    /// directories of earlier runs.
    ///
    /// # Errors
    /// [`StateError::File`].
    pub fn prepare_writable_layer(&self, container: &str, run: u32) -> Result<PathBuf, StateError> {
        let directory = self.writable_layers(container);
        removal::remove_tree(&directory).map_err(|source| file_error(&directory, source))?;
        let path = directory.join(run.to_string());
        create_private(&path)?;
        Ok(path)
    }

    fn writable_layers(&self, container: &str) -> PathBuf {
        // As for logs, a slash must not lead to another directory.
        self.path.join("writable").join(container.replace('/', "_"))
    }

    /// Creates an empty directory for sandboxes before 0.2.
    ///
    /// # Errors
    /// [`StateError::File`].
    pub fn staging(&self) -> Result<PathBuf, StateError> {
        let path = self.path.join("staging");
        create_private(&path)?;
        Ok(path)
    }

    /// Removes the directory with its content. Succeeds if it does not exist.
    ///
    /// # Errors
    /// [`StateError::File`].
    pub fn remove(&self) -> Result<(), StateError> {
        tmpfs::unmount_all(&self.volumes());
        removal::remove_tree(&self.path).map_err(|source| file_error(&self.path, source))
    }

    /// Removes the directory as [`PodDirectory::remove`] does, on a thread for blocking work: a container may have created
    /// millions of files.
    ///
    /// # Errors
    /// [`StateError::File`].
    pub async fn remove_on_thread(&self) -> Result<(), StateError> {
        let directory = self.clone();
        let removed = tokio::task::spawn_blocking(move || directory.remove()).await;
        removed.unwrap_or_else(|error| Err(file_error(&self.path, error.into())))
    }

    /// Returns the record of the Pod; `None` if there is no readable one.
    pub(crate) fn record(&self) -> Option<Record> {
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
