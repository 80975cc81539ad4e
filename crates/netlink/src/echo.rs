//! ICMP echo requests that must not be fragmented (RFC 792, RFC 4443, RFC 1191).

use std::io;
use std::mem;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Sizes of the headers in bytes.
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const ICMP_BYTES: usize = 8;
/// Buffer for a response in bytes: the longest IP packet.
const PACKET_BYTES_MAX: usize = 65_535;

/// Response to an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// A reply arrived.
    Reply,
    /// No response arrived.
    Timeout,
    /// The packet is larger than the MTU of the link, or than that of the path, as an ICMP message reported.
    TooLarge,
    /// No route leads to the target, or an ICMP message reported that.
    Unreachable,
}

/// Sends an echo request as an IP packet of `bytes` bytes that no router fragments, and waits for the reply. This needs
/// CAP_NET_RAW.
///
/// # Errors
///
/// The error of the failed system call.
pub fn echo(target: IpAddr, bytes: usize, timeout: Duration) -> io::Result<Echo> {
    let socket = match open(target) {
        Ok(socket) => socket,
        // The connection looks up the route.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => {
            return Ok(Echo::Unreachable);
        }
        Err(error) => return Err(error),
    };
    let identifier = std::process::id() as u16;
    let (request, sequence) = (request(target, bytes, identifier), bytes as u16);
    let sent = send(&socket, &request);
    match sent.err().as_ref().and_then(io::Error::raw_os_error) {
        None => {}
        Some(errno) => return response_of(errno),
    }
    let deadline = Instant::now() + timeout;
    let mut packet = vec![0; PACKET_BYTES_MAX];
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() || !wait(&socket, remaining)? {
            return Ok(Echo::Timeout);
        }
        match receive(&socket, &mut packet) {
            Ok(length) => {
                let received = packet.get(..length).unwrap_or_default();
                if is_reply(target, received, identifier, sequence) {
                    return Ok(Echo::Reply);
                }
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => {}
                Some(errno) => return response_of(errno),
                None => return Err(error),
            },
        }
    }
}

fn response_of(errno: i32) -> io::Result<Echo> {
    match errno {
        libc::EMSGSIZE => Ok(Echo::TooLarge),
        libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL => Ok(Echo::Unreachable),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Opens a socket that is connected to the target, so that ICMP messages about its packets are reported.
fn open(target: IpAddr) -> io::Result<OwnedFd> {
    let (family, protocol) = match target {
        IpAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_ICMP),
        IpAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_ICMPV6),
    };
    let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket takes no pointer.
    let raw = unsafe { libc::socket(family, flags, protocol) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    match target {
        IpAddr::V4(_) => {
            set(
                &socket,
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                libc::IP_PMTUDISC_DO,
            )?;
            set(&socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
        }
        IpAddr::V6(_) => {
            set(
                &socket,
                libc::IPPROTO_IPV6,
                libc::IPV6_MTU_DISCOVER,
                libc::IPV6_PMTUDISC_DO,
            )?;
            set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
        }
    }
    connect(&socket, target)?;
    Ok(socket)
}

/// Builds an echo request. The kernel computes the checksum of ICMPv6.
fn request(target: IpAddr, bytes: usize, identifier: u16) -> Vec<u8> {
    let (kind, header_bytes) = match target {
        IpAddr::V4(_) => (8, IPV4_BYTES),
        IpAddr::V6(_) => (128, IPV6_BYTES),
    };
    let mut request = vec![kind, 0, 0, 0];
    request.extend(identifier.to_be_bytes());
    request.extend((bytes as u16).to_be_bytes());
    let longest = PACKET_BYTES_MAX - header_bytes;
    request.resize(bytes.saturating_sub(header_bytes).clamp(ICMP_BYTES, longest), 0);
    if target.is_ipv4() {
        let sum = checksum(&request).to_be_bytes();
        if let Some(field) = request.get_mut(2..4) {
            field.copy_from_slice(&sum);
        }
    }
    request
}

/// Returns true if a received packet is the reply to a request.
fn is_reply(target: IpAddr, packet: &[u8], identifier: u16, sequence: u16) -> bool {
    let (message, kind) = match target {
        // The packet begins with its IPv4 header, whose length is in the first byte.
        IpAddr::V4(_) => {
            let header_bytes = packet.first().map_or(0, |first| usize::from(first & 0xf) * 4);
            (packet.get(header_bytes..).unwrap_or_default(), 0)
        }
        IpAddr::V6(_) => (packet, 129),
    };
    let [found, _, _, _, i0, i1, s0, s1, ..] = *message else {
        return false;
    };
    found == kind && u16::from_be_bytes([i0, i1]) == identifier && u16::from_be_bytes([s0, s1]) == sequence
}

/// Returns the Internet checksum (RFC 1071) of a message whose checksum field is zero.
fn checksum(message: &[u8]) -> u16 {
    let words = message.chunks(2);
    let words = words.map(|pair| match *pair {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        [high] => u32::from(u16::from_be_bytes([high, 0])),
        _ => 0,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn set(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the pointer is valid for the length that is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            mem::size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    check_result(result)
}

fn connect(socket: &OwnedFd, target: IpAddr) -> io::Result<()> {
    let raw: RawFd = socket.as_raw_fd();
    let result = match target {
        IpAddr::V4(address) => {
            // SAFETY: sockaddr_in is plain integers, for which zeros are valid.
            let mut to: libc::sockaddr_in = unsafe { mem::zeroed() };
            to.sin_family = libc::AF_INET as libc::sa_family_t;
            to.sin_addr.s_addr = u32::from_ne_bytes(address.octets());
            let length = mem::size_of::<libc::sockaddr_in>() as libc::socklen_t;
            // SAFETY: the pointer is valid for the length that is given.
            unsafe { libc::connect(raw, (&raw const to).cast(), length) }
        }
        IpAddr::V6(address) => {
            // SAFETY: sockaddr_in6 is plain integers, for which zeros are valid.
            let mut to: libc::sockaddr_in6 = unsafe { mem::zeroed() };
            to.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            to.sin6_addr.s6_addr = address.octets();
            let length = mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            // SAFETY: the pointer is valid for the length that is given.
            unsafe { libc::connect(raw, (&raw const to).cast(), length) }
        }
    };
    check_result(result)
}

fn send(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer is valid for the length that is given.
    let sent = unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
    if sent < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn receive(socket: &OwnedFd, packet: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer is valid for the length that is given.
    let received = unsafe { libc::recv(socket.as_raw_fd(), packet.as_mut_ptr().cast(), packet.len(), 0) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Waits until the socket has a packet or an error. Returns false after the timeout.
fn wait(socket: &OwnedFd, timeout: Duration) -> io::Result<bool> {
    let mut readable = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let milliseconds = libc::c_int::try_from(timeout.as_millis().max(1)).unwrap_or(libc::c_int::MAX);
    // SAFETY: the pointer is valid for one entry, as stated, during the call.
    match unsafe { libc::poll(&raw mut readable, 1, milliseconds) } {
        0 => Ok(false),
        1.. => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            error => Err(error),
        },
    }
}

fn check_result(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests;
