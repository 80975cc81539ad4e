//! Events of connections whose endpoint eBPF chose in `connect()`, for one reader at a time.
//!
//! Programs report only while a reader requests it, so a proxy without a reader does no work for events. If the ring is
//! full, the kernel counts the event as lost.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netlink::bpf::{BpfError, Map, Ring};
use rustix::fs::{FlockOperation, flock};

use super::layout::{EventShapes, ONLY_KEY, SOCKET_BYTES, socket_address};
use super::pins::directory;

/// Offset of the time since boot in nanoseconds.
pub(super) const TIME_OFFSET: usize = 0;
/// Offset of the number of the socket.
pub(super) const SOCKET_OFFSET: usize = 8;
/// Offset of the number of the network namespace.
pub(super) const NAMESPACE_OFFSET: usize = 16;
/// Offset of the inode number of the control group.
pub(super) const CONTROL_GROUP_OFFSET: usize = 24;
/// Offset of the frontend.
pub(super) const FRONTEND_OFFSET: usize = 32;
/// Offset of the endpoint; zeros if the connection was refused.
pub(super) const ENDPOINT_OFFSET: usize = FRONTEND_OFFSET + SOCKET_BYTES;
/// Offset of the outcome.
pub(super) const OUTCOME_OFFSET: usize = ENDPOINT_OFFSET + SOCKET_BYTES;
/// Size of an event.
pub(super) const EVENT_BYTES: usize = OUTCOME_OFFSET + 8;

/// Time for which programs report after a request, and so at most after the end of the reader.
const REQUEST_TIME: Duration = Duration::from_secs(5);

/// A connection of a client on this node to a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionEvent {
    /// Time since boot.
    pub at: Duration,
    /// Number of the client's socket, never reused (`SO_COOKIE`).
    pub socket_cookie: u64,
    /// Number of its network namespace, never reused (`SO_NETNS_COOKIE`).
    pub namespace_cookie: u64,
    /// Inode number of the control group of the client.
    pub control_group: u64,
    /// Address and port to which the client connected.
    pub frontend: SocketAddr,
    /// Endpoint that was chosen; `None` if the connection was refused.
    pub endpoint: Option<SocketAddr>,
}

impl ConnectionEvent {
    /// Reads an event of a program; `None` if it is shorter.
    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let number = |offset: usize| -> Option<u64> {
            let number = bytes.get(offset..)?.first_chunk()?;
            Some(u64::from_ne_bytes(*number))
        };
        let is_chosen = number(OUTCOME_OFFSET)? == 0;
        let endpoint = socket_address(bytes.get(ENDPOINT_OFFSET..)?)?;
        Some(Self {
            at: Duration::from_nanos(number(TIME_OFFSET)?),
            socket_cookie: number(SOCKET_OFFSET)?,
            namespace_cookie: number(NAMESPACE_OFFSET)?,
            control_group: number(CONTROL_GROUP_OFFSET)?,
            frontend: socket_address(bytes.get(FRONTEND_OFFSET..)?)?,
            endpoint: is_chosen.then_some(endpoint),
        })
    }
}

/// Reasons why no events are read.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// There are no pinned maps for events.
    #[error(
        "no eBPF programs report connections in this network namespace: {path} has no pinned maps; a proxy with \
         --proxy-mode=ebpf pins them"
    )]
    NotPinned {
        /// Directory of the pins.
        path: PathBuf,
    },
    /// Another process reads the events. A retry helps after its end.
    #[error("another process reads the events of connections; stop it first")]
    InUse,
    /// The directory of the pins cannot be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// Directory of the pins.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// The kernel refuses an operation.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// The reader of events. It holds a lock on the directory of the pins.
#[derive(Debug)]
pub struct ConnectionEvents {
    ring: Ring,
    requests: Map,
    _lock: File,
}

impl ConnectionEvents {
    /// Opens the pinned maps of this network namespace, discards earlier events, and requests further ones.
    ///
    /// # Errors
    ///
    /// [`EventError`] without a proxy in eBPF mode, or with another reader.
    pub fn open(pins: &Path) -> Result<Self, EventError> {
        let path = directory(pins).map_err(|source| EventError::Open {
            path: pins.to_owned(),
            source,
        })?;
        let lock = match File::open(&path) {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(EventError::NotPinned { path });
            }
            Err(source) => return Err(EventError::Open { path, source }),
        };
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(EventError::InUse),
            Err(error) => {
                return Err(EventError::Open {
                    path,
                    source: error.into(),
                });
            }
        }
        let shapes = EventShapes::CURRENT;
        let map = |shape: netlink::bpf::MapShape| Map::pinned(shape, &path.join(shape.name));
        let (Some(events), Some(requests)) = (map(shapes.events)?, map(shapes.requests)?) else {
            return Err(EventError::NotPinned { path });
        };
        let mut reader = Self {
            ring: Ring::open(&events)?,
            requests,
            _lock: lock,
        };
        reader.ring.read(|_| {});
        reader.request()?;
        Ok(reader)
    }

    /// Requests events for the next five seconds.
    ///
    /// # Errors
    ///
    /// [`EventError::Bpf`].
    pub fn request(&self) -> Result<(), EventError> {
        let until = netlink::clock::since_boot() + REQUEST_TIME;
        let nanoseconds = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        self.requests.update(&ONLY_KEY, &nanoseconds.to_ne_bytes())?;
        Ok(())
    }

    /// Passes the events since the last call to `each`, without waiting. The event of a connection is complete when
    /// connect(2) returns.
    pub fn read(&mut self, mut each: impl FnMut(&ConnectionEvent)) {
        self.ring.read(|record| {
            if let Some(event) = ConnectionEvent::of_bytes(record) {
                each(&event);
            }
        });
    }
}

#[cfg(test)]
mod tests;
