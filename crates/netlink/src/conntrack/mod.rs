//! The flows that the kernel knows (`linux/netfilter/nfnetlink_conntrack.h`): read, and forgotten.

mod wire;

use std::io;
use std::net::SocketAddr;

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

/// One direction of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// Who sends.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
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
    /// What most often tells it from a later flow with the same addresses.
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
        mut wanted: impl FnMut(&Flow) -> bool,
    ) -> Result<Vec<Flow>, ConntrackError> {
        let mut flows = Vec::new();
        for _ in 0..TORN_LISTS_MAX {
            flows.clear();
            let sequence = self.socket.next_sequence();
            let mut request = Writer::default();
            wire::write_list(&mut request, sequence, family, protocol);
            let list = self.socket.exchange(request.finish(), sequence, |message| {
                flows.extend(wire::read(message).filter(|flow| wanted(flow)));
            });
            if !list.map_err(ConntrackError::List)?.torn {
                break;
            }
        }
        Ok(flows)
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
