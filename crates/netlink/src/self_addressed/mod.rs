//! UDP datagrams to an address of this host that a neighbour returns (raw(7), packet(7)).
//!
//! The kernel looks up the route to the neighbour, and the header has the address of this node as source and
//! destination. The forwarding of the neighbour returns the datagram. A packet socket receives it: the IPv4 stack of
//! this host drops it, because its source is a local address. The IPv6 stack would answer that the port is closed, so a
//! socket has the port.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::filter::{self, step};
use crate::route::LinkIndex;
use packet::{PACKET_BYTES_MAX, PAYLOAD_BYTES_MAX};

mod packet;
#[cfg(test)]
mod tests;

/// Non-blocking sockets for the datagrams of one link.
#[derive(Debug)]
pub struct SelfAddressedSocket {
    sender: OwnedFd,
    receiver: OwnedFd,
    /// Socket that has the port of an IPv6 address.
    _port_holder: Option<OwnedFd>,
    address: IpAddr,
    port: u16,
}

impl SelfAddressedSocket {
    /// Opens the sockets in the network namespace of the calling thread. `address` is one of this host on the link that the
    /// neighbour forwards packets to, so not a link-local one. `vrf` is the VRF of the link. `port` is the destination port
    /// of the datagrams. This needs CAP_NET_RAW.
    ///
    /// # Errors
    ///
    /// The error of the failed system call.
    pub fn open(link: LinkIndex, vrf: Option<&str>, address: IpAddr, port: u16) -> io::Result<Self> {
        Ok(Self {
            sender: open_sender(link, address)?,
            receiver: open_receiver(link, address, port)?,
            // A program that has the port already serves the same purpose.
            _port_holder: match address {
                IpAddr::V4(_) => None,
                IpAddr::V6(_) => hold_port(vrf, address, port).ok(),
            },
            address,
            port,
        })
    }

    /// Sends a datagram with this payload to a neighbour, from a source port.
    ///
    /// # Errors
    ///
    /// The error of the failed system call; [`io::ErrorKind::InvalidInput`] for a payload of more than 64 bytes, or a
    /// neighbour of the other IP family.
    pub fn send(&self, neighbour: IpAddr, source_port: u16, payload: &[u8]) -> io::Result<()> {
        if payload.len() > PAYLOAD_BYTES_MAX || neighbour.is_ipv4() != self.address.is_ipv4() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let packet = packet::packet(self.address, source_port, self.port, payload);
        // The header names the protocol, and a raw socket has no ports.
        let target = SocketAddress::from(SocketAddr::new(neighbour, 0));
        // SAFETY: both pointers are valid for the lengths that are given.
        let sent = unsafe {
            libc::sendto(
                self.sender.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                0,
                (&raw const target.storage).cast(),
                target.bytes,
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
        let mut packet = [0; PACKET_BYTES_MAX];
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
        let payload = packet::payload(packet.get(..length).unwrap_or_default());
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

/// Address for a system call.
struct SocketAddress {
    storage: libc::sockaddr_storage,
    bytes: libc::socklen_t,
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> Self {
        // SAFETY: all zeros are a valid address.
        let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        let bytes = match address {
            SocketAddr::V4(address) => {
                let target = (&raw mut storage).cast::<libc::sockaddr_in>();
                // SAFETY: the storage is large enough and aligned for each kind of address.
                let target = unsafe { &mut *target };
                target.sin_family = libc::AF_INET as libc::sa_family_t;
                target.sin_port = address.port().to_be();
                target.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
                mem::size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(address) => {
                let target = (&raw mut storage).cast::<libc::sockaddr_in6>();
                // SAFETY: as above.
                let target = unsafe { &mut *target };
                target.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                target.sin6_port = address.port().to_be();
                target.sin6_addr.s6_addr = address.ip().octets();
                mem::size_of::<libc::sockaddr_in6>()
            }
        };
        Self {
            storage,
            bytes: bytes as libc::socklen_t,
        }
    }
}

/// Opens a raw socket whose packets contain their IP header and leave by the link.
fn open_sender(link: LinkIndex, address: IpAddr) -> io::Result<OwnedFd> {
    let (family, level, option) = match address {
        IpAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_IP, libc::IP_UNICAST_IF),
        IpAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_IF),
    };
    let sender = open(family, libc::SOCK_RAW, libc::IPPROTO_RAW)?;
    set_option(&sender, level, option, link.0.to_be())?;
    Ok(sender)
}

/// Opens a packet socket for the returned datagrams.
fn open_receiver(link: LinkIndex, address: IpAddr, port: u16) -> io::Result<OwnedFd> {
    // Without a protocol, the socket receives nothing until it has its filter.
    let receiver = open(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?;
    filter::attach(receiver.as_fd(), &packet::steps(address, port))?;
    let protocol = if address.is_ipv4() {
        libc::ETH_P_IP
    } else {
        libc::ETH_P_IPV6
    };
    // SAFETY: all zeros are a valid address.
    let mut local: libc::sockaddr_ll = unsafe { mem::zeroed() };
    local.sll_family = libc::AF_PACKET as libc::c_ushort;
    local.sll_protocol = (protocol as u16).to_be();
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

/// Opens a socket that has the port in a VRF and receives nothing. Several sockets may have the port.
fn hold_port(vrf: Option<&str>, address: IpAddr, port: u16) -> io::Result<OwnedFd> {
    let holder = open(libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_UDP)?;
    filter::attach(holder.as_fd(), &[step(libc::BPF_RET | libc::BPF_K, 0, 0, 0)])?;
    set_option(&holder, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    if let Some(vrf) = vrf {
        bind_device(&holder, vrf)?;
    }
    let local = SocketAddress::from(SocketAddr::new(address, port));
    // SAFETY: the pointer is valid for the length that is given.
    let result = unsafe { libc::bind(holder.as_raw_fd(), (&raw const local.storage).cast(), local.bytes) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(holder)
}

/// Binds a socket to a link or VRF.
fn bind_device(socket: &OwnedFd, name: &str) -> io::Result<()> {
    // SAFETY: the pointer is valid for the length that is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn set_option(socket: &OwnedFd, level: libc::c_int, option: libc::c_int, value: u32) -> io::Result<()> {
    // SAFETY: the pointer is valid for the length that is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            mem::size_of::<u32>() as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
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
