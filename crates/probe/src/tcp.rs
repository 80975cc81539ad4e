//! `tcpSocket` probes.

use super::connect::{DialError, Host, dial};

/// Connects, and is content with that.
pub async fn probe(host: &Host, port: u16) -> Result<(), DialError> {
    dial(host, port).await.map(drop)
}
