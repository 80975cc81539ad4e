//! The fields of a conntrack entry that the traffic of Services needs.

use std::net::SocketAddr;
use std::time::Duration;

use api::object::Protocol;

/// Addresses of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Direction {
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
}

/// State of a TCP connection (`enum tcp_conntrack` of `linux/netfilter/nf_conntrack_tcp.h`).
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
}

/// State of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// TCP connection.
    Tcp(TcpState),
    /// UDP or SCTP, without a reply.
    Unreplied,
    /// UDP or SCTP, with replies.
    Replied,
}

/// Part of the life of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The client waits for the first reply.
    Waiting,
    /// Both sides have sent packets.
    Open,
    /// The connection is over; the entry remains for late packets.
    Closed,
}

impl Entry {
    /// Returns the address and port to which the client connected.
    pub fn destination(&self) -> SocketAddr {
        self.frontend.unwrap_or(self.original.destination)
    }
}

impl State {
    /// Returns the name of the state. States of TCP are as in `/proc/net/nf_conntrack`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp(TcpState::SynSent) => "SYN_SENT",
            Self::Tcp(TcpState::SynReceived) => "SYN_RECV",
            Self::Tcp(TcpState::Established) => "ESTABLISHED",
            Self::Tcp(TcpState::FinWait) => "FIN_WAIT",
            Self::Tcp(TcpState::CloseWait) => "CLOSE_WAIT",
            Self::Tcp(TcpState::LastAck) => "LAST_ACK",
            Self::Tcp(TcpState::TimeWait) => "TIME_WAIT",
            Self::Tcp(TcpState::Close) => "CLOSE",
            Self::Unreplied => "UNREPLIED",
            Self::Replied => "REPLIED",
        }
    }

    /// Returns the part of the connection's life.
    pub fn phase(self) -> Phase {
        match self {
            Self::Tcp(TcpState::SynSent) | Self::Unreplied => Phase::Waiting,
            Self::Tcp(TcpState::TimeWait | TcpState::Close) => Phase::Closed,
            Self::Tcp(_) | Self::Replied => Phase::Open,
        }
    }
}

/// An entry of connection tracking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Identifier by the kernel. A later connection with the same addresses usually has another one.
    pub id: u32,
    /// Conntrack zone.
    pub zone: u16,
    /// Protocol.
    pub protocol: Protocol,
    /// Direction from the client, before translation.
    pub original: Direction,
    /// Address and port to which the client connected, if an eBPF program replaced it by an endpoint before the first
    /// packet.
    pub frontend: Option<SocketAddr>,
    /// Direction of replies: its source is the endpoint, its destination the source that the endpoint sees.
    pub reply: Direction,
    /// State.
    pub state: State,
    /// True if a reply was seen.
    pub is_replied: bool,
    /// Bytes from the client and bytes of replies; `None` if the kernel does not count them.
    pub bytes: Option<[u64; 2]>,
    /// Packets of replies; `None` if the kernel does not count them.
    pub reply_packets: Option<u64>,
    /// Time until the entry expires without packets.
    pub expires_in: Duration,
    /// Age by the timestamp of the kernel, if it keeps one (`net.netfilter.nf_conntrack_timestamp`).
    pub age: Option<Duration>,
}
