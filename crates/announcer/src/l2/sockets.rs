//! Packet sockets on the announcing links. They receive resolution requests, and send replies and announcements.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use api::address_pool::LinkPattern;
use netlink::packet::{Frames, PacketSocket};
use netlink::route::{Action, Address, Connection, LinkIndex, Route};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;

use crate::handoff::next_hop::{self, LinkAddress, NextHop};
use crate::l2::frame::{ResolutionRequest, announcement, solicited_node};
use crate::l2::links::{AddressLinks, LinkSelection, NetworkLink};

/// Capacity of the queue of requests. Requests beyond it are dropped; clients repeat them.
const REQUESTS_QUEUED_MAX: usize = 1_024;
/// Maximum number of bytes read of a frame; requests are far shorter.
const FRAME_BYTES_MAX: usize = 512;
/// Multicast groups per socket: the kernel charges memberships to the socket (`net.core.optmem_max`).
const GROUPS_PER_SOCKET: usize = 128;
/// Period of route listings: there may be thousands of routes, and gateways change rarely.
const GATEWAYS_PERIOD: Duration = Duration::from_secs(10);

/// Request, and the index of the link that it arrived on.
pub(crate) type ReceivedRequest = (u32, ResolutionRequest);

/// Sockets on all announcing links: the default links, and those that AddressPools name.
pub(crate) struct LinkSockets {
    selection: LinkSelection,
    /// Restrict ARP replies of the kernel to addresses of the receiving link.
    restricts_kernel_arp: bool,
    /// Links with this restriction.
    restricted: BTreeSet<(u32, String)>,
    open: BTreeMap<u32, OpenLink>,
    /// Addresses of all links of this node.
    addresses: Vec<Address>,
    /// Links to the network, announcing or not.
    network: BTreeSet<LinkIndex>,
    /// Default gateways of this node.
    gateways: BTreeSet<IpAddr>,
    gateways_due: Instant,
    /// Joined multicast groups, and the index of the socket that holds each membership.
    groups: BTreeMap<(u32, Ipv6Addr), usize>,
    /// Sockets that hold memberships, and the number of their memberships.
    group_sockets: Vec<(UdpSocket, usize)>,
    sender: Sender<ReceivedRequest>,
    pub(crate) requests: Receiver<ReceivedRequest>,
}

/// Link with an open socket.
struct OpenLink {
    link: NetworkLink,
    socket: Arc<AsyncFd<PacketSocket>>,
    /// Aborts the readers on drop.
    _readers: JoinSet<()>,
}

impl LinkSockets {
    pub(crate) fn new(selection: LinkSelection, restricts_kernel_arp: bool) -> Self {
        let (sender, requests) = channel(REQUESTS_QUEUED_MAX);
        Self {
            selection,
            restricts_kernel_arp,
            restricted: BTreeSet::new(),
            open: BTreeMap::new(),
            addresses: Vec::new(),
            network: BTreeSet::new(),
            gateways: BTreeSet::new(),
            gateways_due: Instant::now(),
            groups: BTreeMap::new(),
            group_sockets: Vec::new(),
            sender,
            requests,
        }
    }

    /// Opens sockets on new links and closes those on removed links. Returns true if a link is new.
    /// `pool_links` are the links that AddressPools name.
    pub(crate) fn refresh(&mut self, pool_links: &[LinkPattern]) -> bool {
        let found = match self.selection.list(pool_links) {
            Ok((found, addresses)) => {
                self.addresses = addresses;
                found
            }
            Err(error) => {
                tracing::warn!(%error, "links not listed");
                return false;
            }
        };
        self.network = found.iter().map(|link| link.index).collect();
        self.refresh_gateways();
        if self.restricts_kernel_arp {
            self.restrict_kernel_arp(&found);
        }
        let used: Vec<NetworkLink> = found
            .into_iter()
            .filter(|link| link.uses.is_announcing())
            .collect();
        self.open.retain(|_, open| {
            let is_same = |link: &&NetworkLink| {
                (link.index, &link.name, link.hardware)
                    == (open.link.index, &open.link.name, open.link.hardware)
            };
            let found = used.iter().find(is_same);
            match found {
                Some(link) => open.link.uses = link.uses,
                None => tracing::info!(link = open.link.name, "announcements stopped on link"),
            }
            found.is_some()
        });
        let mut has_new = false;
        for link in used {
            if self.open.contains_key(&link.index.0) {
                continue;
            }
            match self.open_link(&link) {
                Ok(open) => {
                    tracing::info!(link = link.name, "announcements started on link");
                    has_new = true;
                    self.open.insert(link.index.0, open);
                }
                Err(error) => {
                    tracing::warn!(link = link.name, %error, "packet sockets not opened on link; CAP_NET_RAW is required");
                }
            }
        }
        has_new
    }

    /// Reads the default gateways if the period has passed.
    fn refresh_gateways(&mut self) {
        let now = Instant::now();
        if now < self.gateways_due {
            return;
        }
        self.gateways_due = now + GATEWAYS_PERIOD;
        match Connection::open().and_then(|mut connection| connection.routes()) {
            Ok(routes) => self.gateways = routes.iter().filter_map(default_gateway).collect(),
            Err(error) => tracing::warn!(%error, "routes not listed"),
        }
    }

    /// Returns the addresses of this node on network links. Other links may carry addresses of Services, such as
    /// `kube-ipvs0`.
    pub(crate) fn host_addresses(&self) -> BTreeSet<IpAddr> {
        let addresses = self.addresses.iter();
        let link_addresses = addresses.filter(|address| self.network.contains(&address.link));
        link_addresses.map(|address| address.network.addr()).collect()
    }

    /// Returns the default gateways of this node.
    pub(crate) fn gateways(&self) -> &BTreeSet<IpAddr> {
        &self.gateways
    }

    /// Restricts ARP replies of the kernel on all network links. Otherwise it answers for local addresses on links on
    /// which they are not announced.
    fn restrict_kernel_arp(&mut self, found: &[NetworkLink]) {
        let now: BTreeSet<(u32, String)> = found
            .iter()
            .map(|link| (link.index.0, link.name.clone()))
            .collect();
        for (_, name) in now.difference(&self.restricted) {
            restrict_kernel_arp(name);
        }
        self.restricted = now;
    }

    /// Returns the announcing links.
    pub(crate) fn links(&self) -> BTreeSet<LinkIndex> {
        self.open.values().map(|open| open.link.index).collect()
    }

    /// Returns the addresses at which this node receives forwarded packets.
    pub(crate) fn link_addresses(&self) -> Vec<LinkAddress> {
        let hardware = |link: LinkIndex| self.open.get(&link.0).map(|open| open.link.hardware);
        next_hop::link_addresses(&self.addresses, hardware)
    }

    /// Finds the next hop to another node for packets to an address that is announced on `links`.
    pub(crate) fn next_hop(
        &self,
        address: IpAddr,
        links: &AddressLinks,
        link_addresses: &[LinkAddress],
    ) -> Option<NextHop> {
        let is_used = |link: LinkIndex| {
            let open = self.open.get(&link.0);
            open.is_some_and(|open| links.contain(&open.link))
        };
        next_hop::find(address, link_addresses, &self.addresses, is_used)
    }

    /// Returns true if at least one of the links is open.
    pub(crate) fn has_any(&self, links: &AddressLinks) -> bool {
        self.open.values().any(|open| links.contain(&open.link))
    }

    /// Replies on the link of a request. Returns false if the address is not announced there.
    ///
    /// # Errors
    /// Returns an error if the kernel does not send the frame.
    pub(crate) fn reply(
        &self,
        link: u32,
        request: &ResolutionRequest,
        links: &AddressLinks,
    ) -> io::Result<bool> {
        match self.open.get(&link).filter(|open| links.contain(&open.link)) {
            Some(open) => {
                let reply = request.reply(open.link.hardware);
                open.socket.get_ref().send(&reply).map(|()| true)
            }
            None => Ok(false),
        }
    }

    /// Sends gratuitous announcements of an address on its links.
    pub(crate) fn announce(&self, address: IpAddr, links: &AddressLinks) {
        for open in self.open.values().filter(|open| links.contain(&open.link)) {
            for frame in announcement(open.link.hardware, address) {
                if let Err(error) = open.socket.get_ref().send(&frame) {
                    // Announcements are repeated.
                    tracing::debug!(link = open.link.name, %address, %error, "announcement not sent");
                }
            }
        }
    }

    /// Joins the solicited-node groups of the owned addresses on their links and leaves all others.
    pub(crate) fn update_groups(&mut self, owned: impl Iterator<Item = (IpAddr, AddressLinks)>) {
        let mut groups: BTreeSet<(u32, Ipv6Addr)> = BTreeSet::new();
        for (address, links) in owned {
            let IpAddr::V6(address) = address else { continue };
            let open = self.open.values().filter(|open| links.contain(&open.link));
            groups.extend(open.map(|open| (open.link.index.0, solicited_node(address))));
        }
        let left: Vec<_> = self
            .groups
            .keys()
            .filter(|key| !groups.contains(*key))
            .copied()
            .collect();
        for (link, group) in left {
            if let Some(socket) = self.groups.remove(&(link, group)) {
                let (socket, count) = &mut self.group_sockets[socket];
                *count -= 1;
                if let Err(error) = socket.leave_multicast_v6(&group, link) {
                    tracing::debug!(%group, link, %error, "multicast group not left");
                }
            }
        }
        for (link, group) in groups {
            if self.groups.contains_key(&(link, group)) {
                continue;
            }
            match self.join(link, group) {
                Ok(socket) => {
                    self.groups.insert((link, group), socket);
                }
                Err(error) => {
                    tracing::warn!(%group, link, %error, "multicast group not joined; clients may not resolve the address");
                }
            }
        }
    }

    fn join(&mut self, link: u32, group: Ipv6Addr) -> io::Result<usize> {
        let free = self
            .group_sockets
            .iter()
            .position(|(_, count)| *count < GROUPS_PER_SOCKET);
        let number = match free {
            Some(number) => number,
            None => {
                self.group_sockets
                    .push((UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?, 0));
                self.group_sockets.len() - 1
            }
        };
        let (socket, count) = &mut self.group_sockets[number];
        socket.join_multicast_v6(&group, link)?;
        *count += 1;
        Ok(number)
    }

    fn open_link(&self, link: &NetworkLink) -> io::Result<OpenLink> {
        let open = |frames| {
            let socket = PacketSocket::open(link.index, frames)?;
            // SAFETY: the socket owns its descriptor, always returns the same descriptor, and closes it on drop.
            let socket = unsafe { AsyncFd::register(socket) };
            socket.map(Arc::new).map_err(|error| error.into_parts().1)
        };
        let sockets = [open(Frames::ArpRequests)?, open(Frames::Solicitations)?];
        let mut readers = JoinSet::new();
        for socket in &sockets {
            readers.spawn(read(Arc::clone(socket), link.index.0, self.sender.clone()));
        }
        let [socket, _] = sockets;
        Ok(OpenLink {
            link: link.clone(),
            socket,
            _readers: readers,
        })
    }
}

/// Restricts ARP of the kernel on a link to addresses of the link. `arp_ignore` 1 restricts replies, and
/// `arp_announce` 2 restricts the sender addresses of requests (`ip-sysctl` of the kernel). Otherwise the kernel
/// would answer for an address that a frozen process no longer owns. NDP needs no such setting: the kernel answers
/// only for addresses of the link.
fn restrict_kernel_arp(link: &str) {
    for (setting, minimum) in [("arp_ignore", 1), ("arp_announce", 2)] {
        let path = format!("/proc/sys/net/ipv4/conf/{link}/{setting}");
        // Written only if needed: a read-only /proc/sys with the right values is fine.
        let current: io::Result<u8> = fs::read_to_string(&path).and_then(|text| {
            let parsed = text.trim().parse();
            parsed.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "expected a number"))
        });
        let written = current.and_then(|current| {
            if current >= minimum {
                return Ok(());
            }
            fs::write(&path, minimum.to_string())
        });
        if let Err(error) = written {
            tracing::warn!(
                path, minimum, %error,
                "ARP of the kernel not restricted; it may answer for addresses of the edge; write the value to the path"
            );
        }
    }
}

/// Queues requests until the socket fails, for instance because its link was removed.
async fn read(socket: Arc<AsyncFd<PacketSocket>>, link: u32, sender: Sender<ReceivedRequest>) {
    let mut frame = [0; FRAME_BYTES_MAX];
    loop {
        let Ok(mut guard) = socket.readable().await else {
            return;
        };
        match guard.try_io(|socket| socket.get_ref().receive(&mut frame)) {
            Ok(Ok(bytes)) => {
                if let Some(request) = ResolutionRequest::read(&frame[..bytes])
                    && sender.try_send((link, request)).is_err()
                {
                    tracing::debug!("resolution request dropped; the queue is full");
                }
            }
            Ok(Err(error)) if error.raw_os_error() == Some(rustix::io::Errno::NETDOWN.raw_os_error()) => {
                // The socket works again once the link is up.
                tracing::debug!(link, "link down");
            }
            Ok(Err(error)) => {
                tracing::warn!(link, %error, "resolution requests not read from link");
                return;
            }
            Err(_) => {}
        }
    }
}

/// Returns the gateway of a default route.
fn default_gateway(route: &Route) -> Option<IpAddr> {
    match route.action {
        Action::Via { gateway, .. } if route.destination.prefix_len() == 0 => Some(gateway),
        _ => None,
    }
}
