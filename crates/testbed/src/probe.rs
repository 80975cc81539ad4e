//! Probes from within a member's namespace, and the way in from the host.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::cluster::{ClusterError, Member};

/// Limit of a response in bytes.
const RESPONSE_BYTES_MAX: u64 = 1 << 20;
/// Limit of a response datagram in bytes.
const DATAGRAM_BYTES_MAX: usize = 65_535;
/// Limit of forwarded connections, with two threads each: enough for `kubectl` and its watches. Further ones are
/// closed at once.
const FORWARDED_MAX: usize = 256;
/// Timeout of connecting the far side of a forwarded connection.
const FORWARD_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Failure of a probe.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The member's namespace cannot be used.
    #[error(transparent)]
    Member(#[from] ClusterError),
    /// The connection failed: refused, unreachable, timed out or reset.
    #[error("{from} to {to}: {source}")]
    Network {
        /// Member of the client.
        from: String,
        /// Address of the server.
        to: SocketAddr,
        /// Error of the connection.
        source: io::Error,
    },
}

impl ProbeError {
    /// Returns the kind of the error, if packets were sent.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Member(_) => None,
            Self::Network { source, .. } => Some(source.kind()),
        }
    }
}

/// Connects from `from` to `to` over TCP, and sends `request`. Reads until the server closes the connection, or
/// pauses for `timeout` after a first byte.
///
/// # Errors
///
/// Returns [`ProbeError`] if the connection fails.
pub fn request_tcp(
    from: &Member,
    to: SocketAddr,
    request: &[u8],
    timeout: Duration,
) -> Result<Vec<u8>, ProbeError> {
    probe(from, to, || {
        let mut stream = TcpStream::connect_timeout(&to, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.write_all(request)?;
        let mut response = Vec::new();
        match stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut response) {
            Err(error) if response.is_empty() => Err(error),
            _ => Ok(response),
        }
    })
}

/// Sends one datagram from `from` to `to` and waits for the response.
///
/// # Errors
///
/// Returns [`ProbeError`] if there is no response.
pub fn exchange_udp(
    from: &Member,
    to: SocketAddr,
    request: &[u8],
    timeout: Duration,
) -> Result<Vec<u8>, ProbeError> {
    probe(from, to, || {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        // A connected socket receives ICMP errors, which distinguish a refusal from a missing response.
        socket.connect(to)?;
        socket.set_read_timeout(Some(timeout))?;
        socket.send(request)?;
        let mut response = vec![0; DATAGRAM_BYTES_MAX];
        let length = socket.recv(&mut response)?;
        response.truncate(length);
        Ok(response)
    })
}

fn probe<T: Send>(
    from: &Member,
    to: SocketAddr,
    exchange: impl FnOnce() -> io::Result<T> + Send,
) -> Result<T, ProbeError> {
    from.enter(exchange)?.map_err(|source| ProbeError::Network {
        from: from.plan.name.clone(),
        to,
        source,
    })
}

/// Forwards connections of `listener`, usually one of the host, from `from` to `to`, on threads, until the process
/// ends.
///
/// # Errors
/// The namespace of `from` cannot be entered, or no thread can be started.
pub fn forward(listener: TcpListener, from: &Member, to: SocketAddr) -> Result<(), ClusterError> {
    // Sockets belong to the namespace of the thread that opens them, so one thread lives in the member.
    let (sender, receiver) = std::sync::mpsc::sync_channel::<TcpStream>(FORWARDED_MAX);
    from.enter(|| {
        thread::Builder::new()
            .name("forward".to_owned())
            .spawn(move || {
                let open = Arc::new(());
                for near in receiver {
                    if Arc::strong_count(&open) > FORWARDED_MAX {
                        tracing::warn!(%to, "connection closed; {FORWARDED_MAX} are forwarded already");
                        continue;
                    }
                    if let Err(error) = relay_connections(near, to, Arc::clone(&open)) {
                        tracing::debug!(%error, %to, "connection not forwarded");
                    }
                }
            })
            .map(drop)
    })?
    .and_then(|()| {
        thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || {
                for near in listener.incoming().flatten() {
                    if sender.send(near).is_err() {
                        return;
                    }
                }
            })
            .map(drop)
    })
    .map_err(|source| ClusterError::Spawn {
        member: from.plan.name.clone(),
        program: "forwarding thread".to_owned(),
        source,
    })
}

/// Relays between two connections with a thread per direction. `open` is held, and so counted, until both have
/// ended.
fn relay_connections(near: TcpStream, to: SocketAddr, open: Arc<()>) -> io::Result<()> {
    let far = TcpStream::connect_timeout(&to, FORWARD_CONNECT_TIMEOUT)?;
    let (near_reads, far_writes) = (near.try_clone()?, far.try_clone()?);
    thread::Builder::new().spawn(move || copy(near_reads, far_writes))?;
    thread::Builder::new().spawn(move || {
        copy(far, near);
        drop(open);
    })?;
    Ok(())
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let copied = io::copy(&mut from, &mut to);
    let closed = to.shutdown(std::net::Shutdown::Write);
    if let Err(error) = copied.and(closed) {
        tracing::debug!(%error, "forwarded connection failed");
    }
}
