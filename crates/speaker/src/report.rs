//! State of sessions for metrics (LBM-17) and `portolan balancer status --bgp`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use bgp::Time;
use bgp::session::{Counters, Peer, State};
use serde::{Deserialize, Serialize};
use telemetry::{MetricType, MetricsText};

#[cfg(test)]
mod tests;

/// Maximum length of the description of an error.
const ERROR_CHARACTERS_MAX: usize = 300;

/// State of one session, as its task last reported it.
#[derive(Debug, Default)]
pub(crate) struct SessionReport(Mutex<Snapshot>);

/// State of a session.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    state: Option<State>,
    counters: Counters,
    established_seconds: Option<u64>,
    peer_as: Option<u32>,
    families: Vec<String>,
    has_graceful_restart: bool,
    desired: usize,
    announced: usize,
    pending: usize,
    last_error: Option<String>,
}

impl SessionReport {
    /// Replaces the report.
    pub(crate) fn update(&self, peer: &Peer, now: Time) {
        let established = peer.established(now);
        let families = established.iter().flat_map(|established| &established.families);
        let error = peer.last_error().map(|error| {
            let text = error.to_string();
            text.chars().take(ERROR_CHARACTERS_MAX).collect()
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Snapshot {
            state: Some(peer.state()),
            counters: *peer.counters(),
            established_seconds: established
                .as_ref()
                .map(|established| established.duration.as_secs()),
            peer_as: established.as_ref().map(|established| established.peer_as),
            families: families.map(|family| format!("{family:?}")).collect(),
            has_graceful_restart: established
                .as_ref()
                .is_some_and(|established| established.has_graceful_restart),
            desired: peer.advertised().desired_count(),
            announced: peer.advertised().sent_routes().len(),
            pending: peer.advertised().pending_count(),
            last_error: error,
        };
    }

    fn snapshot(&self) -> Snapshot {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A peer of this node.
#[derive(Clone, Debug)]
pub(crate) struct ReportedPeer {
    /// Address, or link of a peer without a configured one.
    pub(crate) address: String,
    pub(crate) vrf: Option<String>,
    /// State of BFD; `None` without it.
    pub(crate) bfd: Option<bool>,
    /// Reason why there is no session.
    pub(crate) fault: Option<String>,
    pub(crate) session: Arc<SessionReport>,
}

/// State of the speaker.
#[derive(Debug, Default)]
pub(crate) struct ReportedSpeaker {
    pub(crate) peers: BTreeMap<String, ReportedPeer>,
    pub(crate) faults: Vec<String>,
    pub(crate) drain: Option<String>,
}

/// Metrics and status of a speaker.
#[derive(Debug, Default)]
pub struct Metrics {
    reported: Mutex<ReportedSpeaker>,
}

/// Report of a speaker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Sessions by name of the BGPPeer.
    pub sessions: Vec<SessionStatus>,
    /// Objects that are ignored, and other faults.
    pub faults: Vec<String>,
    /// Phase of the drain of a cordoned node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
}

/// State of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStatus {
    /// Group and name of the BGPPeer.
    pub peer: String,
    /// Address of the peer, or its link without a configured one.
    pub address: String,
    /// State of the state machine, or `Faulty` without a session.
    pub state: String,
    /// Age of the established session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub established_seconds: Option<u64>,
    /// Autonomous system of the peer.
    #[serde(rename = "peerASN", default, skip_serializing_if = "Option::is_none")]
    pub peer_as: Option<u32>,
    /// Families whose routes are announced.
    #[serde(default)]
    pub families: Vec<String>,
    /// True if graceful restart is negotiated.
    #[serde(default)]
    pub has_graceful_restart: bool,
    /// Routes that the peer should have.
    pub desired_routes: usize,
    /// Routes that were sent in this session.
    pub announced_routes: usize,
    /// `up` or `down`; `None` without BFD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bfd: Option<String>,
    /// Reason of the last end of the session, or of its absence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

impl Metrics {
    pub(crate) fn set(&self, reported: ReportedSpeaker) {
        *self.reported.lock().unwrap_or_else(PoisonError::into_inner) = reported;
    }

    /// Sets the state of BFD of a peer.
    pub(crate) fn set_bfd(&self, peer: &str, is_up: bool) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = reported.peers.get_mut(peer) {
            peer.bfd = Some(is_up);
        }
    }

    /// Returns the current status.
    pub fn status(&self) -> Status {
        let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = reported.peers.iter().map(|(name, peer)| {
            let snapshot = peer.session.snapshot();
            let state = snapshot.state.filter(|_| peer.fault.is_none());
            SessionStatus {
                peer: name.clone(),
                address: peer.address.clone(),
                state: state.map_or_else(|| "Faulty".to_owned(), |state| state.to_string()),
                established_seconds: snapshot.established_seconds,
                peer_as: snapshot.peer_as,
                families: snapshot.families,
                has_graceful_restart: snapshot.has_graceful_restart,
                desired_routes: snapshot.desired,
                announced_routes: snapshot.announced,
                bfd: peer.bfd.map(|is_up| if is_up { "up" } else { "down" }.to_owned()),
                last_error: peer.fault.clone().or(snapshot.last_error),
            }
        });
        Status {
            sessions: sessions.collect(),
            faults: reported.faults.clone(),
            drain: reported.drain.clone(),
        }
    }

    /// Renders all metrics in the Prometheus text format, under MetalLB's names where it has them.
    pub fn render(&self) -> String {
        let mut text = MetricsText::default();
        let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let peers: Vec<(String, bool, Snapshot)> = reported
            .peers
            .values()
            .map(|peer| {
                let mut labels = format!("peer=\"{}\"", label(&peer.address));
                if let Some(vrf) = &peer.vrf {
                    // Writing to a String cannot fail.
                    write!(labels, ",vrf=\"{}\"", label(vrf)).unwrap_or_default();
                }
                (labels, peer.fault.is_none(), peer.session.snapshot())
            })
            .collect();
        for (name, kind, help, value) in FAMILIES {
            text.family(name, *kind, help);
            for (labels, _, snapshot) in &peers {
                text.sample(name, labels, value(snapshot));
            }
        }
        let name = "metallb_bfd_session_up";
        text.family(name, MetricType::Gauge, "BFD session state (1 is up, 0 is down)");
        for peer in reported.peers.values() {
            if let Some(is_up) = peer.bfd {
                text.sample(
                    name,
                    &format!("peer=\"{}\"", label(&peer.address)),
                    u8::from(is_up),
                );
            }
        }
        let faults = reported.faults.len() + peers.iter().filter(|(_, is_valid, _)| !is_valid).count();
        text.single(
            "portolan_bgp_faults",
            MetricType::Gauge,
            "Number of BGP objects that are ignored, and of peers without a session for a reported reason.",
            faults,
        );
        drop(reported);
        text.finish()
    }
}

/// Name, type, help and value of a metric of each session.
type Family = (&'static str, MetricType, &'static str, fn(&Snapshot) -> u64);

/// Metrics of each session.
const FAMILIES: &[Family] = &[
    (
        "metallb_bgp_session_up",
        MetricType::Gauge,
        "BGP session state (1 is up, 0 is down)",
        |session| u64::from(session.state == Some(State::Established)),
    ),
    (
        "metallb_bgp_announced_prefixes_total",
        MetricType::Gauge,
        "Number of prefixes currently being advertised on the BGP session",
        |session| number(session.announced),
    ),
    (
        "metallb_bgp_pending_prefixes_total",
        MetricType::Gauge,
        "Number of prefixes that should be advertised on the BGP session",
        |session| number(session.pending),
    ),
    (
        "metallb_bgp_updates_total",
        MetricType::Counter,
        "Number of BGP UPDATE messages sent",
        |session| session.counters.updates_sent,
    ),
    (
        "metallb_bgp_updates_total_received",
        MetricType::Counter,
        "Number of BGP UPDATE messages received",
        |session| session.counters.updates_received,
    ),
    (
        "metallb_bgp_opens_sent",
        MetricType::Counter,
        "Number of BGP open messages sent",
        |session| session.counters.opens_sent,
    ),
    (
        "metallb_bgp_opens_received",
        MetricType::Counter,
        "Number of BGP open messages received",
        |session| session.counters.opens_received,
    ),
    (
        "metallb_bgp_keepalives_sent",
        MetricType::Counter,
        "Number of BGP keepalive messages sent",
        |session| session.counters.keepalives_sent,
    ),
    (
        "metallb_bgp_keepalives_received",
        MetricType::Counter,
        "Number of BGP keepalive messages received",
        |session| session.counters.keepalives_received,
    ),
    (
        "metallb_bgp_notifications_sent",
        MetricType::Counter,
        "Number of BGP notification messages sent",
        |session| session.counters.notifications_sent,
    ),
    (
        "portolan_bgp_notifications_received_total",
        MetricType::Counter,
        "Number of BGP notification messages received.",
        |session| session.counters.notifications_received,
    ),
    (
        "portolan_bgp_route_refreshes_received_total",
        MetricType::Counter,
        "Number of BGP route refresh messages received.",
        |session| session.counters.route_refreshes_received,
    ),
    (
        "portolan_bgp_prefixes_ignored_total",
        MetricType::Counter,
        "Number of prefixes that peers announced; they are ignored.",
        |session| session.counters.prefixes_received,
    ),
    (
        "portolan_bgp_malformed_updates_total",
        MetricType::Counter,
        "Number of received BGP UPDATE messages with errors that do not end the session (RFC 7606).",
        |session| session.counters.malformed_updates,
    ),
    (
        "portolan_bgp_sessions_established_total",
        MetricType::Counter,
        "Number of times a BGP session was established.",
        |session| session.counters.established,
    ),
    (
        "portolan_bgp_session_failures_total",
        MetricType::Counter,
        "Number of attempts to connect and of BGP sessions that ended with an error.",
        |session| session.counters.failures,
    ),
];

/// Returns the value of a label. Names of links seldom contain quotes or backslashes.
fn label(text: &str) -> String {
    text.replace(['"', '\\', '\n'], "_")
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
