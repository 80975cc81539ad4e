//! The volumes of a Pod as directories of the node: made before its containers start, and kept up to date.

pub mod atomic;
pub mod directory;
mod fetch;
pub mod memory;
pub mod payload;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientError};

use crate::environment::{PodFacts, SourceKind};
use crate::object::{EmptyDir, HostPath, Pod, Volume};
use crate::quantity::Quantity;
use crate::user_namespaces::owners::{Owners, PodUsers};

use fetch::Fetched;
pub use fetch::read as read_object;

#[cfg(test)]
mod tests;

/// How often the content of volumes is compared with the API's: upstream takes up to a minute and a half.
const REFRESH_INTERVAL: Duration = Duration::from_secs(15);

/// Why a Pod's volume is not there: its containers wait. All but the first three may come right by themselves.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The Pod asks for a kind of volume that there is none of here.
    #[error(
        "volume {name:?} is of no kind that is supported: emptyDir, hostPath, configMap, secret, downwardAPI, projected"
    )]
    Kind {
        /// The volume.
        name: String,
    },
    /// A path that leads out of the volume.
    #[error("{path:?} is no path within a volume")]
    Path {
        /// The path.
        path: String,
    },
    /// A size that is none.
    #[error("emptyDir.sizeLimit: {text:?} is not a quantity, such as 64Mi")]
    SizeLimit {
        /// Content that was found.
        text: String,
    },
    /// The object is not there.
    #[error("{kind} \"{name}\" not found", kind = kind.singular())]
    Object {
        /// Which kind of object.
        kind: SourceKind,
        /// Name.
        name: String,
    },
    /// The object has no such key.
    #[error("{kind} \"{name}\" references non-existent key: {key}", kind = kind.singular())]
    Key {
        /// Which kind of object.
        kind: SourceKind,
        /// Name.
        name: String,
        /// The key.
        key: String,
    },
    /// A field that volumes cannot have.
    #[error("the downward API has nothing for {path:?}")]
    Field {
        /// The file.
        path: String,
    },
    /// No token of the Pod's ServiceAccount.
    #[error("failed to fetch token: {why}")]
    Token {
        /// Why.
        why: String,
    },
    /// The API does not answer.
    #[error(transparent)]
    Api(#[from] ClientError),
    /// The cluster's credentials are there.
    #[error(
        "hostPath {path} is where this node keeps the cluster's data and credentials; no Pod may have that"
    )]
    Hidden {
        /// Where.
        path: String,
    },
    /// What is there is not what the Pod asks for.
    #[error("hostPath type check failed: {path} is not {expected}")]
    HostPath {
        /// Where.
        path: String,
        /// What was asked for.
        expected: &'static str,
    },
    /// The disk.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Where.
        path: PathBuf,
        /// What failed.
        source: io::Error,
    },
}

/// The volumes of one Pod.
pub struct Volumes {
    directory: PathBuf,
    client: Client,
    pod: Arc<Pod>,
    facts: PodFacts,
    fetched: Fetched,
    hidden: Vec<PathBuf>,
    owners: Owners,
}

impl Volumes {
    /// Volumes below `directory`, none of which is there yet. None is made of the paths in `hidden`. `users` describes
    /// the user namespace of the Pod.
    pub fn new(
        directory: PathBuf,
        client: Client,
        pod: Arc<Pod>,
        facts: PodFacts,
        hidden: Vec<PathBuf>,
        users: Option<PodUsers>,
    ) -> Self {
        Self {
            directory,
            owners: Owners::of(users, pod.spec.security_context.fs_group),
            client,
            pod,
            facts,
            fetched: Fetched::default(),
            hidden,
        }
    }

    /// Makes all volumes, or fills them anew; where they are, by name. The error says of which volume it is.
    pub async fn prepare(&mut self) -> Result<BTreeMap<String, PathBuf>, (String, VolumeError)> {
        let mut places = BTreeMap::new();
        for volume in &self.pod.clone().spec.volumes {
            let place = self.prepare_one(volume).await;
            let place = place.map_err(|error| (volume.name.clone(), error))?;
            places.insert(volume.name.clone(), place);
        }
        Ok(places)
    }

    /// Whether anything of it can change.
    pub fn can_change(&self) -> bool {
        let volumes = &self.pod.spec.volumes;
        volumes
            .iter()
            .any(|volume| payload::projections(volume).is_some())
    }

    /// Keeps the volumes up to date for as long as it is polled.
    pub async fn keep_fresh(mut self) {
        loop {
            tokio::time::sleep(REFRESH_INTERVAL).await;
            for volume in &self.pod.clone().spec.volumes {
                if payload::projections(volume).is_none() {
                    continue;
                }
                // The content of before stays.
                if let Err(error) = self.prepare_one(volume).await {
                    tracing::warn!(pod = self.pod.metadata.name, volume = volume.name, %error, "a volume is not refreshed");
                }
            }
        }
    }

    async fn prepare_one(&mut self, volume: &Volume) -> Result<PathBuf, VolumeError> {
        if let Some(host_path) = &volume.host_path {
            return check_host_path(host_path, &self.hidden);
        }
        if !atomic::is_valid_path(&volume.name) {
            return Err(VolumeError::Path {
                path: volume.name.clone(),
            });
        }
        let place = self.directory.join(&volume.name);
        if let Some(empty_dir) = &volume.empty_dir {
            make_empty(&place, empty_dir, self.owners)?;
            return Ok(place);
        }
        let Some((projections, mode)) = payload::projections(volume) else {
            return Err(VolumeError::Kind {
                name: volume.name.clone(),
            });
        };
        self.fetched.update(&self.client, &self.pod, &projections).await?;
        let sources = payload::Sources {
            pod: &self.pod,
            facts: &self.facts,
            objects: &self.fetched.objects,
            tokens: &self.fetched.tokens(),
        };
        let files = payload::files(&projections, mode, &sources)?;
        atomic::write(&place, &files, self.owners).map_err(|source| file_error(&place, source))?;
        Ok(place)
    }
}

/// Makes those volumes of a Pod that are in memory. That comes before its sandbox, which sees what is mounted then.
/// The error says of which volume it is.
pub fn prepare_memory(
    directory: &Path,
    pod: &Pod,
    users: Option<PodUsers>,
) -> Result<(), Box<(String, VolumeError)>> {
    let owners = Owners::of(users, pod.spec.security_context.fs_group);
    for volume in &pod.spec.volumes {
        let Some(empty_dir) = volume.empty_dir.as_ref().filter(|empty| empty.is_in_memory()) else {
            continue;
        };
        let made = if atomic::is_valid_path(&volume.name) {
            make_empty(&directory.join(&volume.name), empty_dir, owners)
        } else {
            Err(VolumeError::Path {
                path: volume.name.clone(),
            })
        };
        made.map_err(|error| Box::new((volume.name.clone(), error)))?;
    }
    Ok(())
}

fn make_empty(place: &Path, empty_dir: &EmptyDir, owners: Owners) -> Result<(), VolumeError> {
    let size_limit = match &empty_dir.size_limit {
        Some(text) => {
            Some(Quantity::parse(text).ok_or_else(|| VolumeError::SizeLimit { text: text.clone() })?)
        }
        None => None,
    };
    let made = if empty_dir.is_in_memory() {
        fs::create_dir_all(place)
            .and_then(|()| memory::mount(place, size_limit))
            .and_then(|is_new| {
                if is_new {
                    open_to_all(place, owners)
                } else {
                    Ok(())
                }
            })
    } else if place.is_dir() {
        Ok(())
    } else {
        fs::create_dir_all(place).and_then(|()| open_to_all(place, owners))
    };
    made.map_err(|source| file_error(place, source))
}

fn open_to_all(place: &Path, owners: Owners) -> io::Result<()> {
    let mode = if owners.group.is_some() { 0o2777 } else { 0o777 };
    owners.apply(fs::File::open(place)?)?;
    fs::set_permissions(place, Permissions::from_mode(mode))
}

fn check_host_path(host_path: &HostPath, hidden: &[PathBuf]) -> Result<PathBuf, VolumeError> {
    let path = PathBuf::from(&host_path.path);
    if lies_in(&path, hidden).map_err(|source| file_error(&path, source))? {
        return Err(VolumeError::Hidden {
            path: host_path.path.clone(),
        });
    }
    let made = match host_path.kind.as_str() {
        "DirectoryOrCreate" if !path.exists() => fs::create_dir_all(&path),
        "FileOrCreate" if !path.exists() => fs::File::create(&path).map(drop),
        _ => Ok(()),
    };
    made.map_err(|source| file_error(&path, source))?;
    let metadata = fs::metadata(&path).map_err(|source| file_error(&path, source))?;
    let kind = metadata.file_type();
    let (is_right, expected) = match host_path.kind.as_str() {
        "Directory" | "DirectoryOrCreate" => (kind.is_dir(), "a directory"),
        "File" | "FileOrCreate" => (kind.is_file(), "a file"),
        "Socket" => (kind.is_socket(), "a socket"),
        "CharDevice" => (kind.is_char_device(), "a character device"),
        "BlockDevice" => (kind.is_block_device(), "a block device"),
        _ => (true, ""),
    };
    if is_right {
        return Ok(path);
    }
    Err(VolumeError::HostPath {
        path: host_path.path.clone(),
        expected,
    })
}

/// Whether a path, or what of it is there already, leads into one of these. What lies above them may be mounted: they
/// are covered in it.
fn lies_in(path: &Path, hidden: &[PathBuf]) -> io::Result<bool> {
    let there = path.ancestors().find(|ancestor| ancestor.exists());
    let real = fs::canonicalize(there.unwrap_or(Path::new("/")))?;
    let is_in = |place: &PathBuf| {
        let place = fs::canonicalize(place).unwrap_or_else(|_| place.clone());
        real.starts_with(&place) || path.starts_with(&place)
    };
    Ok(hidden.iter().any(is_in))
}

fn file_error(path: &Path, source: io::Error) -> VolumeError {
    VolumeError::File {
        path: path.to_owned(),
        source,
    }
}
