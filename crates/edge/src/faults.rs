//! Faults of ports, for Events and status pages.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::port_key::PortKey;

/// All current faults by port. A port without faults has no entry.
pub type Faults = BTreeMap<PortKey, Vec<Fault>>;

/// Fault of a port. The text names a remedy where there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A listener cannot be opened. It is tried again every [`crate::Edge::LISTEN_RETRY`].
    #[error("cannot listen at {address}: {reason}")]
    CannotListen {
        /// Address of the listener.
        address: SocketAddr,
        /// Error of the kernel, or the Service that uses the address.
        reason: String,
    },
    /// A certificate is invalid. A former valid one of the same source stays in use.
    #[error("certificate {source_name} is invalid: {reason}")]
    InvalidCertificate {
        /// Source of the certificate.
        source_name: Arc<str>,
        /// Description of the defect.
        reason: String,
    },
    /// No certificate is valid: TLS handshakes fail.
    #[error("no valid certificate: TLS handshakes fail")]
    NoCertificate,
    /// Lines of the access log are lost.
    #[error("no access log: {reason}")]
    NoAccessLog {
        /// Defect of the destination.
        reason: String,
    },
}
