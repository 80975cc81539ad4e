//! Path of BFD echo packets (RFC 5881, section 4): to an address of this host, through the forwarding of the peer.
//!
//! Only peers with an address on the same link have one. Routers do not forward packets of link-local IPv6 addresses
//! (RFC 4291, section 2.5.6). The kernel of this host returns the packets of the peer, if it forwards packets of the link.
//! In a VRF, packets leave and return by the link, and the kernel reads the setting of the link, not of the VRF.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use bgp::bfd::EchoPacket;
use netlink::route::{Connection, LinkIndex};
use netlink::self_addressed::SelfAddressedSocket;
use socket2::{Domain, Protocol, Socket, Type};

use super::local_links::address_in;

/// Destination port of echo packets (RFC 5881, section 4).
const ECHO_PORT: u16 = 3785;

/// Path through one peer.
pub(super) struct EchoPath {
    socket: SelfAddressedSocket,
    peer: IpAddr,
    source_port: u16,
    is_forwarding: bool,
}

impl EchoPath {
    /// Opens a path from the local address that the kernel selects for the peer, or from `source`.
    ///
    /// # Errors
    /// No route leads to the peer, the source is not a local address, or the process may not open raw sockets;
    /// [`io::ErrorKind::Unsupported`] if the local address is link-local by IPv6, or in no network with the peer, as one of
    /// the loopback link.
    pub(super) fn open(
        peer: SocketAddr,
        source: Option<IpAddr>,
        vrf: Option<&str>,
        source_port: u16,
    ) -> io::Result<Self> {
        let address = local_address(peer, source, vrf)?;
        let (link, name) = link_of(address, peer.ip(), vrf)?;
        Ok(Self {
            socket: SelfAddressedSocket::open(link, vrf, address, ECHO_PORT)?,
            peer: peer.ip(),
            source_port,
            is_forwarding: is_forwarding(address, &name),
        })
    }

    /// Returns true if the kernel forwarded packets of the link when the path was opened, and so returns those of the peer.
    pub(super) fn is_forwarding(&self) -> bool {
        self.is_forwarding
    }

    /// Sends a packet.
    ///
    /// # Errors
    /// The kernel does not send it.
    pub(super) fn send(&self, packet: &EchoPacket) -> io::Result<()> {
        self.socket.send(self.peer, self.source_port, &packet.encode())
    }

    /// Receives a returned packet; `None` if it is not a packet of BFD.
    ///
    /// # Errors
    /// No packet waits, or the kernel reports a failure.
    pub(super) fn receive(&self) -> io::Result<Option<EchoPacket>> {
        match self.socket.receive() {
            Ok(payload) => Ok(EchoPacket::decode(&payload)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsRawFd for EchoPath {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Returns the address from which the kernel sends packets to a peer.
fn local_address(peer: SocketAddr, source: Option<IpAddr>, vrf: Option<&str>) -> io::Result<IpAddr> {
    let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(vrf) = vrf {
        socket.bind_device(Some(vrf.as_bytes()))?;
    }
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    // This sends nothing.
    socket.connect(&peer.into())?;
    let local = socket.local_addr()?.as_socket();
    local
        .map(|local| local.ip())
        .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Returns the link with an address of this host in a VRF, and its name. The peer is a neighbour on the link.
fn link_of(address: IpAddr, peer: IpAddr, vrf: Option<&str>) -> io::Result<(LinkIndex, String)> {
    if matches!(address, IpAddr::V6(address) if address.is_unicast_link_local()) {
        let reason = format!("expected a local address that routers forward, found {address}");
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    let failed = |error: netlink::route::RouteError| io::Error::other(error.to_string());
    let mut connection = Connection::open().map_err(failed)?;
    let addresses = connection.addresses().map_err(failed)?;
    let links = connection.links().map_err(failed)?;
    let found = address_in(&addresses, &links, address, vrf).ok_or(io::ErrorKind::AddrNotAvailable)?;
    if !found.network.contains(&peer) {
        let reason = format!(
            "expected a local address in a network with {peer}, found {}",
            found.network
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    let index = found.link;
    let link = links.into_iter().find(|link| link.index == index);
    Ok((index, link.ok_or(io::ErrorKind::NotFound)?.name))
}

/// Returns true if the kernel forwards packets of the family of an address that arrive by a link. By IPv6, `forwarding` of a
/// link has another meaning (`ip-sysctl` of the kernel).
fn is_forwarding(address: IpAddr, link: &str) -> bool {
    let is_set = |setting: String| {
        let value = std::fs::read_to_string(format!("/proc/sys/net/{setting}"));
        value.is_ok_and(|value| value.trim() == "1")
    };
    match address {
        IpAddr::V4(_) => is_set(format!("ipv4/conf/{link}/forwarding")),
        IpAddr::V6(_) => {
            is_set("ipv6/conf/all/forwarding".to_owned())
                || is_set(format!("ipv6/conf/{link}/force_forwarding"))
        }
    }
}

#[cfg(test)]
mod tests;
