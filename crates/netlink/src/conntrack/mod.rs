//! Connection tracking: reading and deleting flows (`linux/netfilter/nfnetlink_conntrack.h`).
//!
//! - `events`: events of begins and ends

mod events;
mod wire;

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::message::Writer;
use crate::socket::{DUMP_ATTEMPTS_MAX, Socket, Subsystem, complete_dump};

pub use events::{Event, EventRead, Events};

/// Failures of reading or changing flows.
#[derive(Debug, thiserror::Error)]
pub enum ConntrackError {
    /// No netlink socket could be opened. A retry does not help.
    #[error("cannot open a netlink socket: {0}")]
    Open(#[source] io::Error),
    /// The flows could not be listed: CAP_NET_ADMIN is missing (EPERM), or memory was short (ENOBUFS; a retry helps).
    #[error("cannot list conntrack entries: {0}")]
    List(#[source] io::Error),
    /// The kernel changed the size of its table during every attempt to list flows. Retry later.
    #[error(
        "cannot list conntrack entries: the table changed during each of {DUMP_ATTEMPTS_MAX} attempts; retry later"
    )]
    Inconsistent,
    /// A flow could not be deleted, for the same reasons.
    #[error("cannot delete the conntrack entry of a flow to {destination}: {source}")]
    Delete {
        /// Original destination of the flow.
        destination: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Decodes a message, for the fuzz target.
#[cfg(fuzzing)]
pub(crate) fn decode_for_fuzzing(message: &crate::message::Message<'_>) {
    wire::read(message);
    events::read(message);
}

/// IP family of a list request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the family of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Returns the number of the family in messages.
    fn number(self) -> u8 {
        match self {
            Self::V4 => libc::AF_INET as u8,
            Self::V6 => libc::AF_INET6 as u8,
        }
    }
}

/// Addresses of one direction of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
}

/// State of a TCP connection in connection tracking (`enum tcp_conntrack` of `linux/netfilter/nf_conntrack_tcp.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// SYN seen.
    SynSent,
    /// SYN-ACK seen.
    SynReceived,
    /// Handshake complete.
    Established,
    /// FIN of one side seen.
    FinWait,
    /// The FIN is acknowledged; the other side may still send.
    CloseWait,
    /// FIN of the other side seen.
    LastAck,
    /// Both FINs acknowledged.
    TimeWait,
    /// RST seen.
    Close,
    /// SYN of both sides seen.
    SynSentBoth,
}

impl TcpState {
    /// Returns the state for the kernel's number; `None` for unknown numbers and for "no state".
    fn of_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::SynSent,
            2 => Self::SynReceived,
            3 => Self::Established,
            4 => Self::FinWait,
            5 => Self::CloseWait,
            6 => Self::LastAck,
            7 => Self::TimeWait,
            8 => Self::Close,
            9 => Self::SynSentBoth,
            _ => return None,
        })
    }

    /// Returns the name in `/proc/net/nf_conntrack`, such as `ESTABLISHED`.
    pub fn name(self) -> &'static str {
        match self {
            Self::SynSent => "SYN_SENT",
            Self::SynReceived => "SYN_RECV",
            Self::Established => "ESTABLISHED",
            Self::FinWait => "FIN_WAIT",
            Self::CloseWait => "CLOSE_WAIT",
            Self::LastAck => "LAST_ACK",
            Self::TimeWait => "TIME_WAIT",
            Self::Close => "CLOSE",
            Self::SynSentBoth => "SYN_SENT2",
        }
    }
}

/// Packets and bytes of one direction, with the headers of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Packets and bytes of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Direction from the client.
    pub original: Count,
    /// Direction of replies.
    pub reply: Count,
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Protocol number in the IP header.
    pub protocol: u8,
    /// Direction from the client.
    pub original: Direction,
    /// Direction of replies, before reverse translation: its source is the endpoint.
    pub reply: Direction,
    /// Packets and bytes; `None` if the kernel did not count them when the flow began
    /// (`net.netfilter.nf_conntrack_acct`).
    pub counters: Option<Counters>,
    /// State of a TCP connection.
    pub tcp_state: Option<TcpState>,
    /// Seconds until the entry expires without further packets; 0 if unknown.
    pub expires_in_seconds: u32,
    /// Time of the first packet since the epoch; `None` if the kernel did not keep it
    /// (`net.netfilter.nf_conntrack_timestamp`).
    pub began_at_nanoseconds: Option<u64>,
    /// True if a packet was seen in the direction of replies (`IPS_SEEN_REPLY`).
    pub is_replied: bool,
    /// True if the entry stays when the table is full (`IPS_ASSURED`).
    pub is_assured: bool,
    /// Identifier of the entry. A later flow with the same addresses usually has another one. The identifier is the
    /// same if the later flow reuses the entry, for example while the earlier one is in TIME_WAIT.
    pub id: u32,
    /// Conntrack zone; 0 for the default zone.
    pub zone: u16,
}

impl Flow {
    /// Returns the bytes of both directions; 0 if the kernel does not count them.
    pub fn bytes(&self) -> u64 {
        let counters = self.counters.unwrap_or_default();
        counters.original.bytes.saturating_add(counters.reply.bytes)
    }
}

/// Connection to the connection tracking of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Conntrack {
    socket: Socket,
}

impl Conntrack {
    /// Opens a connection. This needs no privilege; requests need CAP_NET_ADMIN.
    ///
    /// # Errors
    ///
    /// [`ConntrackError::Open`] if no socket can be opened.
    pub fn open() -> Result<Self, ConntrackError> {
        Socket::open(Subsystem::Netfilter)
            .map(|socket| Self { socket })
            .map_err(ConntrackError::Open)
    }

    /// Returns the flows of a protocol (number in the IP header) that `filter` accepts. The kernel filters by
    /// protocol, so the cost is that of the flows of this protocol.
    ///
    /// # Errors
    ///
    /// A [`ConntrackError`] if the list cannot be read.
    pub fn flows(
        &mut self,
        family: Family,
        protocol: u8,
        filter: impl FnMut(&Flow) -> bool,
    ) -> Result<Vec<Flow>, ConntrackError> {
        self.list(family, protocol, None, usize::MAX, filter)
    }

    /// Passes each flow of all protocols and families to `visit`. If the kernel changes the size of its table
    /// meanwhile, flows are passed again.
    ///
    /// # Errors
    ///
    /// A [`ConntrackError`] if the list cannot be read.
    pub fn visit(&mut self, mut visit: impl FnMut(&Flow)) -> Result<(), ConntrackError> {
        let listed = complete_dump(|| -> Result<((), bool), ConntrackError> {
            let sequence = self.socket.next_sequence();
            let mut request = Writer::default();
            wire::write_list_of_all(&mut request, sequence);
            let list = self.socket.exchange(request.finish(), sequence, |message| {
                if let Some(flow) = wire::read(message) {
                    visit(&flow);
                }
            });
            Ok(((), list.map_err(ConntrackError::List)?.is_inconsistent))
        })?;
        listed.ok_or(ConntrackError::Inconsistent)
    }

    /// Returns at most `most` flows of a protocol. If there are more, the selection is arbitrary.
    ///
    /// # Errors
    ///
    /// A [`ConntrackError`] if the list cannot be read.
    pub fn flows_at_most(
        &mut self,
        most: usize,
        family: Family,
        protocol: u8,
        filter: impl FnMut(&Flow) -> bool,
    ) -> Result<Vec<Flow>, ConntrackError> {
        self.list(family, protocol, None, most, filter)
    }

    /// Returns at most `most` flows to a destination address. The kernel filters by IPv4 address. It does not filter
    /// by IPv6 address, because its comparison is inverted (`ctnetlink_filter_match_tuple`, as of Linux 6.18).
    ///
    /// # Errors
    ///
    /// A [`ConntrackError`] if the list cannot be read.
    pub fn flows_to(
        &mut self,
        most: usize,
        destination: IpAddr,
        protocol: u8,
        mut filter: impl FnMut(&Flow) -> bool,
    ) -> Result<Vec<Flow>, ConntrackError> {
        let compared = Some(destination).filter(IpAddr::is_ipv4);
        self.list(Family::of(destination), protocol, compared, most, |flow| {
            flow.original.destination.ip() == destination && filter(flow)
        })
    }

    fn list(
        &mut self,
        family: Family,
        protocol: u8,
        destination: Option<IpAddr>,
        most: usize,
        mut filter: impl FnMut(&Flow) -> bool,
    ) -> Result<Vec<Flow>, ConntrackError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let listed = complete_dump(|| -> Result<(Vec<Flow>, bool), ConntrackError> {
            let mut flows = Vec::new();
            let sequence = self.socket.next_sequence();
            let mut request = Writer::default();
            wire::write_list(&mut request, sequence, family, protocol, destination);
            let list = self.socket.exchange(request.finish(), sequence, |message| {
                if flows.len() < most {
                    flows.extend(wire::read(message).filter(|flow| filter(flow)));
                }
            });
            Ok((flows, list.map_err(ConntrackError::List)?.is_inconsistent))
        })?;
        listed.ok_or(ConntrackError::Inconsistent)
    }

    /// Returns the current state of a flow; `None` if its entry no longer exists or belongs to another flow.
    ///
    /// # Errors
    ///
    /// A [`ConntrackError`] if the entry cannot be read.
    pub fn current(&mut self, flow: &Flow) -> Result<Option<Flow>, ConntrackError> {
        let sequence = self.socket.next_sequence();
        let mut request = Writer::default();
        wire::write_get(&mut request, sequence, flow);
        let mut found = None;
        match self
            .socket
            .exchange(request.finish(), sequence, |message| found = wire::read(message))
        {
            Ok(_) => Ok(found.filter(|found| found.id == flow.id)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(source) => Err(ConntrackError::List(source)),
        }
    }

    /// Returns the original destination of the packets that a socket at `here` receives from `client`, as
    /// `SO_ORIGINAL_DST` does for TCP. It differs from `here` if a rule has translated the address. Returns `None` if no
    /// flow of the client has `here` as its destination.
    ///
    /// # Errors
    ///
    /// A [`ConntrackError`] if the entry cannot be read.
    pub fn original_destination(
        &mut self,
        protocol: u8,
        client: SocketAddr,
        here: SocketAddr,
    ) -> Result<Option<SocketAddr>, ConntrackError> {
        let sequence = self.socket.next_sequence();
        let mut request = Writer::default();
        let reply = Direction {
            source: here,
            destination: client,
        };
        wire::write_get_by_reply(&mut request, sequence, protocol, &reply);
        let mut found = None;
        match self
            .socket
            .exchange(request.finish(), sequence, |message| found = wire::read(message))
        {
            // The kernel compares with both directions: the client is the destination of a flow that began here.
            Ok(_) => Ok(found
                .filter(|flow| flow.reply.source.ip() == here.ip() && flow.reply.source.port() == here.port())
                .map(|flow| flow.original.destination)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(source) => Err(ConntrackError::List(source)),
        }
    }

    /// Deletes a flow. Returns true if it existed. The next packet of the flow is handled as the first one of a new
    /// flow.
    ///
    /// # Errors
    ///
    /// A [`ConntrackError`] if the kernel refuses.
    pub fn delete(&mut self, flow: &Flow) -> Result<bool, ConntrackError> {
        let sequence = self.socket.next_sequence();
        let mut request = Writer::default();
        wire::write_delete(&mut request, sequence, flow);
        match self.socket.exchange(request.finish(), sequence, |_| {}) {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(source) => Err(ConntrackError::Delete {
                destination: flow.original.destination,
                source,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
