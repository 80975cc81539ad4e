//! Listening sockets handed over to a successor, so that an upgrade refuses no connection: both processes have the same
//! sockets, and what waits there is taken by either.
//!
//! The successor connects to a socket in the file system. Each packet that it gets names an address and brings its listening
//! sockets (`SCM_RIGHTS`, unix(7)); one says that there are no more. When the successor serves them it says so, and the
//! predecessor takes no more connections.

use std::collections::BTreeMap;
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

use crate::port::Transport;
use crate::serving::Spot;
use crate::sockets::awaited;
use crate::workers::THREADS_MAX;

/// What ends the list of sockets.
const END: &str = "end";
/// What the successor says when it serves them.
const TAKEN: &str = "taken";
/// The longest packet.
const PACKET_BYTES_MAX: usize = 128;
/// Addresses at most: more than any machine serves.
const SPOTS_MAX: usize = 65_536;
/// How long a step of the exchange may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a successor may take until it serves what it was given: it learns from its API server what to serve first.
const TAKE_TIMEOUT: Duration = Duration::from_secs(600);
/// Successors that wait; there is one.
const BACKLOG: i32 = 4;
/// Pause after a successor could not be served.
const PAUSE: Duration = Duration::from_millis(100);

/// Why sockets were not handed over. Trying again may help.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The socket in the file system cannot be used.
    #[error("hand-over socket {path}: {source}")]
    Socket {
        /// Where it is.
        path: PathBuf,
        /// What failed.
        source: io::Error,
    },
    /// The other process is silent.
    #[error("hand-over: the other process says nothing for {STEP_TIMEOUT:?}")]
    Silence,
    /// What it says is not understood.
    #[error("hand-over: expected an address or `end`, got {0:?}")]
    Unexpected(String),
}

/// Sockets by address.
pub(crate) type Sockets = BTreeMap<Spot, Vec<OwnedFd>>;

/// A predecessor that waits until its sockets are served.
#[derive(Debug)]
pub(crate) struct Predecessor(AsyncFd<Arc<OwnedFd>>);

/// Asks the edge behind `path` for its listening sockets; nothing if none runs there.
pub(crate) async fn ask(path: &Path) -> Result<Option<(Sockets, Predecessor)>, HandoverError> {
    let failed = |source| HandoverError::Socket {
        path: path.to_owned(),
        source,
    };
    let socket = packets().map_err(failed)?;
    let address = SocketAddrUnix::new(path).map_err(|error| failed(error.into()))?;
    match connect(&socket, &address) {
        Ok(()) => {}
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::CONNREFUSED) => return Ok(None),
        Err(error) => return Err(failed(error.into())),
    }
    let socket = awaited(Arc::new(socket), Interest::READABLE).map_err(failed)?;
    let mut sockets = Sockets::new();
    while sockets.len() < SPOTS_MAX {
        let received = timeout(STEP_TIMEOUT, receive(&socket)).await;
        let (text, descriptors) = received.map_err(|_| HandoverError::Silence)?.map_err(failed)?;
        if text == END {
            return Ok(Some((sockets, Predecessor(socket))));
        }
        let spot = parse(&text).ok_or(HandoverError::Unexpected(text))?;
        let fitting = descriptors.into_iter().filter(|socket| is_for(socket, spot));
        sockets.insert(spot, fitting.collect());
    }
    Ok(Some((sockets, Predecessor(socket))))
}

impl Predecessor {
    /// Tells it that its sockets are served.
    pub async fn take_over(self) {
        let told = send(self.0.get_ref(), TAKEN.as_bytes(), SendFlags::NOSIGNAL);
        if let Err(error) = told {
            return tracing::warn!(%error, "the predecessor is gone before its sockets were taken over");
        }
        // It closes the connection when it takes no more.
        if timeout(STEP_TIMEOUT, receive(&self.0)).await.is_err() {
            tracing::warn!("the predecessor still takes connections");
        }
    }
}

/// Waits for a successor at `path` and hands it what `sockets` yields. Returns when it serves them; what is returned ends the
/// exchange when it is dropped, which the successor waits for.
pub(crate) async fn offer(
    path: &Path,
    sockets: impl Fn() -> Vec<(Spot, Vec<Arc<OwnedFd>>)>,
) -> Result<impl Drop, HandoverError> {
    let failed = |source| HandoverError::Socket {
        path: path.to_owned(),
        source,
    };
    let listener = open(path).map_err(failed)?;
    let listener = awaited(Arc::new(listener), Interest::READABLE).map_err(failed)?;
    loop {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accepted = listener.async_io(Interest::READABLE, |listener| Ok(accept_with(listener, flags)?));
        let successor = accepted.await.map_err(failed)?;
        match hand_over(successor, sockets()).await {
            Ok(Some(successor)) => return Ok(successor),
            Ok(None) => tracing::warn!("a successor left without taking over the listening sockets"),
            Err(error) => {
                tracing::warn!(%error, "listening sockets are not handed over");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The exchange with one successor; nothing if it takes nothing over.
async fn hand_over(
    successor: OwnedFd,
    sockets: Vec<(Spot, Vec<Arc<OwnedFd>>)>,
) -> io::Result<Option<AsyncFd<Arc<OwnedFd>>>> {
    let theirs = sockopt::socket_peercred(&successor)?.uid;
    if theirs != rustix::process::geteuid() && !theirs.is_root() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let successor = awaited(Arc::new(successor), Interest::READABLE | Interest::WRITABLE)?;
    for ((at, transport), sockets) in sockets {
        let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
        let text = format!("{} {at}", transport.name());
        timeout(STEP_TIMEOUT, send_with(&successor, &text, &sockets)).await??;
    }
    timeout(STEP_TIMEOUT, send_with(&successor, END, &[])).await??;
    let (answer, _) = timeout(TAKE_TIMEOUT, receive(&successor)).await??;
    Ok((answer == TAKEN).then_some(successor))
}

fn packets() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// A socket in the file system in the place of whatever was there, for this user alone.
fn open(path: &Path) -> io::Result<OwnedFd> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = packets()?;
    bind(&socket, &SocketAddrUnix::new(&beside)?)?;
    fs::set_permissions(&beside, Permissions::from_mode(0o600))?;
    listen(&socket, BACKLOG)?;
    fs::rename(&beside, path)?;
    Ok(socket)
}

fn parse(text: &str) -> Option<Spot> {
    let (transport, at) = text.split_once(' ')?;
    let transport = match transport {
        "tcp" => Transport::Tcp,
        "udp" => Transport::Udp,
        _ => return None,
    };
    Some((at.parse::<SocketAddr>().ok()?, transport))
}

/// Whether a socket is one for that address.
fn is_for(socket: &OwnedFd, (at, transport): Spot) -> bool {
    let socket = socket2::SockRef::from(socket);
    let kind = match transport {
        Transport::Tcp => socket2::Type::STREAM,
        Transport::Udp => socket2::Type::DGRAM,
    };
    let is_fitting = socket.r#type().is_ok_and(|of| of == kind)
        && socket.domain().is_ok_and(|of| of == Domain::for_address(at));
    is_fitting
        && socket
            .local_addr()
            .is_ok_and(|bound| bound.as_socket() == Some(at))
}

async fn send_with(to: &AsyncFd<Arc<OwnedFd>>, text: &str, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    to.async_io(Interest::WRITABLE, |to| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(THREADS_MAX))];
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

/// A packet; an empty one is the end.
async fn receive(from: &AsyncFd<Arc<OwnedFd>>) -> io::Result<(String, Vec<OwnedFd>)> {
    from.async_io(Interest::READABLE, |from| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(THREADS_MAX))];
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
