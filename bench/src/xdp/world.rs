//! The node, and the network of the client and the other nodes behind its only link.

use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;

use ipnet::IpNet;
use netlink::bpf::{XdpAction, XdpAttachment, XdpProgram};
use netlink::route::{Connection, LinkChange, LinkIndex, LinkName, NetworkNamespace};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::frames::always;
use crate::Failure;

/// Number of other nodes.
pub(super) const OTHER_NODES: u8 = 4;
/// Address of the node.
pub(super) const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
/// Name of the link of the node. The name of a thread of the kernel contains it, so it differs from usual names.
pub(super) const NODE_LINK: &str = "pxnode";
/// Name of its other end.
const NETWORK_LINK: &str = "pxnet";
/// CPU of the client, and CPU of the node and of the other end of its link.
const CLIENT_CPU: usize = 0;
const NODE_CPU: usize = 1;

/// Returns the address of another node, from 1.
pub(super) fn other_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, 1 + number)
}

/// The two namespaces.
pub(super) struct World {
    pub(super) node: NetworkNamespace,
    pub(super) network: NetworkNamespace,
    pub(super) node_link: LinkIndex,
    pub(super) network_link: LinkIndex,
    /// Ethernet addresses of the node and of the other end.
    pub(super) ethernet: [[u8; 6]; 2],
}

/// End of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Node,
    Network,
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    /// Packets and bytes that the network received from the node.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Packets that the node received.
    pub(super) received: u64,
    /// CPU time of the node and of the other end of its link in nanoseconds.
    pub(super) cpu_nanoseconds: u64,
}

impl World {
    pub(super) fn create() -> Result<Self, Failure> {
        let (node, network) = (NetworkNamespace::create()?, NetworkNamespace::create()?);
        let (near, far): (LinkName, LinkName) = (NODE_LINK.parse()?, NETWORK_LINK.parse()?);
        let mut at_node = Connection::open_in(&node)?;
        let mut at_network = Connection::open_in(&network)?;
        at_node.add_veth(&near, &far, Some(network.as_fd()))?;
        let node_link = at_node.link_index(&near)?;
        let network_link = at_network.link_index(&far)?;
        at_node.add_address(node_link, IpNet::new(NODE_ADDRESS.into(), 24)?)?;
        at_node.change_link(node_link, &LinkChange::up())?;
        at_network.change_link(network_link, &LinkChange::up())?;
        for number in 1..=OTHER_NODES {
            // Frames to another host end in the network, as in a switch.
            let ethernet = [2, 0, 0, 0, 0, number];
            at_node.replace_neighbour(node_link, other_address(number).into(), ethernet)?;
        }
        let ethernet_of = |connection: &mut Connection, name: &LinkName| -> Result<[u8; 6], Failure> {
            let link = connection.link(name)?;
            let ethernet = link.and_then(|link| link.ethernet);
            ethernet.ok_or_else(|| format!("link {name} has no Ethernet address").into())
        };
        let ethernet = [
            ethernet_of(&mut at_node, &near)?,
            ethernet_of(&mut at_network, &far)?,
        ];
        Ok(Self {
            node,
            network,
            node_link,
            network_link,
            ethernet,
        })
    }

    /// Attaches a program to an end of the link, so that it accepts frames that programs send. The network drops its
    /// frames.
    pub(super) fn accept_frames(&self, end: End) -> Result<XdpAttachment, Failure> {
        let (namespace, link, action) = match end {
            End::Node => (&self.node, self.node_link, XdpAction::Pass),
            End::Network => (&self.network, self.network_link, XdpAction::Drop),
        };
        let program = XdpProgram::load("accept", &always(action)?)?;
        Ok(namespace.enter(|| program.attach(link))??)
    }

    /// Makes a thread of the kernel receive the packets of the node, on the CPU of the node. The node accepts frames
    /// already.
    pub(super) fn receive_on_thread(&self) -> Result<(), Failure> {
        let script = format!("mount -t sysfs none /sys && echo 1 >/sys/class/net/{NODE_LINK}/threaded");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]);
        self.node.start_inside(&mut command)?;
        let status = command.status();
        let status = status.map_err(|error| format!("unshare: {error}; install util-linux"))?;
        let thread = thread_of(NODE_LINK)?.filter(|_| status.success());
        let thread = thread.ok_or_else(|| format!("no thread for received packets: {status}"))?;
        pin(Some(thread), NODE_CPU)
    }

    /// Reads the counters.
    pub(super) fn counters(&self) -> Result<Counters, Failure> {
        let thread = thread_of(NODE_LINK)?.ok_or("the node has no thread for received packets")?;
        let path = format!("/proc/{}/schedstat", thread.as_raw_nonzero());
        let times = fs::read_to_string(path)?;
        let cpu_nanoseconds = times
            .split_ascii_whitespace()
            .next()
            .ok_or("no CPU time")?
            .parse()?;
        let (packets, bytes) = received(&self.network, NETWORK_LINK)?;
        let (received, _) = received(&self.node, NODE_LINK)?;
        Ok(Counters {
            packets,
            bytes,
            received,
            cpu_nanoseconds,
        })
    }
}

/// Pins the calling thread to the CPU of the client.
pub(super) fn run_as_client() -> Result<(), Failure> {
    pin(None, CLIENT_CPU)
}

fn pin(thread: Option<Pid>, cpu: usize) -> Result<(), Failure> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    Ok(sched_setaffinity(thread, &cpus)?)
}

/// Returns received packets and bytes of a link.
fn received(namespace: &NetworkNamespace, link: &str) -> Result<(u64, u64), Failure> {
    let statistics = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/dev"))??;
    let mut lines = statistics.lines().filter_map(|line| line.split_once(':'));
    let (_, numbers) = lines
        .find(|(name, _)| name.trim() == link)
        .ok_or_else(|| format!("link {link} has no statistics"))?;
    let mut numbers = numbers.split_ascii_whitespace();
    let mut next = || -> Result<u64, Failure> { Ok(numbers.next().ok_or("a number is missing")?.parse()?) };
    let (bytes, packets) = (next()?, next()?);
    Ok((packets, bytes))
}

/// Returns the thread of the kernel for the received packets of a link.
fn thread_of(link: &str) -> Result<Option<Pid>, Failure> {
    let prefix = format!("napi/{link}-");
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        // Processes end meanwhile.
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name.starts_with(&prefix) {
            let number: i32 = entry.file_name().to_string_lossy().parse()?;
            return Ok(Pid::from_raw(number));
        }
    }
    Ok(None)
}
