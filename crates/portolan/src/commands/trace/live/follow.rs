//! Rules and conntrack entry of a connection, in the network namespace of the node.

use std::time::Duration;

use api::object::Protocol;
use dataplane::ebpf::{ConnectionEvents, default_pins};
use explain::trace::live::{AtConnect, Connection, Entry, Evidence, MatchedRule};
use netlink::conntrack::Conntrack;
use netlink::nftables::{PacketTracer, TraceEvent, TraceStep, TracedFlow, Verdict};

use super::packet::Packet;

/// Name of the table with the rules of the trace, before the process ID.
const TABLE_PREFIX: &str = "portolan-trace-";
/// Conntrack entries of one source and destination, at most. Zones can have more than one.
const ENTRIES_MAX: usize = 4;
/// Time for events of a packet that has received its response or its timeout.
const EVENTS_TIMEOUT: Duration = Duration::from_millis(20);

/// Follower of connections, one at a time.
pub(super) struct Follower {
    protocol: Protocol,
    tracer: Option<PacketTracer>,
    conntrack: Option<Conntrack>,
    /// Decisions of eBPF programs when clients connect, in mode `ebpf`.
    events: Option<ConnectionEvents>,
    /// False if eBPF programs may decide, and their decisions are not read.
    reads_decisions: bool,
}

impl Follower {
    /// Opens the sources that are permitted, and notes the others. Only the modes `nftables` and `ebpf` have rules to
    /// follow.
    pub(super) fn open(protocol: Protocol, mode: Option<&str>, notes: &mut Vec<String>) -> Self {
        let tracer = match mode {
            Some(mode) if !matches!(mode, "nftables" | "ebpf") => {
                notes.push(format!(
                    "rules are followed in the modes nftables and ebpf only, and the proxy uses {mode}"
                ));
                None
            }
            _ => {
                let table = format!("{TABLE_PREFIX}{}", std::process::id());
                let opened = PacketTracer::open(&table);
                opened
                    .map_err(|error| notes.push(format!("rules are not followed: {error}")))
                    .ok()
            }
        };
        let conntrack = Conntrack::open()
            .map_err(|error| notes.push(error.to_string()))
            .ok();
        let is_ebpf = mode == Some("ebpf") && protocol == Protocol::Tcp;
        let events = is_ebpf
            .then(|| ConnectionEvents::open(&default_pins()))
            .and_then(|opened| {
                opened
                    .map_err(|error| notes.push(format!("decisions of eBPF programs are not read: {error}")))
                    .ok()
            });
        Self {
            protocol,
            tracer,
            conntrack,
            reads_decisions: events.is_some() || !is_ebpf,
            events,
        }
    }

    /// Returns the sources that are read besides the responses.
    pub(super) fn evidence(&self) -> Evidence {
        Evidence {
            conntrack: self.conntrack.is_some(),
            rules: self.tracer.is_some(),
            translation: self.reads_decisions,
        }
    }

    /// Sends a packet, and follows it.
    pub(super) fn send(&mut self, packet: Packet, notes: &mut Vec<String>) -> Connection {
        self.begin(&packet, notes);
        let (response, elapsed) = packet.send();
        let at_connect = self.at_connect(&packet);
        // The socket is still open, so the entry belongs to this connection.
        let entry = self.entry(&packet, notes);
        let rules = self.rules(notes);
        Connection {
            source: packet.source,
            destination: packet.destination,
            response,
            milliseconds: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            at_connect,
            entry,
            rules,
            disagreements: Vec::new(),
        }
    }

    fn begin(&mut self, packet: &Packet, notes: &mut Vec<String>) {
        if let Some(events) = &mut self.events {
            // Events of other clients fill the ring, and the one of this packet needs room.
            events.read(|_| {});
        }
        if let Some(events) = &self.events
            && let Err(error) = events.request()
        {
            notes.push(format!("decisions of eBPF programs are not read: {error}"));
            self.events = None;
            self.reads_decisions = false;
        }
        let flow = TracedFlow {
            protocol: self.protocol.number(),
            source: packet.source,
            destination: packet.destination,
        };
        let Some(tracer) = &mut self.tracer else { return };
        if let Err(error) = tracer.follow(&flow) {
            notes.push(format!("rules are not followed: {error}"));
            self.tracer = None;
        }
    }

    /// Returns the decision about a packet that was sent: its event is complete when connect(2) returns.
    fn at_connect(&mut self, packet: &Packet) -> Option<AtConnect> {
        let cookie = packet.cookie()?;
        let mut found = None;
        self.events.as_mut()?.read(|event| {
            if event.socket_cookie == cookie {
                found = Some(event.endpoint.map_or(AtConnect::Refused, AtConnect::Endpoint));
            }
        });
        found
    }

    fn entry(&mut self, packet: &Packet, notes: &mut Vec<String>) -> Option<Entry> {
        let is_own = |flow: &netlink::conntrack::Flow| {
            flow.original.source == packet.source && flow.original.destination == packet.destination
        };
        let (number, address) = (self.protocol.number(), packet.destination.ip());
        match self
            .conntrack
            .as_mut()?
            .flows_to(ENTRIES_MAX, address, number, is_own)
        {
            Ok(flows) => flows.first().map(|flow| Entry {
                endpoint: flow.reply.source,
                client_seen: flow.reply.destination.ip(),
            }),
            Err(error) => {
                notes.push(error.to_string());
                self.conntrack = None;
                None
            }
        }
    }

    fn rules(&mut self, notes: &mut Vec<String>) -> Vec<MatchedRule> {
        let Some(tracer) = &mut self.tracer else {
            return Vec::new();
        };
        match tracer.events(EVENTS_TIMEOUT) {
            Ok(events) => events.iter().map(matched_rule).collect(),
            Err(error) => {
                notes.push(format!("rules are not followed: {error}"));
                self.tracer = None;
                Vec::new()
            }
        }
    }
}

fn matched_rule(event: &TraceEvent) -> MatchedRule {
    let verdict = match &event.verdict {
        None => "continue".to_owned(),
        Some(Verdict::Accept) => "accept".to_owned(),
        Some(Verdict::Drop) => "drop".to_owned(),
        Some(Verdict::Return) => "return".to_owned(),
        Some(Verdict::Jump(chain)) => format!("jump {chain}"),
        Some(Verdict::Goto(chain)) => format!("goto {chain}"),
    };
    let verdict = match event.step {
        TraceStep::Policy => format!("policy {verdict}"),
        TraceStep::Rule | TraceStep::Return => verdict,
    };
    MatchedRule {
        table: format!("{} {}", family(event.family), event.table),
        chain: event.chain.clone(),
        verdict,
        drops: event.verdict == Some(Verdict::Drop),
    }
}

/// Returns the name of a family (`NFPROTO_…`), as `nft` prints it.
fn family(number: u8) -> &'static str {
    match i32::from(number) {
        libc::NFPROTO_INET => "inet",
        libc::NFPROTO_IPV4 => "ip",
        libc::NFPROTO_IPV6 => "ip6",
        libc::NFPROTO_BRIDGE => "bridge",
        libc::NFPROTO_ARP => "arp",
        _ => "netdev",
    }
}
