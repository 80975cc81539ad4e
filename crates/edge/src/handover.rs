//! Hand-over of listening sockets to a successor process, so that an upgrade refuses no connection.
//!
//! The successor connects to a socket in the file system. Each packet that it receives names an address and contains
//! the listening sockets of the address (`SCM_RIGHTS`, unix(7)). A last packet ends the list. Then both processes
//! have the same sockets, and both accept connections. The successor confirms when it serves the sockets. If the
//! successor still runs [`CONFIRMATION_TIME`] later, the predecessor accepts no more connections. Otherwise the
//! predecessor continues to serve, and waits for another successor.

use std::fs::{self, Permissions};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recvmsg, send, sendmsg, socket_with, sockopt,
};
use socket2::Domain;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::port_key::Transport;
use crate::sockets::{InheritedSockets, ListenAddress, ListeningSockets, SOCKETS_PER_ADDRESS_MAX, register};

/// Packet that ends the list of sockets.
const END: &str = "end";
/// Packet by which the successor confirms that it serves the sockets.
const TAKEN: &str = "taken";
/// Longest packet.
const PACKET_BYTES_MAX: usize = 128;
/// Addresses at most: more than any node serves.
const ADDRESSES_MAX: usize = 65_536;
/// Time for each step of the exchange.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// Time until a successor must serve the sockets. Before that, the successor reads the Services from its API server.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_secs(600);
/// Time for which a successor must run after its confirmation. It is shorter than [`STEP_TIMEOUT`], for which the
/// successor waits for the predecessor.
const CONFIRMATION_TIME: Duration = Duration::from_secs(2);
/// Successors that wait; there is one.
const BACKLOG: i32 = 4;
/// Pause after a failed exchange.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Reason why sockets were not handed over. A later attempt may succeed.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The socket in the file system cannot be used.
    #[error("cannot use hand-over socket {path}: {source}")]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
    /// The other process does not respond.
    #[error("hand-over: no packet from the other process within {STEP_TIMEOUT:?}")]
    Timeout,
    /// The other process sent something else.
    #[error("hand-over: expected an address or `end`, found {0:?}")]
    Unexpected(String),
}

/// Predecessor that waits until its successor serves the sockets.
#[derive(Debug)]
pub(crate) struct Predecessor(AsyncFd<Arc<OwnedFd>>);

/// Requests the listening sockets of the edge that listens at `path`. Returns `None` if no edge listens there.
///
/// # Errors
/// See [`HandoverError`].
pub(crate) async fn request_sockets(
    path: &Path,
) -> Result<Option<(InheritedSockets, Predecessor)>, HandoverError> {
    let error = |source| HandoverError::Socket {
        path: path.to_owned(),
        source,
    };
    let socket = packet_socket().map_err(error)?;
    let address = SocketAddrUnix::new(path).map_err(|cause| error(cause.into()))?;
    match connect(&socket, &address) {
        Ok(()) => {}
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::CONNREFUSED) => return Ok(None),
        Err(cause) => return Err(error(cause.into())),
    }
    let socket = register(Arc::new(socket), Interest::READABLE).map_err(error)?;
    let mut sockets = InheritedSockets::new();
    while sockets.len() < ADDRESSES_MAX {
        let received = timeout(STEP_TIMEOUT, receive(&socket)).await;
        let (text, descriptors) = received.map_err(|_| HandoverError::Timeout)?.map_err(error)?;
        if text == END {
            return Ok(Some((sockets, Predecessor(socket))));
        }
        let address = parse(&text).ok_or(HandoverError::Unexpected(text))?;
        let matching = descriptors
            .into_iter()
            .filter(|socket| is_bound_to(socket, address));
        sockets.insert(address, matching.collect());
    }
    Ok(Some((sockets, Predecessor(socket))))
}

impl Predecessor {
    /// Confirms to the predecessor that this process serves its sockets, and waits until the predecessor accepts no
    /// more connections.
    pub(crate) async fn take_over(self) {
        let sent = send(self.0.get_ref(), TAKEN.as_bytes(), SendFlags::NOSIGNAL);
        if let Err(error) = sent {
            return tracing::warn!(%error, "hand-over not confirmed to the previous process");
        }
        // The previous process closes the connection when it accepts no more.
        if timeout(STEP_TIMEOUT, receive(&self.0)).await.is_err() {
            tracing::warn!("predecessor not stopped; it still accepts connections");
        }
    }
}

/// Waits for a successor at `path` and hands over the sockets that `sockets` returns. Completes when the
/// successor has served them for [`CONFIRMATION_TIME`]. The successor waits until the returned value is dropped.
///
/// # Errors
/// [`HandoverError::Socket`] if no successor can connect.
pub(crate) async fn hand_over(
    path: &Path,
    sockets: impl Fn() -> ListeningSockets,
) -> Result<impl Drop, HandoverError> {
    let error = |source| HandoverError::Socket {
        path: path.to_owned(),
        source,
    };
    let listener = open(path).map_err(error)?;
    let listener = register(Arc::new(listener), Interest::READABLE).map_err(error)?;
    loop {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accepted = listener.async_io(Interest::READABLE, |listener| Ok(accept_with(listener, flags)?));
        let successor = accepted.await.map_err(error)?;
        match hand_over_to(successor, sockets()).await {
            Ok(Some(successor)) => {
                if is_successor_running(&successor).await {
                    return Ok(successor);
                }
                tracing::warn!(
                    "successor exited after it took over the listening sockets; this process serves them"
                );
            }
            Ok(None) => tracing::warn!("successor exited without taking over the listening sockets"),
            Err(error) => {
                tracing::warn!(%error, "listening sockets not handed over");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

/// Exchanges packets with one successor. Returns `None` if the successor takes over no sockets.
async fn hand_over_to(
    successor: OwnedFd,
    sockets: ListeningSockets,
) -> io::Result<Option<AsyncFd<Arc<OwnedFd>>>> {
    let user = sockopt::socket_peercred(&successor)?.uid;
    if user != rustix::process::geteuid() && !user.is_root() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let successor = register(Arc::new(successor), Interest::READABLE | Interest::WRITABLE)?;
    for ((address, transport), sockets) in sockets {
        let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
        let text = format!("{} {address}", transport.name());
        timeout(STEP_TIMEOUT, send_with(&successor, &text, &sockets)).await??;
    }
    timeout(STEP_TIMEOUT, send_with(&successor, END, &[])).await??;
    let (reply, _) = timeout(TAKE_OVER_TIMEOUT, receive(&successor)).await??;
    Ok((reply == TAKEN).then_some(successor))
}

/// Returns true if a successor runs for [`CONFIRMATION_TIME`]. It sends no further packet, so the next packet is the
/// end of the connection.
async fn is_successor_running(successor: &AsyncFd<Arc<OwnedFd>>) -> bool {
    timeout(CONFIRMATION_TIME, receive(successor)).await.is_err()
}

fn packet_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// Returns a listening socket in the file system, which only this user can use. The socket replaces any file at `path`.
fn open(path: &Path) -> io::Result<OwnedFd> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = packet_socket()?;
    bind(&socket, &SocketAddrUnix::new(&temporary)?)?;
    fs::set_permissions(&temporary, Permissions::from_mode(0o600))?;
    listen(&socket, BACKLOG)?;
    fs::rename(&temporary, path)?;
    Ok(socket)
}

fn parse(text: &str) -> Option<ListenAddress> {
    let (transport, address) = text.split_once(' ')?;
    let transport = match transport {
        "tcp" => Transport::Tcp,
        "udp" => Transport::Udp,
        _ => return None,
    };
    Some((address.parse::<SocketAddr>().ok()?, transport))
}

/// Returns true if a socket is bound to that address.
fn is_bound_to(socket: &OwnedFd, (address, transport): ListenAddress) -> bool {
    let socket = socket2::SockRef::from(socket);
    let kind = match transport {
        Transport::Tcp => socket2::Type::STREAM,
        Transport::Udp => socket2::Type::DGRAM,
    };
    let is_of_kind = socket.r#type().is_ok_and(|of| of == kind)
        && socket.domain().is_ok_and(|of| of == Domain::for_address(address));
    is_of_kind
        && socket
            .local_addr()
            .is_ok_and(|bound| bound.as_socket() == Some(address))
}

async fn send_with(to: &AsyncFd<Arc<OwnedFd>>, text: &str, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    to.async_io(Interest::WRITABLE, |to| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_PER_ADDRESS_MAX))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() && !rights.push(SendAncillaryMessage::ScmRights(sockets)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(
            to,
            &[IoSlice::new(text.as_bytes())],
            &mut rights,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    })
    .await
}

/// Receives a packet. An empty one is the end of the connection.
async fn receive(from: &AsyncFd<Arc<OwnedFd>>) -> io::Result<(String, Vec<OwnedFd>)> {
    from.async_io(Interest::READABLE, |from| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_PER_ADDRESS_MAX))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; PACKET_BYTES_MAX];
        let slices = &mut [IoSliceMut::new(&mut bytes)];
        let count = recvmsg(from, slices, &mut rights, RecvFlags::CMSG_CLOEXEC)?.bytes;
        let mut sockets = Vec::new();
        for message in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                sockets.extend(received);
            }
        }
        let text = String::from_utf8_lossy(bytes.get(..count).unwrap_or_default());
        Ok((text.into_owned(), sockets))
    })
    .await
}
