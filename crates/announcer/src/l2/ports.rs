//! The sockets on the links: questions in, answers and announcements out.

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

use crate::handoff::next_hop::{self, Entrance, Way};
use crate::l2::frame::{Question, announcement, solicited_node};
use crate::l2::links::{AddressLinks, LinkSelection, Port};

/// Questions that wait for the loop. Who is not answered asks again.
const QUESTIONS_WAITING_MAX: usize = 1_024;
/// Longest frame that is looked at: questions are far shorter.
const FRAME_BYTES_MAX: usize = 512;
/// Groups that one socket joins: the kernel counts them as a socket's memory (`net.core.optmem_max`).
const GROUPS_OF_A_SOCKET: usize = 128;
/// How often routes are listed: there may be thousands, and gateways change rarely.
const GATEWAYS_PERIOD: Duration = Duration::from_secs(10);

/// A question, and the link that it came from.
pub(crate) type Asked = (u32, Question);

/// All links that are used: those that were selected, and those that pools name for their addresses.
pub(crate) struct Ports {
    selection: LinkSelection,
    /// Whether the kernel is to answer for no address that the link itself does not have.
    silences_kernel: bool,
    /// Links on which it was told so.
    silenced: BTreeSet<(u32, String)>,
    open: BTreeMap<u32, OpenPort>,
    /// The addresses of this machine's links.
    addresses: Vec<Address>,
    /// The links that lead to the network, whether addresses are announced on them or not.
    network: BTreeSet<LinkIndex>,
    /// The default gateways of this machine.
    gateways: BTreeSet<IpAddr>,
    gateways_due: Instant,
    groups: BTreeMap<(u32, Ipv6Addr), usize>,
    /// Sockets that hold the memberships in groups, and how many each has.
    members: Vec<(UdpSocket, usize)>,
    sender: Sender<Asked>,
    pub(crate) questions: Receiver<Asked>,
}

struct OpenPort {
    port: Port,
    socket: Arc<AsyncFd<PacketSocket>>,
    /// Reads from it; ends with it.
    _readers: JoinSet<()>,
}

impl Ports {
    pub(crate) fn new(selection: LinkSelection, silences_kernel: bool) -> Self {
        let (sender, questions) = channel(QUESTIONS_WAITING_MAX);
        Self {
            selection,
            silences_kernel,
            silenced: BTreeSet::new(),
            open: BTreeMap::new(),
            addresses: Vec::new(),
            network: BTreeSet::new(),
            gateways: BTreeSet::new(),
            gateways_due: Instant::now(),
            groups: BTreeMap::new(),
            members: Vec::new(),
            sender,
            questions,
        }
    }

    /// Opens sockets on links that came and closes those on links that went; whether any came. `named` are the links that
    /// pools name.
    pub(crate) fn refresh(&mut self, named: &[LinkPattern]) -> bool {
        let found = match self.selection.find(named) {
            Ok((found, addresses)) => {
                self.addresses = addresses;
                found
            }
            Err(error) => {
                tracing::warn!(%error, "the links cannot be listed");
                return false;
            }
        };
        self.network = found.iter().map(|port| port.link).collect();
        self.look_for_gateways();
        if self.silences_kernel {
            self.silence(&found);
        }
        let used: Vec<Port> = found.into_iter().filter(|port| port.uses.are_any()).collect();
        self.open.retain(|_, open| {
            let is_same = |port: &&Port| {
                (port.link, &port.name, port.hardware)
                    == (open.port.link, &open.port.name, open.port.hardware)
            };
            let found = used.iter().find(is_same);
            match found {
                Some(port) => open.port.uses = port.uses,
                None => tracing::info!(link = open.port.name, "the link is not used any more"),
            }
            found.is_some()
        });
        let mut has_new = false;
        for port in used {
            if self.open.contains_key(&port.link.0) {
                continue;
            }
            match self.open_port(&port) {
                Ok(open) => {
                    tracing::info!(link = port.name, "announcing on the link");
                    has_new = true;
                    self.open.insert(port.link.0, open);
                }
                Err(error) => {
                    tracing::warn!(link = port.name, %error, "the link cannot be used; CAP_NET_RAW is needed");
                }
            }
        }
        has_new
    }

    /// Reads the default gateways, if it is time.
    fn look_for_gateways(&mut self) {
        let now = Instant::now();
        if now < self.gateways_due {
            return;
        }
        self.gateways_due = now + GATEWAYS_PERIOD;
        match Connection::open().and_then(|mut connection| connection.routes()) {
            Ok(routes) => self.gateways = routes.iter().filter_map(default_gateway).collect(),
            Err(error) => tracing::warn!(%error, "the routes cannot be listed"),
        }
    }

    /// The addresses of this machine on links that lead to the network. Links of other kinds may carry addresses of
    /// Services, as `kube-ipvs0` does.
    pub(crate) fn own_addresses(&self) -> BTreeSet<IpAddr> {
        let addresses = self.addresses.iter();
        let of_network = addresses.filter(|address| self.network.contains(&address.link));
        of_network.map(|address| address.network.addr()).collect()
    }

    /// The default gateways of this machine.
    pub(crate) fn gateways(&self) -> &BTreeSet<IpAddr> {
        &self.gateways
    }

    /// Keeps the kernel silent on all links of the network: what is local to this machine it would answer for on those too
    /// that an address is not announced on.
    fn silence(&mut self, found: &[Port]) {
        let now: BTreeSet<(u32, String)> = found
            .iter()
            .map(|port| (port.link.0, port.name.clone()))
            .collect();
        for (_, name) in now.difference(&self.silenced) {
            silence_kernel(name);
        }
        self.silenced = now;
    }

    /// The links of the network.
    pub(crate) fn links(&self) -> BTreeSet<LinkIndex> {
        self.open.values().map(|open| open.port.link).collect()
    }

    /// Where this node takes packets that others send on to it.
    pub(crate) fn entrances(&self) -> Vec<Entrance> {
        let hardware = |link: LinkIndex| self.open.get(&link.0).map(|open| open.port.hardware);
        next_hop::own(&self.addresses, hardware)
    }

    /// How packets for an address, which is announced on `links`, get to another node by one of these.
    pub(crate) fn way(&self, address: IpAddr, links: &AddressLinks, entrances: &[Entrance]) -> Option<Way> {
        let is_used = |link: LinkIndex| self.open.get(&link.0).is_some_and(|open| links.have(&open.port));
        next_hop::towards(address, entrances, &self.addresses, is_used)
    }

    /// Whether there is none of these links.
    pub(crate) fn lack(&self, links: &AddressLinks) -> bool {
        !self.open.values().any(|open| links.have(&open.port))
    }

    /// Answers a question on the link that it came from, if its address is announced there: whether it is.
    pub(crate) fn answer(&self, link: u32, question: &Question, links: &AddressLinks) -> io::Result<bool> {
        match self.open.get(&link).filter(|open| links.have(&open.port)) {
            Some(open) => {
                let answer = question.answer(open.port.hardware);
                open.socket.get_ref().send(&answer).map(|()| true)
            }
            None => Ok(false),
        }
    }

    /// Tells the address's links that it is here.
    pub(crate) fn announce(&self, address: IpAddr, links: &AddressLinks) {
        for open in self.open.values().filter(|open| links.have(&open.port)) {
            for frame in announcement(open.port.hardware, address) {
                if let Err(error) = open.socket.get_ref().send(&frame) {
                    // It is repeated.
                    tracing::debug!(link = open.port.name, %address, %error, "an announcement was not sent");
                }
            }
        }
    }

    /// Joins the groups in which the held addresses are asked for, each on its links, and leaves all others.
    pub(crate) fn join_groups(&mut self, held: impl Iterator<Item = (IpAddr, AddressLinks)>) {
        let mut wanted: BTreeSet<(u32, Ipv6Addr)> = BTreeSet::new();
        for (address, links) in held {
            let IpAddr::V6(address) = address else { continue };
            let open = self.open.values().filter(|open| links.have(&open.port));
            wanted.extend(open.map(|open| (open.port.link.0, solicited_node(address))));
        }
        let left: Vec<_> = self
            .groups
            .keys()
            .filter(|key| !wanted.contains(*key))
            .copied()
            .collect();
        for (link, group) in left {
            if let Some(socket) = self.groups.remove(&(link, group)) {
                let (socket, count) = &mut self.members[socket];
                *count -= 1;
                if let Err(error) = socket.leave_multicast_v6(&group, link) {
                    tracing::debug!(%group, link, %error, "the membership was gone before");
                }
            }
        }
        for (link, group) in wanted {
            if self.groups.contains_key(&(link, group)) {
                continue;
            }
            match self.join(link, group) {
                Ok(socket) => {
                    self.groups.insert((link, group), socket);
                }
                Err(error) => {
                    tracing::warn!(%group, link, %error, "the group cannot be joined, clients may not find the address");
                }
            }
        }
    }

    fn join(&mut self, link: u32, group: Ipv6Addr) -> io::Result<usize> {
        let free = self
            .members
            .iter()
            .position(|(_, count)| *count < GROUPS_OF_A_SOCKET);
        let number = match free {
            Some(number) => number,
            None => {
                self.members
                    .push((UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?, 0));
                self.members.len() - 1
            }
        };
        let (socket, count) = &mut self.members[number];
        socket.join_multicast_v6(&group, link)?;
        *count += 1;
        Ok(number)
    }

    fn open_port(&self, port: &Port) -> io::Result<OpenPort> {
        let open = |frames| {
            let socket = PacketSocket::open(port.link, frames)?;
            // SAFETY: the socket owns its descriptor, always gives out that one, and closes it when it is dropped.
            let socket = unsafe { AsyncFd::register(socket) };
            socket.map(Arc::new).map_err(|error| error.into_parts().1)
        };
        let sockets = [open(Frames::ArpRequests)?, open(Frames::Solicitations)?];
        let mut readers = JoinSet::new();
        for socket in &sockets {
            readers.spawn(read(Arc::clone(socket), port.link.0, self.sender.clone()));
        }
        let [socket, _] = sockets;
        Ok(OpenPort {
            port: port.clone(),
            socket,
            _readers: readers,
        })
    }
}

/// Keeps the kernel from answering ARP on a link for addresses that the link does not have (`arp_ignore` 1 of the kernel's
/// `ip-sysctl`), and from telling them as its own when it asks (`arp_announce` 2): only the owner of an address answers
/// for it, and a process that stands still does not. Neighbour solicitations need nothing like it: the kernel answers for
/// addresses of links alone.
fn silence_kernel(link: &str) {
    for (setting, wanted) in [("arp_ignore", 1), ("arp_announce", 2)] {
        let path = format!("/proc/sys/net/ipv4/conf/{link}/{setting}");
        // Written only if needed: a read-only /proc/sys with the right values is fine.
        let is: io::Result<u8> = fs::read_to_string(&path).and_then(|text| {
            let parsed = text.trim().parse();
            parsed.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a number was expected"))
        });
        let written = is.and_then(|is| match is >= wanted {
            true => Ok(()),
            false => fs::write(&path, wanted.to_string()),
        });
        if let Err(error) = written {
            tracing::warn!(
                path, wanted, %error,
                "the kernel may answer ARP for addresses of the edge by itself; write the value there"
            );
        }
    }
}

/// Hands questions on until the socket fails, as it does when its link is gone.
async fn read(socket: Arc<AsyncFd<PacketSocket>>, link: u32, sender: Sender<Asked>) {
    let mut frame = [0; FRAME_BYTES_MAX];
    loop {
        let Ok(mut guard) = socket.readable().await else {
            return;
        };
        match guard.try_io(|socket| socket.get_ref().receive(&mut frame)) {
            Ok(Ok(bytes)) => {
                if let Some(question) = Question::read(&frame[..bytes])
                    && sender.try_send((link, question)).is_err()
                {
                    tracing::debug!("more questions than can be answered");
                }
            }
            Ok(Err(error)) if error.raw_os_error() == Some(rustix::io::Errno::NETDOWN.raw_os_error()) => {
                // It may come up again; then the socket goes on.
                tracing::debug!(link, "the link is down");
            }
            Ok(Err(error)) => {
                tracing::warn!(link, %error, "questions from the link cannot be read any more");
                return;
            }
            Err(_) => {}
        }
    }
}

/// The gateway of a default route.
fn default_gateway(route: &Route) -> Option<IpAddr> {
    match route.action {
        Action::Via { gateway, .. } if route.destination.prefix_len() == 0 => Some(gateway),
        _ => None,
    }
}
