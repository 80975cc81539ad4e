//! A client that asks the network who has an address (ARP, RFC 826).

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use netlink::packet::{Frames, PacketSocket};
use netlink::route::Connection;
use testbed::Member;

use crate::Failure;
use crate::setting::PATIENCE;

/// An Ethernet address.
pub type Hardware = [u8; 6];

/// Pause between two questions: whoever asks without rest takes the processor from who is measured.
const QUESTION_PERIOD: Duration = Duration::from_micros(500);
/// The sender's Ethernet and IPv4 address in an Ethernet frame with an ARP packet.
const SENDER_HARDWARE: std::ops::Range<usize> = 22..28;
const SENDER_ADDRESS: std::ops::Range<usize> = 28..32;

/// A member that asks.
pub struct Asker {
    socket: PacketSocket,
    hardware: Hardware,
    address: Ipv4Addr,
}

impl Asker {
    /// Asks from a member's `eth0`.
    pub fn new(member: &Member) -> Result<Self, Failure> {
        let mut connection = Connection::open_in(&member.namespace)?;
        let link = connection.link_index(&"eth0".parse()?)?;
        Ok(Self {
            socket: member.enter(|| PacketSocket::open(link, Frames::Arp))??,
            hardware: hardware_of(member)?,
            address: member.plan.address.ipv4,
        })
    }

    /// Asks until somebody says that he has `target`, and is who is awaited.
    pub fn until(
        &self,
        target: Ipv4Addr,
        is_awaited: impl Fn(&Hardware) -> bool,
    ) -> Result<Hardware, Failure> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            self.ask(target)?;
            std::thread::sleep(QUESTION_PERIOD);
            if let Some(owner) = self.listen(target)?
                && is_awaited(&owner)
            {
                return Ok(owner);
            }
        }
        Err(format!("nobody awaited answers for {target}").into())
    }

    fn ask(&self, target: Ipv4Addr) -> Result<(), Failure> {
        let mut frame = vec![0xff; 6];
        frame.extend(self.hardware);
        frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(self.hardware);
        frame.extend(self.address.octets());
        frame.extend([0; 6]);
        frame.extend(target.octets());
        Ok(self.socket.send(&frame)?)
    }

    /// Takes in what came; who said last that he has the address.
    fn listen(&self, target: Ipv4Addr) -> Result<Option<Hardware>, Failure> {
        let mut frame = [0; 128];
        let mut last = None;
        loop {
            match self.socket.receive(&mut frame) {
                Ok(_) if frame[SENDER_ADDRESS] == target.octets() => {
                    last = Some(frame[SENDER_HARDWARE].try_into()?);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(last),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The Ethernet address of a member's `eth0`.
pub fn hardware_of(member: &Member) -> Result<Hardware, Failure> {
    let mut connection = Connection::open_in(&member.namespace)?;
    let links = connection.links()?;
    let link = links.into_iter().find(|link| link.name == "eth0");
    Ok(link
        .and_then(|link| link.ethernet)
        .ok_or("eth0 has no Ethernet address")?)
}
