//! Netlink sockets: requests, dumps and notifications.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::message::{HEADER_BYTES, Message, attributes, messages};

/// Size of the receive buffer in bytes. The kernel fills at most 32 KiB of a buffer of that size or more.
const DATAGRAM_BYTES_MAX: usize = 64 * 1024;
/// Requested size of the kernel's receive queue in bytes: all refusals of a batch arrive at once.
const RECEIVE_QUEUE_BYTES: libc::c_int = 4 * 1024 * 1024;
/// Maximum number of attempts of a dump that concurrent changes interrupt.
pub(crate) const DUMP_ATTEMPTS_MAX: usize = 16;
/// Maximum number of repetitions of a call that a signal interrupted.
const INTERRUPTIONS_MAX: usize = 64;
/// `NLMSGERR_ATTR_MSG`: text in an extended acknowledgement.
const ERROR_TEXT: u16 = 1;
/// Flag of an acknowledgement with attributes (`NLM_F_ACK_TLVS`).
const ACKNOWLEDGEMENT_HAS_ATTRIBUTES: u16 = 0x200;
/// Flag of an acknowledgement without the payload of the request (`NLM_F_CAPPED`).
const ACKNOWLEDGEMENT_IS_CAPPED: u16 = 0x100;

/// Kernel subsystem of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subsystem {
    /// Links, addresses, routes (`NETLINK_ROUTE`).
    Route,
    /// nftables, conntrack, ipset (`NETLINK_NETFILTER`).
    Netfilter,
    /// Generic families, such as ip_vs (`NETLINK_GENERIC`).
    Generic,
    /// Sockets of processes (`NETLINK_SOCK_DIAG`).
    SocketDiagnostics,
}

/// A netlink socket. It stays in the network namespace in which it was opened.
#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
    sequence: u32,
    datagram: Box<[u8]>,
}

impl Socket {
    /// Opens a socket in the network namespace of the calling thread. This needs no privilege; requests may.
    ///
    /// # Errors
    ///
    /// The error of the failed system call.
    pub fn open(subsystem: Subsystem) -> io::Result<Self> {
        let protocol = match subsystem {
            Subsystem::Route => libc::NETLINK_ROUTE,
            Subsystem::Netfilter => libc::NETLINK_NETFILTER,
            Subsystem::Generic => libc::NETLINK_GENERIC,
            Subsystem::SocketDiagnostics => libc::NETLINK_SOCK_DIAG,
        };
        // SAFETY: socket takes no pointer.
        let raw = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
        let socket = Self {
            descriptor,
            sequence: 0,
            datagram: vec![0; DATAGRAM_BYTES_MAX].into_boxed_slice(),
        };
        socket.set_option(libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, 1)?;
        socket.set_option(libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, 1)?;
        socket.set_buffer(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_QUEUE_BYTES)?;
        Ok(socket)
    }

    /// Reserves send buffer for one datagram of this size. Beyond `net.core.wmem_max` this needs CAP_NET_ADMIN.
    ///
    /// # Errors
    ///
    /// The error of `setsockopt(2)`.
    pub fn reserve_send(&self, bytes: usize) -> io::Result<()> {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        self.set_buffer(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
    }

    /// Reserves the kernel's receive queue. Beyond `net.core.rmem_max` this needs CAP_NET_ADMIN.
    ///
    /// # Errors
    ///
    /// The error of `setsockopt(2)`.
    pub fn reserve_receive(&self, bytes: usize) -> io::Result<()> {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        self.set_buffer(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
    }

    /// Returns the port ID (`nl_pid`); 0 before the first send.
    ///
    /// # Errors
    ///
    /// The error of `getsockname(2)`.
    pub fn port(&self) -> io::Result<u32> {
        let mut own = kernel();
        let mut bytes = mem::size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: both pointers are valid for the lengths that are given.
        let result =
            unsafe { libc::getsockname(self.descriptor.as_raw_fd(), (&raw mut own).cast(), &raw mut bytes) };
        if result == 0 {
            Ok(own.nl_pid)
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Joins a multicast group.
    ///
    /// # Errors
    ///
    /// The error of the failed system call.
    pub fn join(&self, group: u32) -> io::Result<()> {
        // A socket without a port ID receives no notifications. A second bind would leave the groups that it does not name.
        if self.port()? == 0 {
            self.bind()?;
        }
        let group = libc::c_int::try_from(group).unwrap_or(libc::c_int::MAX);
        self.set_option(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group)
    }

    /// Binds the socket to a port ID that the kernel chooses.
    fn bind(&self) -> io::Result<()> {
        let own = kernel();
        // SAFETY: the pointer is valid for the length that is given.
        let result = unsafe {
            libc::bind(
                self.descriptor.as_raw_fd(),
                (&raw const own).cast(),
                mem::size_of::<libc::sockaddr_nl>() as libc::socklen_t,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Returns the sequence number of the next request; never 0, which the kernel uses for its own messages.
    pub fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.sequence
    }

    /// Sends messages as one datagram. The kernel has processed them when this returns.
    ///
    /// # Errors
    ///
    /// The error of `sendto(2)`.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let to = kernel();
        for _ in 0..INTERRUPTIONS_MAX {
            // SAFETY: both pointers are valid for the lengths that are given.
            let sent = unsafe {
                libc::sendto(
                    self.descriptor.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    libc::MSG_NOSIGNAL,
                    (&raw const to).cast(),
                    mem::size_of::<libc::sockaddr_nl>() as libc::socklen_t,
                )
            };
            if sent >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Err(io::Error::from(io::ErrorKind::Interrupted))
    }

    /// Waits for a datagram, whose messages [`messages`] returns.
    ///
    /// # Errors
    ///
    /// The error of `recvfrom(2)`.
    pub fn receive(&mut self) -> io::Result<&[u8]> {
        let bytes = self.receive_with(0)?;
        Ok(self.datagram.get(..bytes).unwrap_or_default())
    }

    /// Waits at most `timeout` for a datagram. Returns true if there is one.
    ///
    /// # Errors
    ///
    /// The error of `poll(2)`.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let mut readable = libc::pollfd {
            fd: self.descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let milliseconds = libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: the pointer is valid for one entry, as stated, during the call.
        match unsafe { libc::poll(&raw mut readable, 1, milliseconds) } {
            0 => Ok(false),
            1.. => Ok(true),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
        }
    }

    /// Returns the next datagram if one is queued.
    ///
    /// # Errors
    ///
    /// The error of `recvfrom(2)`.
    pub fn receive_now(&mut self) -> io::Result<Option<&[u8]>> {
        match self.receive_with(libc::MSG_DONTWAIT) {
            Ok(bytes) => Ok(self.datagram.get(..bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Discards the rest of an abandoned response.
    ///
    /// # Errors
    ///
    /// The error of `recvfrom(2)`.
    pub fn drain(&mut self) -> io::Result<()> {
        loop {
            match self.receive_with(libc::MSG_DONTWAIT) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a request and passes each message of the response to `each`. The response ends with the dump
    /// (`NLM_F_DUMP`), or with the acknowledgement (`NLM_F_ACK` is required). The result reports an interrupted dump.
    ///
    /// # Errors
    ///
    /// The errno of the kernel, or the error of a system call.
    pub fn exchange(
        &mut self,
        request: &[u8],
        sequence: u32,
        mut each: impl FnMut(&Message<'_>),
    ) -> io::Result<Exchange> {
        self.send(request)?;
        let mut outcome = Exchange {
            is_inconsistent: false,
        };
        loop {
            let datagram = self.receive()?;
            for message in messages(datagram).filter(|message| message.sequence == sequence) {
                outcome.is_inconsistent |= i32::from(message.flags) & libc::NLM_F_DUMP_INTR != 0;
                match i32::from(message.kind) {
                    libc::NLMSG_NOOP => {}
                    libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                        return match Acknowledgement::read(&message) {
                            Some(acknowledgement) if acknowledgement.errno != 0 => {
                                Err(io::Error::from_raw_os_error(acknowledgement.errno))
                            }
                            _ => Ok(outcome),
                        };
                    }
                    _ => each(&message),
                }
            }
        }
    }

    fn receive_with(&mut self, flags: libc::c_int) -> io::Result<usize> {
        let mut interruptions = 0;
        loop {
            let mut from = kernel();
            let mut from_bytes = mem::size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            // SAFETY: all pointers are valid for the lengths that are given.
            let received = unsafe {
                libc::recvfrom(
                    self.descriptor.as_raw_fd(),
                    self.datagram.as_mut_ptr().cast(),
                    self.datagram.len(),
                    flags | libc::MSG_TRUNC,
                    (&raw mut from).cast(),
                    &raw mut from_bytes,
                )
            };
            let Ok(received) = usize::try_from(received) else {
                let error = io::Error::last_os_error();
                interruptions += 1;
                if error.kind() == io::ErrorKind::Interrupted && interruptions < INTERRUPTIONS_MAX {
                    continue;
                }
                return Err(error);
            };
            if from.nl_pid != 0 {
                continue; // another process may send to this socket; only the kernel has port 0
            }
            if received > self.datagram.len() {
                return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
            }
            return Ok(received);
        }
    }

    /// Without CAP_NET_ADMIN, the kernel refuses the forced option, and a sysctl limits the plain one.
    fn set_buffer(&self, forced: libc::c_int, plain: libc::c_int, bytes: libc::c_int) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, forced, bytes)
            .or_else(|_| self.set_option(libc::SOL_SOCKET, plain, bytes))
    }

    fn set_option(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        // SAFETY: the pointer is valid for the length that is given.
        let result = unsafe {
            libc::setsockopt(
                self.descriptor.as_raw_fd(),
                level,
                name,
                (&raw const value).cast(),
                mem::size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Repeats a dump until no change interrupts it. `dump` returns the entries, and true if a change interrupted the dump.
/// The result is `None` after [`DUMP_ATTEMPTS_MAX`] attempts. Callers report this as an error: entries of an
/// interrupted dump may be missing or duplicate, so nothing may be compared or deleted by them.
pub(crate) fn complete_dump<T, E>(mut dump: impl FnMut() -> Result<(T, bool), E>) -> Result<Option<T>, E> {
    for _ in 0..DUMP_ATTEMPTS_MAX {
        let (entries, is_inconsistent) = dump()?;
        if !is_inconsistent {
            return Ok(Some(entries));
        }
    }
    Ok(None)
}

/// Result of a request that the kernel did not refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// True if a change interrupted the dump (`NLM_F_DUMP_INTR`): entries may be missing or duplicate.
    pub is_inconsistent: bool,
}

/// Acknowledgement of a request (`struct nlmsgerr`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Errno; 0 for success.
    pub errno: i32,
    /// Text of the kernel.
    pub text: Option<String>,
}

impl Acknowledgement {
    /// Decodes a message of type `NLMSG_ERROR` or `NLMSG_DONE`. `None` if it is too short.
    pub fn read(message: &Message<'_>) -> Option<Self> {
        let errno = i32::from_ne_bytes(*message.payload.first_chunk()?).saturating_neg();
        let has_attributes = message.flags & ACKNOWLEDGEMENT_HAS_ATTRIBUTES != 0;
        let is_error = i32::from(message.kind) == libc::NLMSG_ERROR;
        let text = if has_attributes && is_error {
            let capped = message.flags & ACKNOWLEDGEMENT_IS_CAPPED != 0;
            text_of(message.payload, capped)
        } else {
            None
        };
        Some(Self { errno, text })
    }
}

fn text_of(payload: &[u8], capped: bool) -> Option<String> {
    let request = payload.get(4..)?;
    let length = u32::from_ne_bytes(*request.first_chunk()?) as usize;
    let skipped = if capped {
        HEADER_BYTES
    } else {
        length.checked_add(3)? & !3
    };
    let text = attributes(request.get(skipped..)?).find(|attribute| attribute.kind == ERROR_TEXT)?;
    text.text().map(str::to_owned)
}

fn kernel() -> libc::sockaddr_nl {
    // SAFETY: sockaddr_nl is plain integers, for which zeros are valid; port 0 is the kernel.
    let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address
}

#[cfg(test)]
mod tests;
