//! One TCP connection: a task that opens it, reads, writes, and reports to the session.

use std::io;
use std::time::Duration;

use bgp::message::MESSAGE_BYTES_MAX;
use bgp::session::{ConnectionId, LocalAddresses};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::sockets::{self, SocketOptions};

/// Capacity of the queue of messages to a peer, each of at most 4,096 bytes.
pub(super) const MESSAGES_QUEUED_MAX: usize = 64;
/// Minimum time for a peer to read one message, as RFC 9687 recommends.
const SEND_TIMEOUT_MIN: Duration = Duration::from_secs(480);
/// Time to send the last messages of a closed connection.
const LAST_MESSAGES_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;

/// Event of a connection.
#[derive(Debug)]
pub(super) enum ConnectionEvent {
    /// The connection is open.
    Connected(LocalAddresses),
    /// Bytes of the peer.
    Received(Vec<u8>),
    /// The connection is closed, or was not opened.
    Closed(String),
}

/// Messages to a connection. Dropping it closes the connection after the queued messages.
pub(super) type Outgoing = mpsc::Sender<Vec<u8>>;

/// Reports to a session.
#[derive(Clone, Debug)]
pub(super) struct Reports {
    pub(super) id: ConnectionId,
    pub(super) events: mpsc::Sender<(ConnectionId, ConnectionEvent)>,
}

impl Reports {
    /// Reports an event. A session that ends does not read it.
    async fn send(&self, event: ConnectionEvent) -> bool {
        self.events.send((self.id, event)).await.is_ok()
    }
}

/// Returns the time for a peer to read one message: the longer of eight minutes and twice the configured hold time. RFC 9687
/// recommends this with the negotiated hold time, which is not longer. With a hold time of 0, nothing else detects a peer that
/// hangs.
pub(super) fn send_timeout(hold_seconds: u16) -> Duration {
    let twice = Duration::from_secs(2 * u64::from(hold_seconds));
    twice.max(SEND_TIMEOUT_MIN)
}

/// Opens a connection and serves it until its end.
pub(super) async fn connect(
    options: SocketOptions,
    mut outgoing: mpsc::Receiver<Vec<u8>>,
    reports: Reports,
    send_timeout: Duration,
) {
    let opened = async {
        let stream = sockets::connect(&options).await?;
        let local = sockets::local_addresses(stream.local_addr()?.ip(), &options)?;
        io::Result::Ok((stream, local))
    };
    let opened = tokio::select! {
        opened = opened => opened,
        // The session has given the attempt up. It sends nothing before the connection is open.
        None = outgoing.recv() => return,
    };
    match opened {
        Ok((stream, local)) => {
            if reports.send(ConnectionEvent::Connected(local)).await {
                serve(stream, outgoing, reports, send_timeout).await;
            }
        }
        Err(error) => {
            reports.send(ConnectionEvent::Closed(error.to_string())).await;
        }
    }
}

/// Serves an open connection until its end.
pub(super) async fn serve(
    stream: TcpStream,
    outgoing: mpsc::Receiver<Vec<u8>>,
    reports: Reports,
    send_timeout: Duration,
) {
    let (reader, writer) = stream.into_split();
    let reason = tokio::select! {
        reason = read(reader, &reports) => reason,
        reason = write(writer, outgoing, send_timeout) => reason,
    };
    if let Some(reason) = reason {
        reports.send(ConnectionEvent::Closed(reason)).await;
    }
}

/// Reads until the end. Returns the reason, or `None` if the session has ended.
async fn read(mut reader: OwnedReadHalf, reports: &Reports) -> Option<String> {
    loop {
        let mut bytes = Vec::with_capacity(MESSAGE_BYTES_MAX);
        match reader.read_buf(&mut bytes).await {
            Ok(0) => return Some("the peer closed it".to_owned()),
            Ok(_) if reports.send(ConnectionEvent::Received(bytes)).await => {}
            Ok(_) => return None,
            Err(error) => return Some(error.to_string()),
        }
    }
}

/// Writes messages until the session closes the connection or the peer does not read them.
async fn write(
    mut writer: OwnedWriteHalf,
    mut outgoing: mpsc::Receiver<Vec<u8>>,
    send_timeout: Duration,
) -> Option<String> {
    while let Some(message) = outgoing.recv().await {
        let limit = if outgoing.is_closed() {
            LAST_MESSAGES_TIMEOUT
        } else {
            send_timeout
        };
        match timeout(limit, writer.write_all(&message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Some(error.to_string()),
            Err(_) => return Some(format!("the peer read nothing for {} s", limit.as_secs())),
        }
    }
    // An error means that the peer has closed it already.
    writer.shutdown().await.unwrap_or_default();
    None
}
