//! ARP requests for addresses of Services.

use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use announcer::l2::frame::{HardwareAddress, arp_request, read_arp_reply};
use explain::observation::Outcome;
use netlink::packet::{Frames, PacketSocket};
use netlink::route::LinkIndex;

use super::ProbeAnswer;

/// Requests for one address: a host may lose one.
const REQUESTS: u32 = 2;
/// Time between two reads of the socket.
const PERIOD: Duration = Duration::from_millis(5);
/// Buffer for a frame in bytes.
const FRAME_BYTES: usize = 128;
/// Maximum number of frames that are read at once: a network can have a storm.
const FRAMES_MAX: usize = 1_000;
/// Maximum number of hosts that answer for one address.
const ANSWERS_MAX: usize = 16;

/// Sends requests on a link and collects all answers; `None` without the privilege to open a packet socket.
pub(super) fn resolve(
    link: LinkIndex,
    own: HardwareAddress,
    requester: Ipv4Addr,
    target: Ipv4Addr,
    timeout: Duration,
) -> Option<ProbeAnswer> {
    let start = Instant::now();
    let socket = PacketSocket::open(link, Frames::Arp).ok()?;
    let request = arp_request(own, requester, target);
    let mut answers: BTreeSet<HardwareAddress> = BTreeSet::new();
    let mut first = None;
    for _ in 0..REQUESTS {
        socket.send(&request).ok()?;
        let sent = Instant::now();
        while sent.elapsed() < timeout / REQUESTS {
            let before = answers.len();
            receive(&socket, target, &mut answers).ok()?;
            if answers.len() > before {
                first.get_or_insert(start.elapsed());
            }
            std::thread::sleep(PERIOD);
        }
    }
    let outcome = if answers.is_empty() {
        Outcome::Timeout
    } else {
        Outcome::Answered
    };
    let answers = answers.into_iter().map(|address| {
        let parts = address.map(|byte| format!("{byte:02x}"));
        parts.join(":")
    });
    Some(ProbeAnswer {
        answers: Some(answers.collect()),
        ..ProbeAnswer::of(outcome, first.unwrap_or_else(|| start.elapsed()))
    })
}

/// Reads the frames that have arrived.
fn receive(
    socket: &PacketSocket,
    target: Ipv4Addr,
    answers: &mut BTreeSet<HardwareAddress>,
) -> io::Result<()> {
    let mut frame = [0; FRAME_BYTES];
    for _ in 0..FRAMES_MAX {
        match socket.receive(&mut frame) {
            Ok(length) => {
                let reply = read_arp_reply(frame.get(..length).unwrap_or_default());
                let target_answers =
                    reply.filter(|(address, _)| *address == target && answers.len() < ANSWERS_MAX);
                answers.extend(target_answers.map(|(_, hardware)| hardware));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
