//! Manifests of static Pods: the files of a directory, read again and again.
//!
//! The rules are the kubelet's (`pkg/kubelet/config/file.go`): the Pod's name has the node's behind it, its UID is made
//! of what the file says, so that a changed file is another Pod, and it refers to nothing that only the API has. Other
//! than there, a file that cannot be understood does not end what it stood for before.

mod read;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::object::{ObjectKey, Resource};
use serde_json::Value;
use tokio::sync::Notify;

use crate::object::Pod;

pub use read::{ManifestError, read};

#[cfg(test)]
mod tests;

/// Largest file that is read: far more than any Pod that the API would take.
const FILE_BYTES_MAX: u64 = 3 << 20;
/// Files that are read: a node has some hundred Pods at most.
const FILES_MAX: usize = 1_024;

/// A Pod that a file asks for.
#[derive(Clone, Debug)]
pub struct StaticPod {
    /// The Pod as it is run.
    pub pod: Arc<Pod>,
    /// What the API shows of it.
    pub mirror: Arc<Value>,
    /// Told when the API's mirror may not be what it should be.
    pub mirror_changed: Arc<Notify>,
}

impl StaticPod {
    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        self.pod.metadata().key()
    }
}

/// A file as it was read last.
struct File {
    content: Vec<u8>,
    pods: Vec<StaticPod>,
}

/// The manifests of one node.
pub struct Manifests {
    path: PathBuf,
    node_name: String,
    files: BTreeMap<PathBuf, File>,
    /// What was said of the directory itself.
    complaint: Option<String>,
}

impl Manifests {
    /// Manifests at `path`, a file or a directory; nothing is read yet.
    pub fn new(path: PathBuf, node_name: String) -> Self {
        Self {
            path,
            node_name,
            files: BTreeMap::new(),
            complaint: None,
        }
    }

    /// Reads what has changed; the Pods that are wanted now, by UID. What cannot be read or understood is logged, once
    /// for each content.
    pub fn scan(&mut self) -> BTreeMap<String, StaticPod> {
        match files(&self.path) {
            Ok(found) => {
                self.complaint = None;
                self.files.retain(|path, _| found.contains(path));
                for path in found {
                    self.look_at(path);
                }
            }
            Err(error) => self.complain(&format!("{}: {error}", self.path.display())),
        }
        self.wanted()
    }

    fn look_at(&mut self, path: PathBuf) {
        let content = match read_file(&path) {
            Ok(content) => content,
            // It may have been removed between the two looks.
            Err(error) => {
                return tracing::warn!(path = %path.display(), %error, "a manifest cannot be read");
            }
        };
        let before = self.files.remove(&path);
        if let Some(before) = before.as_ref().filter(|before| before.content == content) {
            let (content, pods) = (before.content.clone(), before.pods.clone());
            self.files.insert(path, File { content, pods });
            return;
        }
        let pods = match read(&content, &path, &self.node_name) {
            Ok(pods) => pods,
            Err(error) => {
                tracing::error!(%error, "a manifest is not understood; what it stood for before stays");
                before.map(|before| before.pods).unwrap_or_default()
            }
        };
        self.files.insert(path, File { content, pods });
    }

    /// The Pods of all files. Of two with the same name the first file's counts.
    fn wanted(&self) -> BTreeMap<String, StaticPod> {
        let mut wanted = BTreeMap::new();
        let mut sources: BTreeMap<ObjectKey, &Path> = BTreeMap::new();
        for (path, file) in &self.files {
            for pod in &file.pods {
                let key = pod.key();
                if let Some(first) = sources.get(&key) {
                    tracing::warn!(
                        pod = %key, first = %first.display(), second = %path.display(),
                        "two manifests of the same name; the first counts"
                    );
                    continue;
                }
                sources.insert(key, path);
                wanted.insert(pod.pod.metadata.uid.clone(), pod.clone());
            }
        }
        wanted
    }

    fn complain(&mut self, complaint: &str) {
        if self.complaint.as_deref() != Some(complaint) {
            tracing::error!(
                complaint,
                "manifests of static Pods cannot be read; what runs stays"
            );
            self.complaint = Some(complaint.to_owned());
        }
    }
}

/// The files, in the order of their names; those whose names begin with a dot are somebody's unfinished ones.
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
