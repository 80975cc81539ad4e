//! Packet sockets: frames of one link (packet(7)).

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use crate::filter::{self, step};
use crate::route::LinkIndex;

#[cfg(test)]
mod tests;

/// Offset of the operation in an ARP frame (RFC 826), after 14 bytes of Ethernet header.
const ARP_OPERATION_OFFSET: u32 = 20;
const ARP_REQUEST: u32 = 1;
/// Offset of the next header in an IPv6 frame, and of the ICMPv6 type.
const IPV6_NEXT_HEADER_OFFSET: u32 = 20;
const ICMPV6: u32 = 58;
const ICMPV6_TYPE_OFFSET: u32 = 54;
const NEIGHBOUR_SOLICITATION: u32 = 135;

/// Frames that a socket receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// All ARP frames.
    Arp,
    /// ARP requests.
    ArpRequests,
    /// Neighbour solicitations (RFC 4861).
    Solicitations,
}

/// A non-blocking socket on one link, which receives and sends whole frames. Calls that would block return
/// [`io::ErrorKind::WouldBlock`].
#[derive(Debug)]
pub struct PacketSocket {
    descriptor: OwnedFd,
}

impl PacketSocket {
    /// Opens a socket on a link in the network namespace of the calling thread. This needs CAP_NET_RAW.
    ///
    /// # Errors
    ///
    /// The error of the failed system call.
    pub fn open(link: LinkIndex, frames: Frames) -> io::Result<Self> {
        let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // Without a protocol, the socket receives nothing until it has its filter. SAFETY: socket takes no pointer.
        let raw = unsafe { libc::socket(libc::AF_PACKET, flags, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
        let protocol = match frames {
            Frames::Arp | Frames::ArpRequests => libc::ETH_P_ARP,
            Frames::Solicitations => libc::ETH_P_IPV6,
        };
        filter::attach(descriptor.as_fd(), &filter_program(frames))?;
        // SAFETY: all zeros are a valid address.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = (protocol as u16).to_be();
        address.sll_ifindex = libc::c_int::try_from(link.0).unwrap_or(libc::c_int::MAX);
        // SAFETY: the pointer is valid for the length that is given.
        let result = unsafe {
            libc::bind(
                descriptor.as_raw_fd(),
                (&raw const address).cast(),
                mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { descriptor })
    }

    /// Receives a frame and returns its length. A longer frame is cut.
    ///
    /// # Errors
    ///
    /// The error of `recv(2)`, such as [`io::ErrorKind::WouldBlock`].
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the pointer is valid for the length that is given.
        let received = unsafe {
            libc::recv(
                self.descriptor.as_raw_fd(),
                frame.as_mut_ptr().cast(),
                frame.len(),
                0,
            )
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// Sends a frame.
    ///
    /// # Errors
    ///
    /// The error of `send(2)`.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the pointer is valid for the length that is given.
        let sent = unsafe { libc::send(self.descriptor.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for PacketSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}

fn filter_program(frames: Frames) -> Vec<libc::sock_filter> {
    let load_byte = |offset| step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, offset);
    let load_half = |offset| step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, offset);
    let unless = |value, skip| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip, value);
    let end = |bytes| step(libc::BPF_RET | libc::BPF_K, 0, 0, bytes);
    match frames {
        Frames::Arp => vec![end(u32::MAX)],
        Frames::ArpRequests => vec![
            load_half(ARP_OPERATION_OFFSET),
            unless(ARP_REQUEST, 1),
            end(u32::MAX),
            end(0),
        ],
        Frames::Solicitations => vec![
            load_byte(IPV6_NEXT_HEADER_OFFSET),
            unless(ICMPV6, 3),
            load_byte(ICMPV6_TYPE_OFFSET),
            unless(NEIGHBOUR_SOLICITATION, 1),
            end(u32::MAX),
            end(0),
        ],
    }
}
