//! Client of registries (OCI distribution specification): one request for the manifest, one for the configuration, and
//! one for each layer.
//!
//! The crate `reqwest` sends the requests. Redirects, authentication and resumption are decided here, since they decide
//! about the hosts that receive credentials.

mod authentication;
mod challenge;
mod credentials;
mod download;
mod error;
mod hosts;
mod pull;
mod response;
mod session;

#[cfg(test)]
mod tests;

use crate::digest::Digest;

pub use credentials::{CredentialError, RegistryCredential, parse_docker_credentials};
pub use error::PullError;
pub use hosts::HostsError;

/// Step of a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The manifest is known.
    Resolved {
        /// Digest that the registry has under the name.
        digest: Digest,
        /// Number of different layers.
        layers: usize,
        /// Compressed bytes of all layers.
        bytes: u64,
    },
    /// A part of a layer was downloaded.
    Layer {
        /// Digest of the compressed layer.
        digest: Digest,
        /// Bytes on this host.
        downloaded_bytes: u64,
        /// Bytes of the layer.
        total_bytes: u64,
    },
    /// A layer is unpacked, or was before.
    LayerReady {
        /// Digest of the compressed layer.
        digest: Digest,
    },
}
