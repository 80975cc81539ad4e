//! `tcpSocket` probes.

use super::connect::{DialError, Host, dial};

/// Runs a `tcpSocket` probe, which succeeds if the connection is accepted.
///
/// # Errors
///
/// Returns [`DialError`] if the connection fails.
pub async fn probe(host: &Host, port: u16) -> Result<(), DialError> {
    dial(host, port).await.map(drop)
}
