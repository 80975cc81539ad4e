//! What a machine that has joined keeps of it, so that it goes on without a token.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use trust::private_file;

use super::super::Failure;
use super::super::cluster::ClusterSettings;

const FILE: &str = "membership.json";
const AUTHORITY: &str = "ca.crt";

/// The directory of a machine's certificates and of its [`Membership`], below its data directory.
pub fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join("node")
}

/// To which cluster a machine belongs, and as whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Membership {
    /// The name of its Node.
    pub node_name: String,
    /// The servers.
    pub servers: Vec<String>,
    /// What all machines of the cluster must know alike.
    pub cluster: ClusterSettings,
}

impl Membership {
    /// Reads it; nothing if the machine has not joined.
    pub fn read(directory: &Path) -> Result<Option<Self>, Failure> {
        let path = directory.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", path.display()).into()),
        };
        let read = serde_json::from_slice(&text).map_err(|error| {
            format!(
                "{} cannot be read: {error}; remove {} and join again with a token",
                path.display(),
                directory.display()
            )
        })?;
        Ok(Some(read))
    }

    /// Writes it down.
    pub fn write(&self, directory: &Path) -> Result<(), Failure> {
        let path = directory.join(FILE);
        private_file::write(&path, &serde_json::to_vec_pretty(self)?)
            .map_err(|error| format!("{}: {error}", path.display()).into())
    }
}

/// Writes the certificate of the cluster's authority down.
pub fn write_authority(directory: &Path, authority: &str) -> Result<(), Failure> {
    private_file::create_directory(directory)
        .and_then(|()| private_file::write(&directory.join(AUTHORITY), authority.as_bytes()))
        .map_err(|error| format!("{}: {error}", directory.display()).into())
}

/// Where it is.
pub fn authority_path(directory: &Path) -> PathBuf {
    directory.join(AUTHORITY)
}
