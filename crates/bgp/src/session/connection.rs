//! One TCP connection to a peer: its state, timers, input buffer and the results of its negotiation.

use std::time::Duration;

use super::settings::{LocalAddresses, PeerSettings};
use crate::message::capability::{Capabilities, GracefulRestart};
use crate::message::{Context, Notification, Open};
use crate::routes::NextHop;
use crate::{AutonomousSystem, Family, Time};

/// Time to wait for the OPEN of the peer (RFC 4271, section 8.2.2).
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(240);

/// Minimum period of KEEPALIVEs (RFC 4271, section 4.4).
pub(super) const KEEPALIVE_MIN: Duration = Duration::from_secs(1);

/// Number of a connection, unique for its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(super) u64);

/// Speaker that opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Initiator {
    Local,
    Peer,
}

/// State of a connection after its OPEN was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionState {
    OpenSent,
    OpenConfirm,
    Established,
}

/// Results of the OPENs of both speakers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Negotiated {
    pub(super) peer: Open,
    pub(super) context: Context,
    pub(super) families: Vec<Family>,
    pub(super) hold: Option<Duration>,
    pub(super) keepalive: Option<Duration>,
    pub(super) has_extended_next_hop: bool,
    /// Both speakers negotiated graceful restart.
    pub(super) has_graceful_restart: bool,
    /// NOTIFICATIONs keep the routes, unless they are hard resets (RFC 8538).
    pub(super) has_notification_restart: bool,
}

/// A connection whose OPEN was sent.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    pub(super) initiator: Initiator,
    pub(super) state: ConnectionState,
    pub(super) local: LocalAddresses,
    /// Received bytes without a complete message; less than the longest message.
    pub(super) input: Vec<u8>,
    pub(super) negotiated: Option<Negotiated>,
    pub(super) hold_deadline: Option<Time>,
    pub(super) keepalive_due: Option<Time>,
    pub(super) since: Time,
    /// Families whose initial routes were not sent completely.
    pub(super) initial_families: Vec<Family>,
}

impl Connection {
    pub(super) fn new(id: ConnectionId, initiator: Initiator, local: LocalAddresses, now: Time) -> Self {
        Self {
            id,
            initiator,
            state: ConnectionState::OpenSent,
            local,
            input: Vec::new(),
            negotiated: None,
            hold_deadline: Some(now + OPEN_TIMEOUT),
            keepalive_due: None,
            since: now,
            initial_families: Vec::new(),
        }
    }

    /// Restarts the hold timer.
    pub(super) fn restart_hold_timer(&mut self, now: Time) {
        let hold = self.negotiated.as_ref().and_then(|negotiated| negotiated.hold);
        self.hold_deadline = hold.map(|hold| now + hold);
    }

    /// Returns the context of messages; before the negotiation, OPENs do not depend on it.
    pub(super) fn context(&self, settings: &PeerSettings) -> Context {
        let negotiated = self.negotiated.as_ref();
        negotiated.map_or(
            Context {
                has_four_octet_as: true,
                is_internal: false,
                local_as: settings.local_as,
            },
            |negotiated| negotiated.context,
        )
    }

    /// Returns the next hop of routes of a family; `None` if they cannot be announced on this connection.
    pub(super) fn next_hop(&self, family: Family) -> Option<NextHop> {
        let negotiated = self.negotiated.as_ref()?;
        let is_negotiated = negotiated.families.contains(&family);
        self.local
            .next_hop(family, negotiated.has_extended_next_hop)
            .filter(|_| is_negotiated)
    }

    /// Returns true if routes can be exchanged.
    pub(super) fn is_established(&self) -> bool {
        self.state == ConnectionState::Established
    }
}

/// Returns the OPEN of this speaker. `is_restarted` is true for some time after the start of the process.
pub(super) fn open(settings: &PeerSettings, is_restarted: bool) -> Open {
    // The rules of the kernel outlive the process, so the node continues to forward, unless it has started again.
    let is_preserved = !(is_restarted && settings.is_after_boot);
    let restart = |restart_seconds| GracefulRestart {
        is_restarted,
        has_notifications: true,
        restart_seconds,
        families: settings
            .families
            .iter()
            .map(|family| (*family, is_preserved))
            .collect(),
    };
    Open {
        autonomous_system: settings.local_as,
        hold_seconds: settings.hold_seconds,
        identifier: settings.router_id,
        capabilities: Capabilities {
            families: settings.families.clone(),
            has_other_families: false,
            has_route_refresh: true,
            has_extended_next_hop: settings.families.contains(&Family::Ipv4),
            four_octet_as: Some(settings.local_as),
            graceful_restart: settings.restart_seconds.map(restart),
        },
    }
}

/// Compares the OPENs of both speakers.
///
/// # Errors
/// A NOTIFICATION if the peer is another one than expected, or shares no family.
pub(super) fn negotiate(settings: &PeerSettings, peer: Open) -> Result<Negotiated, Notification> {
    if !settings.peer_as.allows(peer.autonomous_system, settings.local_as) {
        return Err(Notification::new(Notification::OPEN, 2));
    }
    let is_internal = peer.autonomous_system == settings.local_as;
    if is_internal && peer.identifier == settings.router_id {
        return Err(Notification::new(Notification::OPEN, 3));
    }
    let capabilities = &peer.capabilities;
    let supports = |family: &Family| match capabilities.families.as_slice() {
        // Without the capability, a peer supports IPv4 only (RFC 4760, section 8).
        [] => *family == Family::Ipv4 && !capabilities.has_other_families,
        families => families.contains(family),
    };
    let families: Vec<Family> = settings.families.iter().copied().filter(supports).collect();
    if families.is_empty() {
        // The data are the capabilities that the peer lacks (RFC 5492, section 3).
        let lacking = Capabilities {
            families: settings.families.clone(),
            ..Capabilities::default()
        };
        return Err(Notification::with_data(Notification::OPEN, 7, &lacking.encode()));
    }
    let hold_seconds = settings.hold_seconds.min(peer.hold_seconds);
    let hold = (hold_seconds != 0).then(|| Duration::from_secs(u64::from(hold_seconds)));
    let keepalive = hold.map(|hold| {
        settings
            .keepalive
            .map_or(hold / 3, |keepalive| keepalive.max(KEEPALIVE_MIN).min(hold / 3))
    });
    let restart = capabilities.graceful_restart.as_ref();
    let has_graceful_restart = settings.restart_seconds.is_some() && restart.is_some();
    Ok(Negotiated {
        context: Context {
            has_four_octet_as: capabilities.four_octet_as.is_some(),
            is_internal,
            local_as: settings.local_as,
        },
        families,
        hold,
        keepalive,
        has_extended_next_hop: capabilities.has_extended_next_hop,
        has_graceful_restart,
        has_notification_restart: has_graceful_restart
            && restart.is_some_and(|restart| restart.has_notifications),
        peer,
    })
}

/// Returns the speaker whose connection stays after a collision (RFC 4271, section 6.8; RFC 6286).
pub(super) fn collision_winner(settings: &PeerSettings, peer: &Open) -> Initiator {
    let local: (u32, AutonomousSystem) = (settings.router_id.into(), settings.local_as);
    let remote = (u32::from(peer.identifier), peer.autonomous_system);
    if local > remote {
        Initiator::Local
    } else {
        Initiator::Peer
    }
}
