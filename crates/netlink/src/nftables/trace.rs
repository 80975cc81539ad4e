//! Traces of packets (`NFNLGRP_NFTRACE`): the rules that a packet meets, in the order of the hooks.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::message::{Message, messages};
use crate::socket::{Socket, Subsystem};

use super::batch::{Batch, Change};
use super::connection::Nftables;
use super::error::CommitError;
use super::expression::{Comparison, Expression, MetaKey, PayloadBase, Register, Verdict};
use super::table::{BaseChain, Chain, ChainKind, Hook, Rule};
use super::wire;

/// `NFNLGRP_NFTRACE`.
const GROUP: u32 = 9;
/// Maximum number of trace events that one call returns. A packet meets a few dozen rules of Portolan, and several
/// hundred rules of other programs.
const EVENTS_MAX: usize = 4_096;
/// Maximum number of datagrams that one call reads. Other programs can trace at the same time.
const DATAGRAMS_MAX: usize = 16_384;
/// Priority of the chains: before the conntrack hook (`NF_IP_PRI_CONNTRACK`), and before those of `raw`.
const PRIORITY: i32 = -350;
/// Register of the rules.
const VALUE: Register = Register::at(0);

/// Packets to trace: those of one flow, in the direction from its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedFlow {
    /// Protocol number in the IP header.
    pub protocol: u8,
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port, of the same family.
    pub destination: SocketAddr,
}

/// Reason why packets cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The socket of the events cannot be opened.
    #[error("cannot open a netlink socket: {0}")]
    Open(#[from] io::Error),
    /// The kernel refuses the table with the rules of the trace. It needs CAP_NET_ADMIN and Linux 5.12.
    #[error("cannot create a table that marks the packets: {0}")]
    Table(#[from] CommitError),
}

/// Part of a ruleset that a packet met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceStep {
    /// A rule matched.
    Rule,
    /// A chain ended, and the packet returned from it.
    Return,
    /// A base chain ended with its policy.
    Policy,
}

/// Event of a traced packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Identifier of the packet. A retransmission has another one.
    pub packet: u32,
    /// Family of the table (`NFPROTO_…`).
    pub family: u8,
    /// Name of the table.
    pub table: String,
    /// Name of the chain.
    pub chain: String,
    /// Handle of the rule; `None` for a policy.
    pub rule: Option<u64>,
    /// Part of the ruleset.
    pub step: TraceStep,
    /// Verdict; `None` if the next rule follows.
    pub verdict: Option<Verdict<String>>,
}

impl TraceEvent {
    /// Decodes a notification; `None` for other messages.
    pub(super) fn decode(message: &Message<'_>) -> Option<Self> {
        if message.kind != wire::kind(wire::TRACE) {
            return None;
        }
        let (mut packet, mut table, mut chain, mut rule) = (None, None, None, None);
        let (mut step, mut verdict, mut policy) = (None, None, None);
        for attribute in message.attributes(wire::GENERIC_BYTES) {
            match attribute.kind {
                wire::TRACE_ID => packet = attribute.u32_be(),
                wire::TRACE_TABLE => table = attribute.text(),
                wire::TRACE_CHAIN => chain = attribute.text(),
                wire::TRACE_RULE_HANDLE => rule = attribute.u64_be(),
                wire::TRACE_TYPE => step = attribute.u32_be(),
                wire::TRACE_VERDICT => verdict = Verdict::decode_parts(attribute),
                wire::TRACE_POLICY => {
                    policy = attribute.u32_be().and_then(|code| Verdict::of_code(code, None))
                }
                _ => {}
            }
        }
        let step = match step? {
            wire::TRACED_POLICY => TraceStep::Policy,
            wire::TRACED_RETURN => TraceStep::Return,
            wire::TRACED_RULE => TraceStep::Rule,
            _ => return None,
        };
        Some(Self {
            packet: packet?,
            family: *message.payload.first()?,
            table: table?.to_owned(),
            chain: chain?.to_owned(),
            rule,
            step,
            verdict: verdict.or(policy).map(Verdict::<&str>::to_owned),
        })
    }
}

/// Tracer of the packets of one flow at a time. The kernel deletes its table with the tracer, also if the process is
/// killed.
#[derive(Debug)]
pub struct PacketTracer {
    nftables: Nftables,
    events: Socket,
    table: String,
}

impl PacketTracer {
    /// Opens a tracer in the network namespace of the calling thread, with a table that no other program uses.
    ///
    /// # Errors
    ///
    /// A [`TraceError`] if the kernel refuses.
    pub fn open(table: &str) -> Result<Self, TraceError> {
        let mut tracer = Self {
            nftables: Nftables::open()?,
            events: Socket::open(Subsystem::Netfilter)?,
            table: table.to_owned(),
        };
        tracer.events.join(GROUP)?;
        let mut batch = Batch::new(table, None);
        batch.owned_table(table, 0);
        for (name, hook) in CHAINS {
            batch.chain(Change::Add, &chain(name, hook), 0);
        }
        tracer.nftables.commit(batch)?;
        Ok(tracer)
    }

    /// Traces the packets of another flow from now on.
    ///
    /// # Errors
    ///
    /// A [`CommitError`] if the kernel refuses.
    pub fn follow(&mut self, flow: &TracedFlow) -> Result<(), CommitError> {
        let mut batch = Batch::new(&self.table, None);
        let rule = Rule {
            expressions: expressions(flow),
            comment: String::new(),
        };
        for (name, _) in CHAINS {
            batch.flush_chain(name, 0);
            batch.rule(name, &rule, 0);
        }
        self.nftables.commit(batch)?;
        self.discard_events();
        Ok(())
    }

    /// Discards queued events: later packets of the previous flow were traced, too.
    fn discard_events(&mut self) {
        for _ in 0..DATAGRAMS_MAX {
            if matches!(self.events.receive_now(), Ok(None)) {
                break;
            }
        }
    }

    /// Returns the events of the first packet of the flow, which arrive within `timeout`. Events of Portolan's table,
    /// and of retransmissions, are left out. The kernel sends events before the packet goes on, so no time is needed
    /// for a packet that has a response.
    ///
    /// # Errors
    ///
    /// The error of the socket. Events that the kernel lost (ENOBUFS) are an error, too.
    pub fn events(&mut self, timeout: Duration) -> io::Result<Vec<TraceEvent>> {
        let deadline = Instant::now() + timeout;
        let mut events: Vec<TraceEvent> = Vec::new();
        let mut first = None;
        for _ in 0..DATAGRAMS_MAX {
            let Some(datagram) = self.events.receive_now()? else {
                let rest = deadline.saturating_duration_since(Instant::now());
                if rest.is_zero() || !self.events.wait(rest)? {
                    break;
                }
                continue;
            };
            for event in messages(datagram).filter_map(|message| TraceEvent::decode(&message)) {
                // Only the rules of this table begin a trace of this flow.
                if event.table == self.table {
                    first = first.or(Some(event.packet));
                } else if first == Some(event.packet) && events.len() < EVENTS_MAX {
                    events.push(event);
                }
            }
        }
        Ok(events)
    }
}

/// Chains with the rules: packets from other hosts, and from this node.
const CHAINS: [(&str, Hook); 2] = [("arriving", Hook::Prerouting), ("own", Hook::Output)];

fn chain(name: &str, hook: Hook) -> Chain {
    Chain {
        name: name.to_owned(),
        base: Some(BaseChain {
            kind: ChainKind::Filter,
            hook,
            priority: PRIORITY,
        }),
        comment: String::new(),
    }
}

/// Returns the rule that marks the packets of a flow.
fn expressions(flow: &TracedFlow) -> Vec<Expression> {
    let mut expressions = Vec::new();
    let mut require = |load: Expression, value: Vec<u8>| {
        expressions.push(load);
        expressions.push(Expression::Compare {
            register: VALUE,
            comparison: Comparison::Equal,
            value,
        });
    };
    let meta = |key| Expression::Meta { key, into: VALUE };
    let payload = |base, offset, bytes: usize| Expression::Payload {
        base,
        offset,
        bytes: bytes as u32,
        into: VALUE,
    };
    let (family, first_offset) = match flow.source.ip() {
        IpAddr::V4(_) => (wire::NFPROTO_IPV4, IPV4_SOURCE_OFFSET),
        IpAddr::V6(_) => (wire::NFPROTO_IPV6, IPV6_SOURCE_OFFSET),
    };
    require(meta(MetaKey::Family), vec![family]);
    let mut offset = first_offset;
    for address in [flow.source, flow.destination] {
        let value = octets(address.ip());
        require(payload(PayloadBase::Network, offset, value.len()), value.clone());
        offset += value.len() as u32;
    }
    require(meta(MetaKey::Protocol), vec![flow.protocol]);
    for (offset, address) in [(0, flow.source), (2, flow.destination)] {
        let value = address.port().to_be_bytes().to_vec();
        require(payload(PayloadBase::Transport, offset, value.len()), value);
    }
    expressions.push(Expression::Load {
        value: vec![1],
        into: VALUE,
    });
    expressions.push(Expression::SetTrace { from: VALUE });
    expressions
}

/// Offsets of the source address, which the destination address follows.
const IPV4_SOURCE_OFFSET: u32 = 12;
const IPV6_SOURCE_OFFSET: u32 = 8;

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests;
