//! Packets that are followed in the kernel, as by `portolan trace --live`, and compared with their traces.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use explain::trace::Trace;
use explain::trace::live::{Connection, Entry, Evidence, MatchedRule, Response, disagreements};
use netlink::conntrack::Conntrack;
use netlink::nftables::{PacketTracer, TraceEvent, TracedFlow, Verdict};
use plan::Packet;

use crate::world::{Member, Outcome};

/// One packet of this many is followed, so that the tests take about the same time.
const SHARE: usize = 16;
/// Maximum number of conntrack entries of one source and destination.
const ENTRIES_MAX: usize = 2;
/// Time for events of a packet after its outcome.
const EVENTS_TIMEOUT: Duration = Duration::from_millis(5);

/// Follower of a share of the packets.
pub(crate) struct Followed {
    /// True if the kernel chooses the endpoint. It does so in all modes for port ranges.
    translates: bool,
    /// Tracer of rules; `None` if the rules are not those of nftables, or the kernel is older than 5.12.
    tracer: Option<Mutex<PacketTracer>>,
    packets: AtomicUsize,
    with_entry: AtomicUsize,
    with_rules: AtomicUsize,
}

/// Right to follow one packet.
pub(crate) struct Turn<'f> {
    followed: &'f Followed,
    tracer: Option<MutexGuard<'f, PacketTracer>>,
}

impl Followed {
    /// Creates a follower in the namespace of the node.
    pub(crate) fn new(node: &Member, translates: bool, has_rules: bool) -> Self {
        let tracer = if has_rules {
            node.enter(|| PacketTracer::open("tracer").ok())
        } else {
            None
        };
        Self {
            translates,
            tracer: tracer.map(Mutex::new),
            packets: AtomicUsize::new(0),
            with_entry: AtomicUsize::new(0),
            with_rules: AtomicUsize::new(0),
        }
    }

    /// Returns the right to follow a packet from this address and port of its client, if it is due.
    pub(crate) fn turn(&self, packet: &Packet, source: SocketAddr) -> Option<Turn<'_>> {
        if !self.packets.fetch_add(1, Ordering::Relaxed).is_multiple_of(SHARE) {
            return None;
        }
        let mut tracer = self.tracer.as_ref().map(|tracer| tracer.lock().unwrap());
        if let Some(tracer) = &mut tracer {
            let flow = TracedFlow {
                protocol: packet.protocol.number(),
                source,
                destination: SocketAddr::new(packet.destination, packet.port),
            };
            tracer.follow(&flow).unwrap();
        }
        Some(Turn {
            followed: self,
            tracer,
        })
    }

    /// Checks that packets were followed at all.
    pub(crate) fn assert_used(&self) {
        assert!(
            self.with_entry.load(Ordering::Relaxed) > 0,
            "no conntrack entry was compared"
        );
        let has_rules = self.with_rules.load(Ordering::Relaxed) > 0;
        assert!(has_rules || self.tracer.is_none(), "no rule was followed");
    }
}

impl Turn<'_> {
    /// Compares a packet that was sent with its trace. `source` is the address and port of the client.
    pub(crate) fn compare(
        mut self,
        node: &Member,
        trace: &Trace,
        packet: &Packet,
        source: SocketAddr,
        outcome: &Outcome,
    ) {
        let destination = SocketAddr::new(packet.destination, packet.port);
        let events = self
            .tracer
            .as_mut()
            .map(|tracer| tracer.events(EVENTS_TIMEOUT).unwrap());
        let rules: Vec<MatchedRule> = events.iter().flatten().map(rule).collect();
        let entry = node.enter(|| {
            let is_own = |flow: &netlink::conntrack::Flow| {
                flow.original.source == source && flow.original.destination == destination
            };
            let mut conntrack = Conntrack::open().unwrap();
            let number = packet.protocol.number();
            conntrack
                .flows_to(ENTRIES_MAX, packet.destination, number, is_own)
                .unwrap()
        });
        let entry = entry.first().map(|flow| Entry {
            endpoint: flow.reply.source,
            client_seen: flow.reply.destination.ip(),
        });
        self.followed
            .with_entry
            .fetch_add(usize::from(entry.is_some()), Ordering::Relaxed);
        self.followed
            .with_rules
            .fetch_add(usize::from(!rules.is_empty()), Ordering::Relaxed);
        let sent = Connection {
            source,
            destination,
            response: match outcome {
                Outcome::Answered { .. } => Response::Answered,
                Outcome::Refused => Response::Refused,
                Outcome::NoResponse => Response::Timeout,
            },
            milliseconds: 0,
            at_connect: None,
            entry,
            rules,
            disagreements: Vec::new(),
        };
        let path = trace.paths.first().expect("a path");
        let evidence = Evidence {
            conntrack: true,
            rules: self.tracer.is_some(),
            translation: self.followed.translates || path.ends_at_port_range(),
        };
        let found = disagreements(path, &trace.client, &sent, evidence);
        assert_eq!(found, None, "{sent:#?}\n{path:#?}");
    }
}

fn rule(event: &TraceEvent) -> MatchedRule {
    MatchedRule {
        table: event.table.clone(),
        chain: event.chain.clone(),
        verdict: format!("{:?}", event.verdict),
        drops: event.verdict == Some(Verdict::Drop),
    }
}
