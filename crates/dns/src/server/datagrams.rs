//! Datagrams in batches: one system call receives a batch, another one sends the responses.
//!
//! All system calls of the server with pointers are in this module. A batch owns its buffers and is reused. Receiving
//! allocates only when the load reaches a new maximum, and sending never.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr;

use super::respond::UDP_BYTES_MAX;

/// Datagrams per batch. It bounds the memory of a worker (2 x 4 KiB each), and the wait of the first query for the last.
const BATCH_MAX: usize = 32;
/// Datagrams per batch under low load.
const BATCH_MIN: usize = 4;
/// Limit of a query in bytes; a longer query is truncated, and is then malformed.
const QUERY_BYTES_MAX: usize = 4_096;
/// Buffer for the control message with the destination address, in bytes.
const CONTROL_BYTES: usize = 64;

/// Source and destination of a datagram; the response takes the reverse route.
#[derive(Clone, Copy)]
pub(super) struct Route {
    peer: libc::sockaddr_storage,
    peer_bytes: libc::socklen_t,
    control: Control,
    control_bytes: usize,
}

/// Buffer with the alignment of control messages.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// A datagram and its response.
pub(super) struct Slot {
    route: Route,
    query: [u8; QUERY_BYTES_MAX],
    query_bytes: usize,
    /// Buffer for the response.
    pub(super) response: [u8; UDP_BYTES_MAX],
    /// Length of the response in bytes; 0 sends nothing.
    pub(super) response_bytes: usize,
}

/// Datagrams that are received together and answered together.
pub(super) struct Batch {
    slots: Vec<Slot>,
    /// Arguments of the system calls. Their pointers are set before each call.
    parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// Size of the next batch. It grows with the load, so that a single query does not need the work for 32.
    next_size: usize,
}

impl Route {
    const fn new() -> Self {
        // SAFETY: sockaddr_storage is plain numbers, for which zeros are a valid value.
        let peer = unsafe { zeroed() };
        Self {
            peer,
            peer_bytes: 0,
            control: Control([0; CONTROL_BYTES]),
            control_bytes: 0,
        }
    }
}

impl Route {
    /// Returns the address of the client; `None` for families other than IP.
    pub(super) fn client(&self) -> Option<std::net::IpAddr> {
        let storage = (&raw const self.peer).cast::<libc::sockaddr>();
        // SAFETY: the storage is as long as the longest address, and its first field states which one it holds.
        unsafe {
            match i32::from((*storage).sa_family) {
                libc::AF_INET => {
                    let address = storage.cast::<libc::sockaddr_in>().read_unaligned();
                    Some(std::net::Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()).into())
                }
                libc::AF_INET6 => {
                    let address = storage.cast::<libc::sockaddr_in6>().read_unaligned();
                    Some(std::net::Ipv6Addr::from(address.sin6_addr.s6_addr).to_canonical())
                }
                _ => None,
            }
        }
    }
}

impl Slot {
    fn new() -> Self {
        Self {
            route: Route::new(),
            query: [0; QUERY_BYTES_MAX],
            query_bytes: 0,
            response: [0; UDP_BYTES_MAX],
            response_bytes: 0,
        }
    }

    /// Returns the datagram and the buffer for its response.
    pub(super) fn split(&mut self) -> (&[u8], &mut [u8]) {
        (
            self.query.get(..self.query_bytes).unwrap_or_default(),
            &mut self.response,
        )
    }

    /// Returns the route of the response.
    pub(super) fn route(&self) -> Route {
        self.route
    }
}

impl Batch {
    /// Returns a batch for an idle socket. Its memory grows with the load.
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            parts: Vec::with_capacity(BATCH_MAX),
            headers: Vec::with_capacity(BATCH_MAX),
            next_size: BATCH_MIN,
        }
    }

    /// Waits for a datagram and takes all others that have arrived, up to the size of the batch. `Interrupted` and
    /// an empty batch are not failures of the socket.
    pub(super) fn receive(&mut self, socket: &UdpSocket) -> io::Result<&mut [Slot]> {
        self.parts.clear();
        self.headers.clear();
        if self.slots.len() < self.next_size {
            self.slots.resize_with(self.next_size, Slot::new);
        }
        for slot in self.slots.iter_mut().take(self.next_size) {
            slot.response_bytes = 0;
            self.parts.push(libc::iovec {
                iov_base: slot.query.as_mut_ptr().cast(),
                iov_len: QUERY_BYTES_MAX,
            });
        }
        for (slot, part) in self.slots.iter_mut().zip(&mut self.parts) {
            slot.route.peer_bytes = socklen::<libc::sockaddr_storage>();
            slot.route.control_bytes = CONTROL_BYTES;
            self.headers.push(header(&mut slot.route, part));
        }
        let count = libc::c_uint::try_from(self.headers.len()).unwrap_or(0);
        // SAFETY: the headers point to slots and parts of this batch. The batch owns them, their lengths are the sizes of
        // the buffers, and nothing else uses them during the call.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count,
                libc::MSG_WAITFORONE,
                ptr::null_mut(),
            )
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        self.next_size = (2 * received).clamp(BATCH_MIN, BATCH_MAX);
        for (slot, header) in self.slots.iter_mut().zip(&self.headers).take(received) {
            slot.query_bytes = usize::try_from(header.msg_len).unwrap_or(0);
            slot.route.peer_bytes = header.msg_hdr.msg_namelen;
            slot.route.keep_destination(&header.msg_hdr);
        }
        Ok(self.slots.get_mut(..received).unwrap_or_default())
    }

    /// Sends the responses of the first `count` slots. One that cannot be sent is skipped: its client retries.
    pub(super) fn send(&mut self, socket: &UdpSocket, count: usize) {
        self.parts.clear();
        self.headers.clear();
        let has_response = |slot: &&mut Slot| slot.response_bytes > 0;
        for slot in self.slots.iter_mut().take(count).filter(has_response) {
            let iov_len = slot.response_bytes.min(UDP_BYTES_MAX);
            self.parts.push(libc::iovec {
                iov_base: slot.response.as_mut_ptr().cast(),
                iov_len,
            });
        }
        for (slot, part) in self
            .slots
            .iter_mut()
            .take(count)
            .filter(has_response)
            .zip(&mut self.parts)
        {
            self.headers.push(header(&mut slot.route, part));
        }
        let mut rest = self.headers.as_mut_slice();
        while !rest.is_empty() {
            let count = libc::c_uint::try_from(rest.len()).unwrap_or(0);
            // SAFETY: as in `receive`; the kernel only reads the memory to which the headers point.
            let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), count, 0) };
            let done = usize::try_from(sent).unwrap_or_else(|_| {
                tracing::debug!(error = %io::Error::last_os_error(), "response not sent");
                1
            });
            rest = rest.get_mut(done.max(1)..).unwrap_or_default();
        }
    }
}

/// Sends one response outside of a batch.
pub(super) fn send(socket: &UdpSocket, route: &Route, response: &[u8]) -> io::Result<()> {
    let mut route = *route;
    let mut part = libc::iovec {
        iov_base: response.as_ptr().cast_mut().cast(),
        iov_len: response.len(),
    };
    let header = header(&mut route, &mut part).msg_hdr;
    // SAFETY: the header points to the copied route and to the answer. Both live until the call is over, and the
    // kernel only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, 0) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Makes the kernel report the destination address of each datagram (ip(7) `IP_PKTINFO`, ipv6(7)
/// `IPV6_RECVPKTINFO`), for sockets that are bound to all addresses.
pub(super) fn enable_packet_info(socket: &UdpSocket, v6: bool) -> io::Result<()> {
    let (level, option) = if v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
    } else {
        (libc::IPPROTO_IP, libc::IP_PKTINFO)
    };
    set_option(socket, level, option, 1)
}

/// Makes the kernel ignore path MTU reports (ip(7) `IP_PMTUDISC_OMIT`). A forged report would make it send
/// fragments, whose contents can be forged.
pub(super) fn ignore_path_mtu(socket: &UdpSocket, v6: bool) -> io::Result<()> {
    let (level, option, value) = if v6 {
        (
            libc::IPPROTO_IPV6,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_PMTUDISC_OMIT,
        )
    } else {
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT)
    };
    set_option(socket, level, option, value)
}

fn set_option(
    socket: &UdpSocket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let length = socklen::<libc::c_int>();
    // SAFETY: the option's value is an integer, as the pointer and the length describe.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    if set < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Wakes a worker that waits in [`Batch::receive`], which then returns an empty batch.
pub(super) fn wake(socket: &UdpSocket) {
    // SAFETY: the call has no pointers. On a socket without peer it fails with ENOTCONN, but ends
    // receiving nevertheless.
    let result = unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RD) };
    tracing::trace!(result, "shutdown of a receiving socket");
}

impl Route {
    /// Keeps the destination address of a datagram in the form that makes the kernel respond from it. The interface is
    /// kept for link-local addresses only, which are ambiguous without it.
    fn keep_destination(&mut self, header: &libc::msghdr) {
        self.control_bytes = 0;
        // SAFETY: the header was filled in by the kernel, and its control buffer is this route's.
        let message = unsafe { libc::CMSG_FIRSTHDR(header).as_mut() };
        let Some(message) = message else { return };
        let kept = match (message.cmsg_level, message.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // SAFETY: a message of this type holds an in_pktinfo; it need not be aligned as one.
                let info: *mut libc::in_pktinfo = unsafe { libc::CMSG_DATA(message) }.cast();
                // SAFETY: as above; the buffer is ours alone at this moment.
                unsafe {
                    let mut value = info.read_unaligned();
                    value.ipi_spec_dst = value.ipi_addr;
                    value.ipi_ifindex = 0;
                    info.write_unaligned(value);
                }
                size_of::<libc::in_pktinfo>()
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: a message of this type holds an in6_pktinfo; it need not be aligned as one.
                let info: *mut libc::in6_pktinfo = unsafe { libc::CMSG_DATA(message) }.cast();
                // SAFETY: as above; the buffer is ours alone at this moment.
                unsafe {
                    let mut value = info.read_unaligned();
                    if !std::net::Ipv6Addr::from(value.ipi6_addr.s6_addr).is_unicast_link_local() {
                        value.ipi6_ifindex = 0;
                    }
                    info.write_unaligned(value);
                }
                size_of::<libc::in6_pktinfo>()
            }
            _ => return,
        };
        // SAFETY: the macro only computes with its argument.
        let control_bytes = unsafe { libc::CMSG_SPACE(libc::c_uint::try_from(kept).unwrap_or(0)) };
        self.control_bytes = usize::try_from(control_bytes).unwrap_or(0).min(CONTROL_BYTES);
    }
}

/// Returns a header that points to a route and a part. Its pointers are valid as long as neither moves.
fn header(route: &mut Route, part: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: a header is numbers and pointers, for which zeros are a valid value.
    let mut header: libc::mmsghdr = unsafe { zeroed() };
    header.msg_hdr.msg_name = (&raw mut route.peer).cast();
    header.msg_hdr.msg_namelen = route.peer_bytes;
    header.msg_hdr.msg_iov = part;
    header.msg_hdr.msg_iovlen = 1;
    if route.control_bytes > 0 {
        header.msg_hdr.msg_control = (&raw mut route.control).cast();
        header.msg_hdr.msg_controllen = route.control_bytes as _;
    }
    header
}

fn socklen<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0)
}

/// Returns the addresses of the host's interfaces (getifaddrs(3)); none if the kernel does not report them.
pub(super) fn interface_addresses() -> Vec<std::net::IpAddr> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the call sets the pointer to a list that is ours until it is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        tracing::warn!(error = %io::Error::last_os_error(), "listing interface addresses failed");
        return Vec::new();
    }
    let mut addresses = Vec::new();
    // SAFETY: `first` is null or points to an element of the list, as does every `ifa_next`.
    let mut next = unsafe { first.as_ref() };
    while let Some(interface) = next {
        // SAFETY: the address is null or of the family that its first field states.
        unsafe {
            match interface
                .ifa_addr
                .as_ref()
                .map(|address| i32::from(address.sa_family))
            {
                Some(libc::AF_INET) => {
                    let address: libc::sockaddr_in =
                        interface.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                    addresses.push(std::net::Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()).into());
                }
                Some(libc::AF_INET6) => {
                    let address = interface.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                    addresses.push(std::net::Ipv6Addr::from(address.sin6_addr.s6_addr).into());
                }
                _ => {}
            }
        }
        // SAFETY: as for `first`.
        next = unsafe { interface.ifa_next.as_ref() };
    }
    // SAFETY: the list came from getifaddrs and is not used any more.
    unsafe { libc::freeifaddrs(first) };
    addresses
}

#[cfg(test)]
mod tests;
