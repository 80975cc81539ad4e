//! UDP datagrams to an address of this host that a neighbour returns (raw(7), packet(7)).
//!
//! The kernel looks up the route to the neighbour, and the header has the own address as source and destination. The
//! forwarding of the neighbour returns the datagram. The IP stack of this host drops it, because its source is a local
//! address, so a packet socket receives it.

use std::io;
use std::mem;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::filter::{self, step};
use crate::route::LinkIndex;

#[cfg(test)]
mod tests;

/// Length of an IPv4 header without options.
const IP_BYTES: usize = 20;
/// Length of a UDP header.
const UDP_BYTES: usize = 8;
const UDP: u8 = 17;
/// Hops of a sent datagram. Each router takes one.
const HOPS: u8 = 255;
/// Least hops of a returned datagram: the neighbour itself has forwarded it.
const HOPS_MIN: u32 = 254;
/// Type of service: internetwork control (RFC 2474).
const TYPE_OF_SERVICE: u8 = 0xc0;
/// Maximum length of a payload that is sent or received.
const PAYLOAD_BYTES_MAX: usize = 64;

/// Non-blocking sockets for the datagrams of one link.
#[derive(Debug)]
pub struct SelfAddressedSocket {
    sender: OwnedFd,
    receiver: OwnedFd,
    address: Ipv4Addr,
    port: u16,
}

impl SelfAddressedSocket {
    /// Opens the sockets in the network namespace of the calling thread. `address` is one of this host on the link, and
    /// `port` the destination port of the datagrams. This needs CAP_NET_RAW.
    ///
    /// # Errors
    ///
    /// The error of the failed system call.
    pub fn open(link: LinkIndex, address: Ipv4Addr, port: u16) -> io::Result<Self> {
        Ok(Self {
            sender: open_sender(link)?,
            receiver: open_receiver(link, address, port)?,
            address,
            port,
        })
    }

    /// Sends a datagram with this payload to a neighbour, from a source port.
    ///
    /// # Errors
    ///
    /// The error of the failed system call; [`io::ErrorKind::InvalidInput`] for a payload of more than 64 bytes.
    pub fn send(&self, neighbour: Ipv4Addr, source_port: u16, payload: &[u8]) -> io::Result<()> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let packet = packet(self.address, source_port, self.port, payload);
        // SAFETY: all zeros are a valid address.
        let mut target: libc::sockaddr_in = unsafe { mem::zeroed() };
        target.sin_family = libc::AF_INET as libc::sa_family_t;
        target.sin_addr.s_addr = u32::from_ne_bytes(neighbour.octets());
        // SAFETY: both pointers are valid for the lengths that are given.
        let sent = unsafe {
            libc::sendto(
                self.sender.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                0,
                (&raw const target).cast(),
                mem::size_of::<libc::sockaddr_in>() as libc::socklen_t,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Receives a returned datagram, and returns its payload.
    ///
    /// # Errors
    ///
    /// The error of `recv(2)`, such as [`io::ErrorKind::WouldBlock`]; [`io::ErrorKind::InvalidData`] for a datagram whose
    /// lengths are invalid.
    pub fn receive(&self) -> io::Result<Vec<u8>> {
        // An IP header has up to 60 bytes.
        let mut packet = [0; 60 + UDP_BYTES + PAYLOAD_BYTES_MAX];
        // SAFETY: the pointer is valid for the length that is given.
        let received = unsafe {
            libc::recv(
                self.receiver.as_raw_fd(),
                packet.as_mut_ptr().cast(),
                packet.len(),
                0,
            )
        };
        let length = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let payload = payload(packet.get(..length).unwrap_or_default());
        payload.map_or_else(
            || Err(io::ErrorKind::InvalidData.into()),
            |payload| Ok(payload.to_vec()),
        )
    }
}

impl AsRawFd for SelfAddressedSocket {
    /// Returns the descriptor that becomes readable with a returned datagram.
    fn as_raw_fd(&self) -> RawFd {
        self.receiver.as_raw_fd()
    }
}

/// Returns the payload of a received datagram; `None` if its lengths are invalid.
fn payload(packet: &[u8]) -> Option<&[u8]> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let datagram = packet.get(header..)?;
    let [_, _, _, _, high, low, ..] = datagram else {
        return None;
    };
    datagram.get(UDP_BYTES..usize::from(u16::from_be_bytes([*high, *low])))
}

/// Builds a datagram with its IP header. The kernel fills in length, identification and checksum of the IP header. The
/// datagram has no checksum of its own (RFC 768).
fn packet(address: Ipv4Addr, source_port: u16, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(IP_BYTES + UDP_BYTES + payload.len());
    packet.extend([0x45, TYPE_OF_SERVICE, 0, 0, 0, 0, 0, 0, HOPS, UDP, 0, 0]);
    packet.extend(address.octets());
    packet.extend(address.octets());
    packet.extend(source_port.to_be_bytes());
    packet.extend(port.to_be_bytes());
    packet.extend(((UDP_BYTES + payload.len()) as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

/// Opens a raw socket whose packets contain their IP header and leave by the link.
fn open_sender(link: LinkIndex) -> io::Result<OwnedFd> {
    let sender = open(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW)?;
    let index = link.0.to_be();
    // SAFETY: the pointer is valid for the length that is given.
    let result = unsafe {
        libc::setsockopt(
            sender.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_UNICAST_IF,
            (&raw const index).cast(),
            mem::size_of::<u32>() as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(sender)
}

/// Opens a packet socket for the returned datagrams.
fn open_receiver(link: LinkIndex, address: Ipv4Addr, port: u16) -> io::Result<OwnedFd> {
    // Without a protocol, the socket receives nothing until it has its filter.
    let receiver = open(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?;
    filter::attach(receiver.as_fd(), &steps(address, port))?;
    // SAFETY: all zeros are a valid address.
    let mut local: libc::sockaddr_ll = unsafe { mem::zeroed() };
    local.sll_family = libc::AF_PACKET as libc::c_ushort;
    local.sll_protocol = (libc::ETH_P_IP as u16).to_be();
    local.sll_ifindex = libc::c_int::try_from(link.0).unwrap_or(libc::c_int::MAX);
    // SAFETY: the pointer is valid for the length that is given.
    let result = unsafe {
        libc::bind(
            receiver.as_raw_fd(),
            (&raw const local).cast(),
            mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(receiver)
}

fn open(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    let flags = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket takes no pointer.
    let raw = unsafe { libc::socket(family, flags, protocol) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Returns the filter of returned datagrams: UDP without fragments, with hops, destination address and port.
fn steps(address: Ipv4Addr, port: u16) -> Vec<libc::sock_filter> {
    let load = |size: u32, offset: u32| step(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, offset);
    let jump = |test: u32, if_true: u8, if_false: u8, value: u32| {
        step(libc::BPF_JMP | test | libc::BPF_K, if_true, if_false, value)
    };
    let end = |bytes| step(libc::BPF_RET | libc::BPF_K, 0, 0, bytes);
    vec![
        load(libc::BPF_B, 9),
        jump(libc::BPF_JEQ, 0, 10, UDP.into()),
        load(libc::BPF_H, 6),
        jump(libc::BPF_JSET, 8, 0, 0x3fff),
        load(libc::BPF_B, 8),
        jump(libc::BPF_JGE, 0, 6, HOPS_MIN),
        load(libc::BPF_W, 16),
        jump(libc::BPF_JEQ, 0, 4, u32::from(address)),
        step(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
        step(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 0, 0, 2),
        jump(libc::BPF_JEQ, 0, 1, port.into()),
        end(u32::MAX),
        end(0),
    ]
}
