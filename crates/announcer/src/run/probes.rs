//! UDP socket for messages between announcers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use api::announcers::Record;
use tokio::net::UdpSocket;

use crate::metrics::Metrics;
use crate::protocol::keys::Keyring;
use crate::protocol::message::{BYTES_MAX, Message};

/// Received datagram: its length and its source.
pub(crate) type Datagram = (usize, SocketAddr);

/// Socket for authenticated messages.
pub(crate) struct ProbeSocket {
    socket: UdpSocket,
    buffer: Box<[u8; BYTES_MAX]>,
    keyring: Keyring,
    metrics: Arc<Metrics>,
}

impl ProbeSocket {
    /// Wraps a bound socket.
    pub(crate) fn new(socket: UdpSocket, keyring: Keyring, metrics: Arc<Metrics>) -> Self {
        Self {
            socket,
            buffer: Box::new([0; BYTES_MAX]),
            keyring,
            metrics,
        }
    }

    /// Derives the keys of the members.
    pub(crate) fn set_record(&mut self, record: Option<&Record>) {
        self.keyring.update(record);
    }

    /// Waits for the next datagram and keeps it for [`ProbeSocket::open`]. Cancel safe.
    ///
    /// # Errors
    /// Returns an error of the kernel; later datagrams may arrive.
    pub(crate) async fn receive(&mut self) -> io::Result<Datagram> {
        self.socket.recv_from(&mut self.buffer[..]).await
    }

    /// Returns a queued datagram.
    pub(crate) fn try_receive(&mut self) -> Option<Datagram> {
        self.socket.try_recv_from(&mut self.buffer[..]).ok()
    }

    /// Authenticates and decodes the last received datagram.
    pub(crate) fn open(&self, (length, source): Datagram) -> Option<Message> {
        match self.keyring.open(source, &self.buffer[..length]) {
            Ok(message) => {
                Metrics::count(&self.metrics.probes_received);
                Some(message)
            }
            Err(error) => {
                Metrics::count(&self.metrics.probes_refused);
                tracing::debug!(%source, %error, "datagram rejected");
                None
            }
        }
    }

    /// Sends a message if a key is shared with its receiver. A full socket buffer drops it; probes are frequent.
    pub(crate) fn send(&self, to: SocketAddr, message: &Message) {
        let Some(bytes) = self.keyring.seal(message) else {
            return;
        };
        match self.socket.try_send_to(&bytes, to) {
            Ok(_) => Metrics::count(&self.metrics.probes_sent),
            Err(error) => tracing::debug!(%to, %error, "probe not sent"),
        }
    }
}
