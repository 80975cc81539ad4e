//! TCP sockets of a network namespace, and their destruction (`NETLINK_SOCK_DIAG`, sock_diag(7)).
//!
//! The process with a destroyed socket gets ECONNABORTED, and its peer gets a TCP reset.

mod wire;

use std::io;
use std::net::SocketAddr;

use crate::message::Writer;
use crate::socket::{DUMP_ATTEMPTS_MAX, Socket, Subsystem, complete_dump};

use wire::Family;

/// State of a connection (`net/tcp_states.h`), as far as a process may still have the socket open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Both directions are open.
    Established,
    /// The first packet is sent.
    SynSent,
    /// The own direction is closed, and not yet acknowledged.
    FinWait1,
    /// The own direction is closed.
    FinWait2,
    /// The direction of the peer is closed.
    CloseWait,
}

impl State {
    const ALL: [Self; 5] = [
        Self::Established,
        Self::SynSent,
        Self::FinWait1,
        Self::FinWait2,
        Self::CloseWait,
    ];

    fn number(self) -> u8 {
        match self {
            Self::Established => 1,
            Self::SynSent => 2,
            Self::FinWait1 => 4,
            Self::FinWait2 => 5,
            Self::CloseWait => 8,
        }
    }

    fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.number() == number)
    }
}

/// A connected TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSocket {
    /// Own address and port. IPv6 sockets may have IPv4 addresses as `::ffff:…`.
    pub local: SocketAddr,
    /// Address and port of the peer.
    pub remote: SocketAddr,
    /// State.
    pub state: State,
    /// Link to which the socket is bound; 0 for no link.
    pub link_index: u32,
    /// Number of the socket, never reused (`SO_COOKIE`).
    pub cookie: u64,
}

/// Failures of socket diagnostics.
#[derive(Debug, thiserror::Error)]
pub enum SocketDiagnosticsError {
    /// No socket could be opened: no file descriptor is left, or the kernel lacks `CONFIG_INET_DIAG`.
    #[error("cannot open a netlink socket for socket diagnostics: {0}")]
    Open(#[source] io::Error),
    /// The list of sockets could not be read. A retry helps if memory was short.
    #[error("cannot list TCP sockets: {0}")]
    List(#[source] io::Error),
    /// Concurrent changes interrupted every attempt to list sockets. Retry later.
    #[error(
        "cannot list TCP sockets: the list changed during each of {DUMP_ATTEMPTS_MAX} attempts; retry later"
    )]
    Inconsistent,
    /// CAP_NET_ADMIN is missing in the user namespace of the network namespace.
    #[error("cannot destroy TCP sockets: CAP_NET_ADMIN is needed (run as root, or grant it)")]
    NotPermitted,
    /// The kernel does not destroy sockets. A retry does not help.
    #[error("cannot destroy TCP sockets: the kernel lacks CONFIG_INET_DIAG_DESTROY")]
    Unsupported,
    /// The kernel refused to destroy a socket.
    #[error("cannot destroy the TCP socket of {local} to {remote}: {source}")]
    Destroy {
        /// Own address and port of the socket.
        local: SocketAddr,
        /// Its peer.
        remote: SocketAddr,
        /// Error of the kernel.
        source: io::Error,
    },
}

/// TCP sockets of a network namespace.
#[derive(Debug)]
pub struct SocketDiagnostics {
    socket: Socket,
}

impl SocketDiagnostics {
    /// Opens a netlink socket in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// [`SocketDiagnosticsError::Open`].
    pub fn open() -> Result<Self, SocketDiagnosticsError> {
        Socket::open(Subsystem::SocketDiagnostics)
            .map(|socket| Self { socket })
            .map_err(SocketDiagnosticsError::Open)
    }

    /// Checks that the kernel lists and destroys TCP sockets, without doing either.
    ///
    /// # Errors
    ///
    /// The reason why it does not. Without CAP_NET_ADMIN, only [`SocketDiagnostics::destroy`] reports it.
    pub fn probe(&mut self) -> Result<(), SocketDiagnosticsError> {
        let sequence = self.socket.next_sequence();
        let mut request = Writer::default();
        wire::write_list(&mut request, sequence, Family::V4, &[]);
        self.socket
            .exchange(request.finish(), sequence, |_| {})
            .map_err(SocketDiagnosticsError::List)?;
        let sequence = self.socket.next_sequence();
        let mut request = Writer::default();
        wire::write_destroy_none(&mut request, sequence);
        match self.socket.exchange(request.finish(), sequence, |_| {}) {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOENT) => Ok(()),
                Some(libc::EPERM) => Err(SocketDiagnosticsError::NotPermitted),
                _ => Err(SocketDiagnosticsError::Unsupported),
            },
        }
    }

    /// Returns the connected TCP sockets that `filter` accepts, at most `sockets_max`.
    ///
    /// # Errors
    ///
    /// [`SocketDiagnosticsError::List`] or [`SocketDiagnosticsError::Inconsistent`].
    pub fn tcp_sockets(
        &mut self,
        sockets_max: usize,
        mut filter: impl FnMut(&TcpSocket) -> bool,
    ) -> Result<Vec<TcpSocket>, SocketDiagnosticsError> {
        let mut sockets: Vec<TcpSocket> = Vec::new();
        for family in Family::ALL {
            let first = sockets.len();
            let listed = complete_dump(|| -> Result<((), bool), SocketDiagnosticsError> {
                sockets.truncate(first);
                let sequence = self.socket.next_sequence();
                let mut request = Writer::default();
                wire::write_list(&mut request, sequence, family, &State::ALL);
                let list = self.socket.exchange(request.finish(), sequence, |message| {
                    if sockets.len() < sockets_max {
                        sockets.extend(wire::read(message).filter(|socket| filter(socket)));
                    }
                });
                Ok(((), list.map_err(SocketDiagnosticsError::List)?.is_inconsistent))
            })?;
            listed.ok_or(SocketDiagnosticsError::Inconsistent)?;
        }
        Ok(sockets)
    }

    /// Destroys a socket. Returns false if it does not exist any more.
    ///
    /// # Errors
    ///
    /// [`SocketDiagnosticsError::NotPermitted`], [`SocketDiagnosticsError::Unsupported`] or
    /// [`SocketDiagnosticsError::Destroy`].
    pub fn destroy(&mut self, socket: &TcpSocket) -> Result<bool, SocketDiagnosticsError> {
        let sequence = self.socket.next_sequence();
        let mut request = Writer::default();
        wire::write_destroy(&mut request, sequence, socket);
        match self.socket.exchange(request.finish(), sequence, |_| {}) {
            Ok(_) => Ok(true),
            Err(source) => match source.raw_os_error() {
                // The cookie is that of another socket, or the socket has ended.
                Some(libc::ENOENT | libc::ESTALE) => Ok(false),
                Some(libc::EPERM) => Err(SocketDiagnosticsError::NotPermitted),
                Some(libc::EOPNOTSUPP) => Err(SocketDiagnosticsError::Unsupported),
                _ => Err(SocketDiagnosticsError::Destroy {
                    local: socket.local,
                    remote: socket.remote,
                    source,
                }),
            },
        }
    }
}

/// Decodes a message as a socket.
#[cfg(fuzzing)]
pub(crate) fn decode_for_fuzzing(message: &crate::message::Message<'_>) {
    wire::read(message);
}

#[cfg(test)]
mod tests;
