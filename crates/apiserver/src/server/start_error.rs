//! Errors of a server's start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::access::audit::AuditLogError;
use crate::access::authentication::{KeyError, TokenFileError};
use crate::bootstrap::cluster_objects::BootstrapError;
use crate::bootstrap::pki::PkiError;
use crate::registry::service::AllocatorError;
use crate::transport::tls::TlsError;

/// Failure to start a server. A retry helps only after a change of configuration, files or store.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}; choose another address with --listen")]
    Listen {
        /// Address to listen on.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Certificates are unreadable or cannot be issued.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The TLS configuration is invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The token file is invalid.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// The key of ServiceAccount tokens is unusable.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The audit log cannot be opened.
    #[error(transparent)]
    Audit(#[from] AuditLogError),
    /// The allocators of cluster IPs and node ports cannot be read.
    #[error(transparent)]
    Services(#[from] AllocatorError),
    /// An object that every cluster has cannot be created.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// The kubeconfig cannot be written.
    #[error("cannot write the kubeconfig {}: {source}", path.display())]
    Kubeconfig {
        /// Path of the kubeconfig.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
}
