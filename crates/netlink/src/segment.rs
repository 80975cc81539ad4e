//! TCP segments with any source address (raw(7), RFC 9293).

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::tcp;

/// Size of a TCP header without options, in bytes.
const TCP_BYTES: u8 = 20;
/// Length of the TCP header in units of four bytes, in the upper half of its byte.
const TCP_DATA_OFFSET: u8 = (TCP_BYTES / 4) << 4;
/// Offset of the checksum in a TCP header.
const CHECKSUM_OFFSET: usize = 16;
/// Hops that a segment may take: the kernel's default.
const HOPS: u8 = 64;

/// Time for room in the buffer of a socket. A link transmits the buffered segments in less.
const SEND_TIMEOUT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// A socket that sends TCP segments.
#[derive(Debug)]
pub struct SegmentSocket {
    ipv4: OwnedFd,
    /// `None` if the kernel lacks IPv6.
    ipv6: Option<OwnedFd>,
}

impl SegmentSocket {
    /// Opens a socket in the network namespace of the calling thread. This needs CAP_NET_RAW.
    ///
    /// # Errors
    ///
    /// The error of the failed system call.
    pub fn open() -> io::Result<Self> {
        let ipv6 = match open(libc::AF_INET6) {
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) => None,
            opened => Some(opened?),
        };
        Ok(Self {
            ipv4: open(libc::AF_INET)?,
            ipv6,
        })
    }

    /// Sends a SYN. A host that has this connection responds with an acknowledgement of its own state (RFC 5961,
    /// section 4.2) and keeps the connection.
    ///
    /// # Errors
    ///
    /// The error of the failed system call; [`io::ErrorKind::InvalidInput`] if the families of the addresses differ.
    pub fn send_syn(&self, source: SocketAddr, destination: SocketAddr) -> io::Result<()> {
        self.send(source, destination, tcp::SYN, &[])
    }

    /// Sends one byte of data outside of the receive window. A host that has this connection responds with an
    /// acknowledgement of its own state (RFC 9293, section 3.10.7.4) and keeps the connection. Linux limits the rate of
    /// such responses only for segments without data, and for SYNs (`tcp_invalid_ratelimit`).
    ///
    /// # Errors
    ///
    /// The error of the failed system call; [`io::ErrorKind::InvalidInput`] if the families of the addresses differ.
    pub fn send_unexpected_byte(&self, source: SocketAddr, destination: SocketAddr) -> io::Result<()> {
        self.send(source, destination, tcp::ACK, &[0])
    }

    fn send(&self, source: SocketAddr, destination: SocketAddr, flags: u8, data: &[u8]) -> io::Result<()> {
        let packet = packet(source, destination, flags, data)?;
        match (destination.ip(), &self.ipv6) {
            (IpAddr::V4(address), _) => send_ipv4(&self.ipv4, &packet, address),
            (IpAddr::V6(address), Some(socket)) => send_ipv6(socket, &packet, address),
            (IpAddr::V6(_), None) => Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT)),
        }
    }
}

/// Opens a socket whose packets contain their IP header.
fn open(family: libc::c_int) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket takes no pointer.
    let raw = unsafe { libc::socket(family, flags, libc::IPPROTO_RAW) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Builds a segment with its IP header. The kernel fills in length, identification and checksum of an IPv4 header.
fn packet(source: SocketAddr, destination: SocketAddr, flags: u8, data: &[u8]) -> io::Result<Vec<u8>> {
    let segment_bytes = usize::from(TCP_BYTES) + data.len();
    let mut packet = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, HOPS, tcp::PROTOCOL, 0, 0];
            header.extend(from.octets());
            header.extend(to.octets());
            header
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let length = u16::try_from(segment_bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
            let mut header = vec![0x60, 0, 0, 0];
            header.extend(length.to_be_bytes());
            header.extend([tcp::PROTOCOL, HOPS]);
            header.extend(from.octets());
            header.extend(to.octets());
            header
        }
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let mut segment = Vec::with_capacity(segment_bytes);
    segment.extend(source.port().to_be_bytes());
    segment.extend(destination.port().to_be_bytes());
    // Sequence and acknowledgement numbers are 0. The receiver checks neither in a SYN of an open connection. Both are
    // outside of the windows of almost all connections.
    segment.extend([0; 8]);
    segment.extend([TCP_DATA_OFFSET, flags]);
    // Window, checksum and urgent pointer.
    segment.extend([0; 6]);
    segment.extend(data);
    let sum = checksum(source.ip(), destination.ip(), &segment).to_be_bytes();
    if let Some(field) = segment.get_mut(CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2) {
        field.copy_from_slice(&sum);
    }
    packet.extend(segment);
    Ok(packet)
}

/// Returns the checksum of a segment (RFC 9293, section 3.1; RFC 8200, section 8.1).
fn checksum(source: IpAddr, destination: IpAddr, segment: &[u8]) -> u16 {
    let mut bytes = Vec::new();
    for address in [source, destination] {
        match address {
            IpAddr::V4(address) => bytes.extend(address.octets()),
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
    }
    bytes.extend([0, tcp::PROTOCOL]);
    bytes.extend((segment.len() as u16).to_be_bytes());
    bytes.extend(segment);
    let words = bytes.chunks(2).map(|word| match word {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        [high] => u32::from(*high) << 8,
        _ => 0,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn send_ipv4(socket: &OwnedFd, packet: &[u8], to: Ipv4Addr) -> io::Result<()> {
    // SAFETY: all zeros are a valid address.
    let mut address: libc::sockaddr_in = unsafe { mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_addr.s_addr = u32::from_ne_bytes(to.octets());
    send(socket, packet, &address)
}

fn send_ipv6(socket: &OwnedFd, packet: &[u8], to: Ipv6Addr) -> io::Result<()> {
    // SAFETY: all zeros are a valid address.
    let mut address: libc::sockaddr_in6 = unsafe { mem::zeroed() };
    address.sin6_family = libc::AF_INET6 as libc::sa_family_t;
    address.sin6_addr.s6_addr = to.octets();
    send(socket, packet, &address)
}

/// Sends a packet to a socket address of the kernel's C types. If the buffer of the socket is full, it waits for room, and
/// tries once more.
fn send<A>(socket: &OwnedFd, packet: &[u8], address: &A) -> io::Result<()> {
    match try_send(socket, packet, address) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            // After a timeout the second attempt fails in the same way.
            poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&SEND_TIMEOUT))?;
            try_send(socket, packet, address)
        }
        sent => sent,
    }
}

/// Sends a packet without waiting.
fn try_send<A>(socket: &OwnedFd, packet: &[u8], address: &A) -> io::Result<()> {
    // SAFETY: both pointers are valid for the lengths that are given.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            packet.as_ptr().cast(),
            packet.len(),
            0,
            std::ptr::from_ref(address).cast(),
            mem::size_of::<A>() as libc::socklen_t,
        )
    };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
