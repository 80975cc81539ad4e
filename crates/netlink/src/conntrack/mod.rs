//! The flows that the kernel knows (`linux/netfilter/nfnetlink_conntrack.h`): read, and forgotten.

mod wire;

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::message::Writer;
use crate::socket::{Socket, Subsystem};

/// How often a list is read again that changed while it was read.
const TORN_LISTS_MAX: usize = 3;

/// Why the kernel's flows could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ConntrackError {
    /// No netlink socket could be opened. Retrying does not help.
    #[error("cannot open a netlink socket: {0}")]
    Open(#[source] io::Error),
    /// The flows could not be listed: CAP_NET_ADMIN is missing (EPERM), or the kernel was short of memory
    /// (ENOBUFS, retrying helps).
    #[error("cannot list the kernel's flows: {0}")]
    List(#[source] io::Error),
    /// A flow could not be forgotten, for the same reasons.
    #[error("cannot make the kernel forget a flow to {destination}: {source}")]
    Forget {
        /// Where the flow's client sends to.
        destination: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
}

/// For the fuzz target.
#[cfg(fuzzing)]
pub(crate) fn decode_for_fuzzing(message: &crate::message::Message<'_>) {
    wire::read(message);
}

/// An IP family, as lists of flows are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// That of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

/// One direction of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// Who sends.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
}

/// How far a TCP connection is, as connection tracking sees it (`enum tcp_conntrack` of
/// `linux/netfilter/nf_conntrack_tcp.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpState {
    /// A SYN was seen, and no answer.
    SynSent,
    /// It was answered.
    SynReceived,
    /// Both ends have it.
    Established,
    /// One end has no more to say.
    FinWait,
    /// The other end knows, and may go on to speak.
    CloseWait,
    /// The other end has no more to say either, and waits for a last acknowledgement.
    LastAck,
    /// Both ends are done.
    TimeWait,
    /// One end has reset it.
    Close,
    /// Both ends sent a SYN at the same time.
    SynSentBoth,
}

impl TcpState {
    /// By the kernel's number; `None` for one that says nothing, or is not known.
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
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The protocol's number in the IP header.
    pub protocol: u8,
    /// As its client sends.
    pub original: Direction,
    /// As answers come, before they are translated back: their source is who really answers.
    pub reply: Direction,
    /// Bytes of both directions; 0 where the kernel does not count them (`net.netfilter.nf_conntrack_acct`).
    pub bytes: u64,
    /// How far it is, if it is one of TCP.
    pub tcp_state: Option<TcpState>,
    /// When the kernel forgets it by itself if nothing more is seen of it; 0 if it does not say.
    pub expires_in_seconds: u32,
    /// What may tell it from a later flow with the same addresses. It does not where that took its place in the kernel's memory,
    /// as one does that begins where an ended one is still remembered.
    id: u32,
    /// The conntrack zone, 0 where none is used.
    zone: u16,
}

/// A connection to the kernel's flows in the network namespace that it was opened in.
#[derive(Debug)]
pub struct Conntrack {
    socket: Socket,
}

impl Conntrack {
    /// Opens a connection. Needs no privilege; its use needs CAP_NET_ADMIN.
    pub fn open() -> Result<Self, ConntrackError> {
        Socket::open(Subsystem::Netfilter)
            .map(|socket| Self { socket })
            .map_err(ConntrackError::Open)
    }

    /// The flows of a protocol (its number in the IP header) that `wanted` chooses. The kernel leaves out
    /// those of other protocols itself, so that the cost is that of the flows looked at.
    pub fn flows(
        &mut self,
        family: Family,
        protocol: u8,
        wanted: impl FnMut(&Flow) -> bool,
    ) -> Result<Vec<Flow>, ConntrackError> {
        self.list(family, protocol, None, usize::MAX, wanted)
    }

    /// The same, `most` of them at most: which ones, where there are more, nobody knows.
    pub fn flows_at_most(
        &mut self,
        most: usize,
        family: Family,
        protocol: u8,
        wanted: impl FnMut(&Flow) -> bool,
    ) -> Result<Vec<Flow>, ConntrackError> {
        self.list(family, protocol, None, most, wanted)
    }

    /// The same of flows whose clients send to an address, `most` of them at most. The kernel leaves out those to other IPv4
    /// addresses itself; those to other IPv6 addresses it does not, since it takes equal ones for different ones
    /// (`ctnetlink_filter_match_tuple`, as of Linux 6.18).
    pub fn flows_to(
        &mut self,
        most: usize,
        destination: IpAddr,
        protocol: u8,
        mut wanted: impl FnMut(&Flow) -> bool,
    ) -> Result<Vec<Flow>, ConntrackError> {
        let compared = Some(destination).filter(IpAddr::is_ipv4);
        self.list(Family::of(destination), protocol, compared, most, |flow| {
            flow.original.destination.ip() == destination && wanted(flow)
        })
    }

    fn list(
        &mut self,
        family: Family,
        protocol: u8,
        destination: Option<IpAddr>,
        most: usize,
        mut wanted: impl FnMut(&Flow) -> bool,
    ) -> Result<Vec<Flow>, ConntrackError> {
        let mut flows = Vec::new();
        if most == 0 {
            return Ok(flows);
        }
        for _ in 0..TORN_LISTS_MAX {
            flows.clear();
            let sequence = self.socket.next_sequence();
            let mut request = Writer::default();
            wire::write_list(&mut request, sequence, family, protocol, destination);
            let list = self.socket.exchange(request.finish(), sequence, |message| {
                if flows.len() < most {
                    flows.extend(wire::read(message).filter(|flow| wanted(flow)));
                }
            });
            if !list.map_err(ConntrackError::List)?.torn {
                break;
            }
        }
        Ok(flows)
    }

    /// How a flow is by now; `None` if the kernel has forgotten it, or knows another one with its addresses that can be told
    /// from it.
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

    /// Makes the kernel forget a flow; tells whether it was still there. The flow's next packet is treated
    /// like the first of a new one.
    pub fn forget(&mut self, flow: &Flow) -> Result<bool, ConntrackError> {
        let sequence = self.socket.next_sequence();
        let mut request = Writer::default();
        wire::write_forget(&mut request, sequence, flow);
        match self.socket.exchange(request.finish(), sequence, |_| {}) {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(source) => Err(ConntrackError::Forget {
                destination: flow.original.destination,
                source,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
