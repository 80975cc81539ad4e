//! Manifests of static Pods: files that are scanned periodically.
//!
//! The rules are the kubelet's (`pkg/kubelet/config/file.go`). The node name is appended to the Pod name. The UID is a
//! hash of the manifest, so a changed file is another Pod. Static Pods refer to no objects of the API. If a file
//! becomes invalid, the Pods of its last valid content stay; this differs from the kubelet.

mod parse;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::object::{ObjectKey, Resource};
use serde_json::Value;
use tokio::sync::Notify;

use crate::object::Pod;

pub use parse::{ManifestError, parse};

#[cfg(test)]
mod tests;

/// Largest file that is read: far more than any Pod that the API accepts.
const FILE_BYTES_MAX: u64 = 3 << 20;
/// Files that are read: a node has a few hundred Pods at most.
const FILES_MAX: usize = 1_024;

/// Pod of a manifest.
#[derive(Clone, Debug)]
pub struct StaticPod {
    /// Pod as the worker runs it.
    pub pod: Arc<Pod>,
    /// Object of its mirror Pod.
    pub mirror: Arc<Value>,
    /// Signals that the mirror Pod in the API may differ from `mirror`.
    pub mirror_changed: Arc<Notify>,
}

impl StaticPod {
    /// Returns the namespace and name.
    pub fn key(&self) -> ObjectKey {
        self.pod.metadata().key()
    }
}

/// File as it was read last.
struct File {
    content: Vec<u8>,
    pods: Vec<StaticPod>,
}

/// Manifests of one node.
pub struct Manifests {
    path: PathBuf,
    node_name: String,
    files: BTreeMap<PathBuf, File>,
    /// Last logged error of the directory.
    logged_error: Option<String>,
}

impl Manifests {
    /// Returns the manifests at `path`, a file or a directory, without reading them.
    pub fn new(path: PathBuf, node_name: String) -> Self {
        Self {
            path,
            node_name,
            files: BTreeMap::new(),
            logged_error: None,
        }
    }

    /// Reads the files that have changed. Returns the Pods of all files by UID. Errors are logged once for each
    /// content.
    pub fn scan(&mut self) -> BTreeMap<String, StaticPod> {
        match files(&self.path) {
            Ok(paths) => {
                self.logged_error = None;
                self.files.retain(|path, _| paths.contains(path));
                for path in paths {
                    self.read(path);
                }
            }
            Err(error) => self.log_once(&format!("{}: {error}", self.path.display())),
        }
        self.pods()
    }

    fn read(&mut self, path: PathBuf) {
        let content = match read_file(&path) {
            Ok(content) => content,
            // The file may have been removed since the directory was listed.
            Err(error) => {
                return tracing::warn!(path = %path.display(), %error, "manifest not read");
            }
        };
        let previous = self.files.remove(&path);
        if let Some(previous) = previous.as_ref().filter(|previous| previous.content == content) {
            let pods = previous.pods.clone();
            self.files.insert(path, File { content, pods });
            return;
        }
        let pods = match parse(&content, &path, &self.node_name) {
            Ok(pods) => pods,
            Err(error) => {
                tracing::error!(%error, "invalid manifest; Pods of its last valid content stay");
                previous.map(|previous| previous.pods).unwrap_or_default()
            }
        };
        self.files.insert(path, File { content, pods });
    }

    /// Returns the Pods of all files. Of two Pods with the same name, that of the first file counts.
    fn pods(&self) -> BTreeMap<String, StaticPod> {
        let mut pods = BTreeMap::new();
        let mut sources: BTreeMap<ObjectKey, &Path> = BTreeMap::new();
        for (path, file) in &self.files {
            for pod in &file.pods {
                let key = pod.key();
                if let Some(first) = sources.get(&key) {
                    tracing::warn!(
                        pod = %key, first = %first.display(), second = %path.display(),
                        "second manifest of a Pod ignored"
                    );
                    continue;
                }
                sources.insert(key, path);
                pods.insert(pod.pod.metadata.uid.clone(), pod.clone());
            }
        }
        pods
    }

    fn log_once(&mut self, error: &str) {
        if self.logged_error.as_deref() != Some(error) {
            tracing::error!(error, "manifests of static Pods not read; running Pods stay");
            self.logged_error = Some(error.to_owned());
        }
    }
}

/// Returns the files in the order of their names. Hidden files may be incomplete.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && entry.path().is_file() {
            files.push(entry.path());
        }
        if files.len() > FILES_MAX {
            return Err(io::Error::other(format!("more than {FILES_MAX} files")));
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let read = fs::File::open(path)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut content)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(content)
}
