//! A client that sends ARP requests (RFC 826) and reads all replies and announcements.

use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::ops::Range;

use netlink::packet::{Frames, PacketSocket};
use netlink::route::{Connection, Link, LinkIndex, RouteError};

use crate::cluster::{ClusterError, MEMBER_LINK, Member};

/// Ethernet address, the hardware address of ARP.
pub type EthernetAddress = [u8; 6];

/// The sender's Ethernet and IPv4 address in an Ethernet frame with an ARP packet.
const SENDER_HARDWARE: Range<usize> = 22..28;
const SENDER_ADDRESS: Range<usize> = 28..32;
/// Buffer size in bytes, larger than any frame with an ARP packet.
const FRAME_BYTES: usize = 128;

/// Failure to send or receive ARP.
#[derive(Debug, thiserror::Error)]
pub enum ArpClientError {
    /// The member cannot be entered.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The member's links cannot be read.
    #[error("cannot read links: {0}")]
    Links(#[from] RouteError),
    /// The link of the member does not exist, or is not an Ethernet link.
    #[error("expected an Ethernet link {link} of {member}, found none")]
    NoAddress {
        /// Name of the link.
        link: String,
        /// Name of the member.
        member: String,
    },
    /// Frames cannot be sent or received. `EPERM`: not root in the enclosure.
    #[error("cannot exchange frames: {0}")]
    Frames(#[from] io::Error),
}

/// ARP client on a link of a member.
#[derive(Debug)]
pub struct ArpClient {
    socket: PacketSocket,
    hardware: EthernetAddress,
    address: Ipv4Addr,
}

impl ArpClient {
    /// Uses the member's link to the others.
    ///
    /// # Errors
    ///
    /// Returns [`ArpClientError`] if the link cannot be used.
    pub fn new(member: &Member) -> Result<Self, ArpClientError> {
        Self::on_link(member, MEMBER_LINK)
    }

    /// Uses one of the member's links.
    ///
    /// # Errors
    ///
    /// Returns [`ArpClientError`] if the link cannot be used.
    pub fn on_link(member: &Member, link: &str) -> Result<Self, ArpClientError> {
        let (link, hardware) = link_of(member, link)?;
        Ok(Self {
            socket: member.enter(|| PacketSocket::open(link, Frames::Arp))??,
            hardware,
            address: member.plan.address.ipv4,
        })
    }

    /// Sends one request.
    ///
    /// # Errors
    ///
    /// Returns the error of the socket.
    pub fn send_request(&self, target: Ipv4Addr) -> io::Result<()> {
        let mut frame = vec![0xff; 6];
        frame.extend(self.hardware);
        frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(self.hardware);
        frame.extend(self.address.octets());
        frame.extend([0; 6]);
        frame.extend(target.octets());
        self.socket.send(&frame)
    }

    /// Returns the senders that claimed the address since the last call, in order, from replies and announcements.
    ///
    /// # Errors
    ///
    /// Returns the error of the socket.
    pub fn claimants_of(&self, target: Ipv4Addr) -> io::Result<Vec<EthernetAddress>> {
        let claims = self.claims()?.into_iter();
        let target_claims = claims.filter(|(address, _)| *address == target);
        Ok(target_claims.map(|(_, hardware)| hardware).collect())
    }

    /// Returns all claims of addresses since the last call.
    ///
    /// # Errors
    ///
    /// Returns the error of the socket.
    pub fn claims(&self) -> io::Result<Vec<(Ipv4Addr, EthernetAddress)>> {
        let mut frame = [0; FRAME_BYTES];
        let mut claims = Vec::new();
        loop {
            match self.socket.receive(&mut frame) {
                Ok(_) => {
                    let (mut address, mut hardware) = ([0; 4], EthernetAddress::default());
                    address.copy_from_slice(&frame[SENDER_ADDRESS]);
                    hardware.copy_from_slice(&frame[SENDER_HARDWARE]);
                    claims.push((address.into(), hardware));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(claims),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the Ethernet address of a member's link to the others.
///
/// # Errors
///
/// Returns [`ArpClientError`] if the link cannot be used.
pub fn ethernet_address_of(member: &Member) -> Result<EthernetAddress, ArpClientError> {
    Ok(link_of(member, MEMBER_LINK)?.1)
}

fn link_of(member: &Member, name: &str) -> Result<(LinkIndex, EthernetAddress), ArpClientError> {
    let links = Connection::open_in(&member.namespace)?.links()?;
    let link = links.into_iter().find(|link| link.name == name);
    let found = link.and_then(|Link { index, ethernet, .. }| Some((index, ethernet?)));
    found.ok_or_else(|| ArpClientError::NoAddress {
        link: name.to_owned(),
        member: member.plan.name.clone(),
    })
}
