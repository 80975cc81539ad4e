//! Routers of links without configured addresses. Router advertisements (RFC 4861) of routers show them to this node, and
//! its own advertisements show this node to the routers. One task serves a link.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket as StdUdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use netlink::route::{Connection, LinkName};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::sockets;

#[cfg(test)]
mod tests;

/// Types of messages (RFC 4861, sections 4.1 and 4.2).
const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
/// Length of a router advertisement without options.
const ADVERTISEMENT_BYTES: usize = 16;
/// Length of a router solicitation without options.
const SOLICITATION_BYTES: usize = 8;
/// Longest message that is read; options are not needed.
const MESSAGE_BYTES_MAX: usize = 64;
/// Hop limit of messages. Routers forward none, so messages from other links have a lower one.
const HOP_LIMIT: u8 = 255;
/// All nodes of a link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of a link.
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Period of advertisements.
const ADVERTISEMENT_PERIOD: Duration = Duration::from_secs(10);
/// Time without an advertisement after which another router of the link replaces the present one.
const REPLACEMENT_DELAY: Duration = Duration::from_secs(35);
/// Time between two attempts to use a link.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// Socket option of ICMPv6 with the types that the kernel drops (`linux/icmpv6.h`).
const ICMPV6_FILTER: libc::c_int = 1;

/// A router: its link-local address, and the index of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Router {
    pub(super) address: Ipv6Addr,
    pub(super) link_index: u32,
}

impl Router {
    /// Returns the address of a port of the router.
    pub(super) fn port(self, port: u16) -> SocketAddr {
        SocketAddrV6::new(self.address, port, 0, self.link_index).into()
    }
}

type Routers = BTreeMap<String, Router>;

/// Routers of the links of peers without address.
pub(super) struct RouterDiscovery {
    sender: watch::Sender<Routers>,
    routers: watch::Receiver<Routers>,
    tasks: BTreeMap<String, JoinHandle<()>>,
}

impl RouterDiscovery {
    /// Creates a discovery without links.
    pub(super) fn new() -> Self {
        let (sender, routers) = watch::channel(Routers::new());
        Self {
            sender,
            routers,
            tasks: BTreeMap::new(),
        }
    }

    /// Replaces the links.
    pub(super) fn set_links(&mut self, links: &BTreeSet<String>) {
        self.tasks.retain(|link, task| {
            let is_desired = links.contains(link);
            if !is_desired {
                task.abort();
            }
            is_desired
        });
        for link in links {
            if !self.tasks.contains_key(link) {
                let task = serve(link.clone(), self.sender.clone());
                self.tasks.insert(link.clone(), tokio::spawn(task));
            }
        }
        self.sender.send_if_modified(|routers| {
            let count = routers.len();
            routers.retain(|link, _| links.contains(link));
            routers.len() != count
        });
    }

    /// Returns the router of a link, if one has advertised itself.
    pub(super) fn router(&self, link: &str) -> Option<Router> {
        self.routers.borrow().get(link).copied()
    }

    /// Waits for a change of the routers. Cancel safe.
    pub(super) async fn changed(&mut self) {
        if self.routers.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for RouterDiscovery {
    fn drop(&mut self) {
        for task in self.tasks.values() {
            task.abort();
        }
    }
}

/// Serves a link, also one that appears later.
async fn serve(link: String, routers: watch::Sender<Routers>) {
    let mut is_reported = false;
    loop {
        match open(&link) {
            Ok((socket, link_index)) => {
                is_reported = false;
                let error = exchange(&socket, &link, link_index, &routers).await;
                tracing::debug!(link, %error, "router advertisements interrupted; retrying");
            }
            Err(error) if !std::mem::replace(&mut is_reported, true) => {
                tracing::warn!(link, %error, "no router advertisements on the link; retrying");
            }
            Err(error) => tracing::debug!(link, %error, "no router advertisements on the link; retrying"),
        }
        sleep(RETRY_PERIOD).await;
    }
}

/// Sends and receives advertisements until a failure, and returns it.
async fn exchange(
    socket: &UdpSocket,
    link: &str,
    link_index: u32,
    routers: &watch::Sender<Routers>,
) -> io::Error {
    let group = |address| SocketAddrV6::new(address, 0, 0, link_index);
    let mut solicitation = [0; SOLICITATION_BYTES];
    solicitation[0] = ROUTER_SOLICITATION;
    if let Err(error) = socket.send_to(&solicitation, group(ALL_ROUTERS)).await {
        return error;
    }
    let mut next = Instant::now();
    let mut last_advertisement = None;
    loop {
        let mut bytes = [0; MESSAGE_BYTES_MAX];
        tokio::select! {
            () = sleep_until(next) => {
                if let Err(error) = socket.send_to(&advertisement(), group(ALL_NODES)).await {
                    return error;
                }
                next = Instant::now() + ADVERTISEMENT_PERIOD;
            }
            received = socket.recv_from(&mut bytes) => {
                let (length, source) = match received {
                    Ok(received) => received,
                    Err(error) => return error,
                };
                let message = bytes.get(..length).unwrap_or_default();
                if let Some(address) = advertiser(message, source) {
                    let found = Router { address, link_index };
                    record(found, link, &mut last_advertisement, routers);
                }
            }
        }
    }
}

/// Records the router of a link. The present router stays while it advertises itself.
fn record(
    found: Router,
    link: &str,
    last_advertisement: &mut Option<(Router, Instant)>,
    routers: &watch::Sender<Routers>,
) {
    if let Some((router, time)) = last_advertisement
        && *router != found
        && time.elapsed() < REPLACEMENT_DELAY
    {
        tracing::debug!(link, router = %found.address, "second router of the link ignored");
        return;
    }
    *last_advertisement = Some((found, Instant::now()));
    routers.send_if_modified(|routers| routers.insert(link.to_owned(), found) != Some(found));
}

/// Returns an advertisement with a lifetime of zero: this node is not a default router. Peers learn its address only.
/// The kernel fills the checksum.
fn advertisement() -> [u8; ADVERTISEMENT_BYTES] {
    let mut message = [0; ADVERTISEMENT_BYTES];
    message[0] = ROUTER_ADVERTISEMENT;
    message
}

/// Returns the sender of an advertisement. The filter of the socket has checked the hop limit.
fn advertiser(message: &[u8], source: SocketAddr) -> Option<Ipv6Addr> {
    let is_advertisement =
        message.len() >= ADVERTISEMENT_BYTES && message.starts_with(&[ROUTER_ADVERTISEMENT, 0]);
    match source {
        SocketAddr::V6(source) if is_advertisement && source.ip().is_unicast_link_local() => {
            Some(*source.ip())
        }
        _ => None,
    }
}

/// Opens a socket for advertisements of one link, and returns it with the index of the link.
fn open(link: &str) -> io::Result<(UdpSocket, u32)> {
    let other = |error: netlink::route::RouteError| io::Error::other(error.to_string());
    let name: LinkName = link.parse().map_err(other)?;
    let index = Connection::open()
        .and_then(|mut connection| connection.link_index(&name))
        .map_err(other)?;
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6))?;
    sockets::set_option(
        socket.as_raw_fd(),
        libc::IPPROTO_ICMPV6,
        ICMPV6_FILTER,
        &filter_of(ROUTER_ADVERTISEMENT),
    )?;
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    socket.attach_filter(&sockets::ttl_filter(any, HOP_LIMIT))?;
    socket.bind_device(Some(link.as_bytes()))?;
    socket.set_multicast_hops_v6(HOP_LIMIT.into())?;
    socket.set_multicast_loop_v6(false)?;
    socket.set_nonblocking(true)?;
    // A raw socket has the same calls as one of UDP.
    let socket = UdpSocket::from_std(StdUdpSocket::from(socket))?;
    Ok((socket, index.0))
}

/// Returns the filter of ICMPv6 that passes one type: a set bit drops its type.
fn filter_of(passed: u8) -> [u32; 8] {
    let mut filter = [u32::MAX; 8];
    filter[usize::from(passed / 32)] &= !(1_u32 << (passed % 32));
    filter
}
