//! One measurement: a client sends as many packets as it can.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use dataplane::two_tier::{self, TwoTier, XdpState};
use netlink::bpf::XdpProgram;
use netlink::packet::{Frames, PacketSocket};

use super::frames::{Packets, frame, sender, set_source_port};
use super::objects::{NODE, PORT, SERVICE, plan};
use super::world::{End, NODE_LINK, OTHER_NODES, World, run_as_client};
use crate::Failure;

/// Frames of one system call.
const FRAMES_PER_CALL: u32 = 50_000;
/// Frames that a packet socket sends between two readings of the clock.
const FRAMES_PER_CLOCK: usize = 64;
/// `ENOBUFS`.
const NO_BUFFERS: i32 = 105;
/// Time in which the node forwards the packets that its link holds.
const SETTLE: Duration = Duration::from_millis(50);

/// Implementation of two-tier forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Implementation {
    Rules,
    Program,
}

impl Implementation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rules => "nftables",
            Self::Program => "XDP",
        }
    }
}

/// Origin of the frames of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generator {
    /// The kernel, as a network card passes them to its driver.
    Kernel,
    /// A packet socket. The link copies frames that no driver received, before a program gets them.
    PacketSocket,
}

/// Rates of one measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// Packets a second that the node processed.
    pub(super) processed: f64,
    /// Packets and bits a second that the network received from the node.
    pub(super) forwarded: f64,
    pub(super) forwarded_bits: f64,
    /// CPU time of the node and of the other end of its link for a packet.
    pub(super) cpu_nanoseconds: f64,
}

/// Measures one implementation.
pub(super) fn measure(
    packets: Packets,
    implementation: Implementation,
    generator: Generator,
    duration: Duration,
) -> Result<Rates, Failure> {
    let world = World::create()?;
    let (plan, nodes) = plan()?;
    let mut two_tier = world.node.enter(|| TwoTier::open(NODE))??;
    if implementation == Implementation::Program {
        two_tier.forward_at(NODE_LINK.parse()?);
    }
    let excess = world.node.enter(|| two_tier.apply(&plan, &nodes))??;
    if !excess.is_empty() {
        return Err(format!("expected all ports, found {excess:?} not forwarded").into());
    }
    // Without a program at its end of the link, the network receives packets at the least cost for the node.
    let _accepting = match implementation {
        Implementation::Rules => world.accept_frames(End::Node)?,
        Implementation::Program => {
            let forwards = XdpState::Forwards {
                nodes: usize::from(OTHER_NODES),
            };
            match two_tier.xdp_state() {
                Some(xdp_state) if *xdp_state == forwards => {}
                other => return Err(format!("expected {forwards:?}, found {other:?}").into()),
            }
            world.accept_frames(End::Network)?
        }
    };
    world.receive_on_thread()?;
    let client = Client::new(&world, packets, generator)?;
    let send_for = |duration: Duration| world.network.enter(|| client.send_for(duration))?;
    send_for(SETTLE)?;
    let (before, start) = (world.counters()?, Instant::now());
    send_for(duration)?;
    std::thread::sleep(SETTLE);
    let (after, seconds) = (world.counters()?, (start.elapsed() - SETTLE).as_secs_f64());
    world.node.enter(two_tier::remove)??;
    let received = (after.received - before.received) as f64;
    let forwarded = (after.packets - before.packets) as f64;
    if forwarded == 0.0 {
        return Err(format!("{} forwarded no packet of {received}", implementation.name()).into());
    }
    Ok(Rates {
        processed: received / seconds,
        forwarded: forwarded / seconds,
        forwarded_bits: (after.bytes - before.bytes) as f64 * 8.0 / seconds,
        cpu_nanoseconds: (after.cpu_nanoseconds - before.cpu_nanoseconds) as f64 / received,
    })
}

/// The client.
struct Client {
    packets: Packets,
    frame: Vec<u8>,
    origin: Origin,
}

/// Origin of the packets.
enum Origin {
    Kernel(XdpProgram),
    PacketSocket(PacketSocket),
}

impl Client {
    fn new(world: &World, packets: Packets, generator: Generator) -> Result<Self, Failure> {
        let [node, client] = world.ethernet;
        let frame = frame(packets, node, client, SERVICE, PORT);
        let link = world.network_link;
        let origin = match generator {
            Generator::Kernel => Origin::Kernel(XdpProgram::load("client", &sender(packets, &frame, link)?)?),
            Generator::PacketSocket => {
                // It receives no frames, since nothing sends ARP requests.
                let open = || PacketSocket::open(link, Frames::ArpRequests);
                Origin::PacketSocket(world.network.enter(open)??)
            }
        };
        Ok(Self {
            packets,
            frame,
            origin,
        })
    }

    /// Sends in the namespace of the calling thread.
    fn send_for(&self, duration: Duration) -> Result<(), Failure> {
        run_as_client()?;
        let deadline = Instant::now() + duration;
        let mut frame = self.frame.clone();
        while Instant::now() < deadline {
            match &self.origin {
                Origin::Kernel(program) => program.send(&frame, FRAMES_PER_CALL)?,
                Origin::PacketSocket(socket) => {
                    for _ in 0..FRAMES_PER_CLOCK {
                        set_source_port(self.packets, &mut frame, fastrand::u16(..));
                        match socket.send(&frame) {
                            // The node receives more slowly.
                            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                            Err(error) if error.raw_os_error() == Some(NO_BUFFERS) => {}
                            sent => sent?,
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
