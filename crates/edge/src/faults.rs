//! What keeps a port from being served as it should be: for Events and the status of ports.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::port::PortKey;

/// All that is wrong now, by port. A port that is served as asked is not in it.
pub type Faults = BTreeMap<PortKey, Vec<Fault>>;

/// Something that is wrong. The text is for people, and says what to do where something can be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Nobody can connect there; it is tried again every [`crate::Edge::LISTEN_RETRY`].
    #[error("cannot listen at {at}: {why}")]
    CannotListen {
        /// Where.
        at: SocketAddr,
        /// What the kernel says, or that the Service has too many ports.
        why: String,
    },
    /// A certificate is not used; one of the same source that was good before goes on being used.
    #[error("certificate {source_name} cannot be used: {why}")]
    BadCertificate {
        /// Where it comes from.
        source_name: Arc<str>,
        /// What is wrong with it.
        why: String,
    },
    /// There is no certificate that can be used: handshakes fail.
    #[error("no certificate can be used, so that TLS handshakes fail")]
    NoCertificate,
    /// Lines of the access log are lost.
    #[error("there is no access log: {why}")]
    NoAccessLog {
        /// What is wrong with where it is to go.
        why: String,
    },
}
