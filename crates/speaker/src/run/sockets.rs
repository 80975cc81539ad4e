//! TCP sockets with the options of BGP sessions: source, VRF, TTL (RFC 5082) and MD5 keys (RFC 2385).

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use bgp::session::LocalAddresses;
use netlink::route::{Address, Connection};
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::local_links::address_in;

/// TTL of packets to peers on other links, and of all packets with GTSM.
const TTL_MAX: u8 = 255;
/// Length of the queue of connections that were not accepted yet.
const BACKLOG: i32 = 64;
/// Maximum length of a key: `TCP_MD5SIG_MAXKEYLEN` of the kernel.
const KEY_BYTES_MAX: usize = 80;

/// Length of `struct sockaddr_storage`.
const ADDRESS_BYTES: usize = 128;

/// Options of the sockets of one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SocketOptions {
    pub(crate) remote: SocketAddr,
    /// Link of a peer whose address was discovered.
    pub(crate) link: Option<String>,
    pub(crate) source: Option<IpAddr>,
    pub(crate) vrf: Option<String>,
    pub(crate) ttl: Ttl,
    pub(crate) key: Option<Key>,
}

/// TTL of the packets of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ttl {
    /// The peer is on the same link: 1.
    Link,
    /// The peer may be on another link.
    Routed,
    /// Both send 255 and accept nothing else.
    Secured,
}

/// Key of TCP MD5; its `Debug` form hides it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key(Vec<u8>);

impl Key {
    /// Creates a key; `None` if it is empty or too long for the kernel.
    pub(crate) fn new(bytes: Vec<u8>) -> Option<Self> {
        (1..=KEY_BYTES_MAX).contains(&bytes.len()).then_some(Self(bytes))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Opens a connection.
///
/// # Errors
/// The kernel denies an option, or the peer is unreachable.
pub(crate) async fn connect(options: &SocketOptions) -> io::Result<TcpStream> {
    let socket = match options.remote {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    let reference = SockRef::from(&socket);
    if let Some(vrf) = &options.vrf {
        reference.bind_device(Some(vrf.as_bytes()))?;
    }
    set_ttl(&reference, options.remote.ip(), options.ttl)?;
    if let Some(key) = &options.key {
        set_key(&socket, options.remote.ip(), &key.0)?;
    }
    if let Some(source) = options.source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    let stream = socket.connect(options.remote).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sets the options of an accepted connection.
///
/// # Errors
/// The kernel denies an option.
pub(crate) fn prepare_accepted(stream: &TcpStream, options: &SocketOptions) -> io::Result<()> {
    set_ttl(&SockRef::from(stream), options.remote.ip(), options.ttl)?;
    if let Some(key) = &options.key {
        // The listener had no key if the connection is older than the key, or if the kernel refused it.
        set_key(stream, options.remote.ip(), &key.0)?;
    }
    stream.set_nodelay(true)
}

/// Returns the link or VRF to which a connection or a listener is bound.
///
/// # Errors
/// The link was deleted, or the kernel does not report it.
pub(crate) fn device(socket: &impl AsFd) -> io::Result<Option<String>> {
    let name = SockRef::from(socket).device()?;
    Ok(name.map(|name| String::from_utf8_lossy(&name).into_owned()))
}

/// Listens on all addresses of a family, in a VRF or outside of VRFs. By default, the kernel passes no connections of VRFs to
/// listeners outside, and listeners of several VRFs have the same port (`vrf.rst` of the kernel).
///
/// # Errors
/// Another process uses the port, or the VRF does not exist.
pub(crate) fn listen(address: SocketAddr, vrf: Option<&str>) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(vrf) = vrf {
        socket.bind_device(Some(vrf.as_bytes()))?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    // Responses to peers on the same link need a TTL that those with GTSM accept.
    set_ttl(&SockRef::from(&socket), address.ip(), Ttl::Routed)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Sets or removes the key of a peer on a listener.
///
/// # Errors
/// The kernel has no support for TCP MD5.
pub(crate) fn set_listener_key(listener: &TcpListener, peer: IpAddr, key: Option<&Key>) -> io::Result<()> {
    set_key(listener, peer, key.map_or(&[], |key| key.0.as_slice()))
}

fn set_ttl(socket: &SockRef<'_>, address: IpAddr, ttl: Ttl) -> io::Result<()> {
    let hops = match ttl {
        Ttl::Link => 1,
        Ttl::Routed | Ttl::Secured => TTL_MAX,
    };
    let minimum = libc::c_int::from(if ttl == Ttl::Secured { TTL_MAX } else { 0 });
    match address {
        IpAddr::V4(_) => {
            socket.set_ttl_v4(hops.into())?;
            set_option(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MINTTL, &minimum)
        }
        IpAddr::V6(_) => {
            socket.set_unicast_hops_v6(hops.into())?;
            set_option(
                socket.as_raw_fd(),
                libc::IPPROTO_IPV6,
                libc::IPV6_MINHOPCOUNT,
                &minimum,
            )
        }
    }
}

/// `struct tcp_md5sig` of `linux/tcp.h`.
#[repr(C, align(8))]
struct Md5Signature {
    /// `struct sockaddr_in` or `struct sockaddr_in6`, whose port the kernel ignores, and padding.
    address: [u8; ADDRESS_BYTES],
    flags: u8,
    prefix_length: u8,
    key_length: u16,
    interface: libc::c_int,
    key: [u8; KEY_BYTES_MAX],
}

/// Sets the key for packets of a peer; an empty key removes it.
fn set_key(socket: &impl AsRawFd, peer: IpAddr, key: &[u8]) -> io::Result<()> {
    let mut address = [0; ADDRESS_BYTES];
    let (family, offset, octets) = match peer {
        IpAddr::V4(peer) => (libc::AF_INET, 4, peer.octets().to_vec()),
        IpAddr::V6(peer) => (libc::AF_INET6, 8, peer.octets().to_vec()),
    };
    address[..2].copy_from_slice(&u16::try_from(family).unwrap_or(0).to_ne_bytes());
    address[offset..offset + octets.len()].copy_from_slice(&octets);
    let mut padded = [0; KEY_BYTES_MAX];
    let source = key.get(..key.len().min(KEY_BYTES_MAX)).unwrap_or_default();
    padded[..source.len()].copy_from_slice(source);
    let signature = Md5Signature {
        address,
        flags: 0,
        prefix_length: 0,
        key_length: u16::try_from(source.len()).unwrap_or(0),
        interface: 0,
        key: padded,
    };
    match set_option(
        socket.as_raw_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_MD5SIG,
        &signature,
    ) {
        // The peer had no key.
        Err(error) if key.is_empty() && error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        result => result,
    }
}

/// Sets a socket option whose value is a plain structure of the kernel.
///
/// # Errors
/// The kernel denies the option.
pub(crate) fn set_option<T>(
    socket: libc::c_int,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(mem::size_of::<T>()).unwrap_or(0);
    // SAFETY: `value` is valid for `length` bytes for the time of the call, and the kernel only reads it. The caller
    // holds the socket open.
    let result = unsafe { libc::setsockopt(socket, level, name, std::ptr::from_ref(value).cast(), length) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the filter of a socket that drops packets with a lower TTL or hop limit. Only the family of the address counts.
pub(crate) fn ttl_filter(address: SocketAddr, ttl: u8) -> [SockFilter; 4] {
    // Loads the TTL from the IP header (`SKF_NET_OFF`), and accepts the packet if it is high enough.
    let ttl_offset: u32 = if address.is_ipv4() { 8 } else { 7 };
    let network_header = libc::SKF_NET_OFF.cast_unsigned();
    [
        SockFilter::new(0x30, 0, 0, network_header.wrapping_add(ttl_offset)),
        SockFilter::new(0x35, 0, 1, ttl.into()),
        SockFilter::new(0x06, 0, 0, u32::MAX),
        SockFilter::new(0x06, 0, 0, 0),
    ]
}

/// Returns the addresses of the link of a connection, for next hops. The address of the connection comes first. A peer
/// whose address was discovered shares no other address with this node.
///
/// # Errors
/// The kernel does not report its addresses.
pub(crate) fn local_addresses(local: IpAddr, options: &SocketOptions) -> io::Result<LocalAddresses> {
    if let (IpAddr::V6(address), Some(_)) = (local, &options.link) {
        return Ok(LocalAddresses {
            link_local: Some(address),
            ..LocalAddresses::default()
        });
    }
    let (addresses, links) = Connection::open()
        .and_then(|mut connection| Ok((connection.addresses()?, connection.links()?)))
        .map_err(|error| io::Error::other(error.to_string()))?;
    let link = address_in(&addresses, &links, local, options.vrf.as_deref());
    let link = link.map(|address| address.link);
    let on_link = |address: &&Address| Some(address.link) == link && !address.is_tentative;
    let mut found = LocalAddresses::default();
    match local {
        IpAddr::V4(address) => found.ipv4 = Some(address),
        IpAddr::V6(address) if address.is_unicast_link_local() => found.link_local = Some(address),
        IpAddr::V6(address) => found.ipv6 = Some(address),
    }
    for address in addresses.iter().filter(on_link) {
        match address.network.addr() {
            IpAddr::V4(other) if address.is_global() => {
                found.ipv4.get_or_insert(other);
            }
            IpAddr::V6(other) if other.is_unicast_link_local() => {
                found.link_local.get_or_insert(other);
            }
            IpAddr::V6(other) if address.is_global() => {
                found.ipv6.get_or_insert(other);
            }
            _ => {}
        }
    }
    Ok(found)
}
