//! Reasons why a volume cannot be set up.

use std::io;
use std::path::{Path, PathBuf};

use client::ClientError;

use crate::containers::environment::SourceKind;

/// Reason why a volume is not set up: the containers of its Pod wait. Retries may succeed, except for
/// the first three.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The kind of volume is not supported.
    #[error("volume {name:?}: expected one of emptyDir, hostPath, configMap, secret, downwardAPI, projected")]
    Kind {
        /// Name of the volume.
        name: String,
    },
    /// A path leads out of the volume.
    #[error("expected a relative path without .., found {path:?}")]
    Path {
        /// Path of the file.
        path: String,
    },
    /// The size limit is not a quantity.
    #[error("emptyDir.sizeLimit: expected a quantity such as 64Mi, found {text:?}")]
    SizeLimit {
        /// Value of the field.
        text: String,
    },
    /// The object is missing.
    #[error("{kind} \"{name}\" not found", kind = kind.singular())]
    Object {
        /// Kind of the object.
        kind: SourceKind,
        /// Name of the object.
        name: String,
    },
    /// The object lacks the key.
    #[error("{kind} \"{name}\" references non-existent key: {key}", kind = kind.singular())]
    Key {
        /// Kind of the object.
        kind: SourceKind,
        /// Name of the object.
        name: String,
        /// Missing key of `data`.
        key: String,
    },
    /// The field or resource is not supported.
    #[error("unsupported field or resource of the downward API for the file {path:?}")]
    Field {
        /// Path of the file.
        path: String,
    },
    /// The files of the volume are too large. To correct it, replace the Pod.
    #[error("expected at most {bytes_max} bytes of files in the volume, found more")]
    TooLarge {
        /// Maximum size in bytes.
        bytes_max: usize,
    },
    /// There is no token of the Pod's ServiceAccount.
    #[error("failed to fetch token: {cause}")]
    Token {
        /// Description of the failure.
        cause: String,
    },
    /// The request for a source failed.
    #[error(transparent)]
    Api(#[from] ClientError),
    /// The path contains data or credentials of the cluster.
    #[error(
        "hostPath {path} contains data or credentials of the cluster, and no Pod may mount it; choose another path"
    )]
    Hidden {
        /// Path on the node.
        path: String,
    },
    /// The path has another type than the volume requires.
    #[error("hostPath type check failed: {path} is not {expected}")]
    HostPath {
        /// Path on the node.
        path: String,
        /// Required type.
        expected: &'static str,
    },
    /// A file or directory cannot be created or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Path on the node.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
}

impl VolumeError {
    /// Returns the error of a file operation.
    pub(super) fn file(path: &Path, source: io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            source,
        }
    }
}

/// Failure to set a volume up. The message is the kubelet's.
#[derive(Debug, thiserror::Error)]
#[error("MountVolume.SetUp failed for volume {volume:?} : {source}")]
pub struct VolumeSetUpError {
    volume: String,
    source: Box<VolumeError>,
}

impl VolumeSetUpError {
    /// Returns the error of the volume with that name.
    pub(super) fn new(volume: &str, source: VolumeError) -> Self {
        Self {
            volume: volume.to_owned(),
            source: Box::new(source),
        }
    }
}
