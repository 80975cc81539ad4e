//! State, counters and last error of a session, for reports.

use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::message::Notification;
use crate::{AutonomousSystem, Family};

/// State of a session (RFC 4271, section 8.2.2): that of its most advanced connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Stopped.
    Idle,
    /// Waits for the next attempt or for the peer.
    Active,
    /// Attempts to connect.
    Connect,
    /// Sent its OPEN.
    OpenSent,
    /// Received the peer's OPEN.
    OpenConfirm,
    /// Exchanges routes.
    Established,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "Idle",
            Self::Active => "Active",
            Self::Connect => "Connect",
            Self::OpenSent => "OpenSent",
            Self::OpenConfirm => "OpenConfirm",
            Self::Established => "Established",
        })
    }
}

/// Reason of the end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The connection was not opened.
    Connect(String),
    /// The peer or the network closed the connection.
    Closed(String),
    /// This speaker ended the session.
    Sent(Notification),
    /// The peer ended the session.
    Received(Notification),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(reason) => write!(f, "not connected: {reason}"),
            Self::Closed(reason) => write!(f, "connection closed: {reason}"),
            Self::Sent(notification) => write!(f, "ended by this node: {notification}"),
            Self::Received(notification) => write!(f, "ended by the peer: {notification}"),
        }
    }
}

/// Numbers since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the messages say everything")]
pub struct Counters {
    pub opens_sent: u64,
    pub opens_received: u64,
    pub keepalives_sent: u64,
    pub keepalives_received: u64,
    pub updates_sent: u64,
    pub updates_received: u64,
    pub notifications_sent: u64,
    pub notifications_received: u64,
    pub route_refreshes_received: u64,
    /// Prefixes that the peer announced; they are ignored.
    pub prefixes_received: u64,
    /// UPDATEs with errors that do not end the session (RFC 7606).
    pub malformed_updates: u64,
    /// Sessions that reached Established.
    pub established: u64,
    /// Attempts and sessions that ended with an error.
    pub failures: u64,
}

/// Properties of an established session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// Time since the session reached Established.
    pub duration: Duration,
    /// Autonomous system of the peer.
    pub peer_as: AutonomousSystem,
    /// BGP identifier of the peer.
    pub peer_identifier: Ipv4Addr,
    /// Negotiated hold time; `None` without it.
    pub hold: Option<Duration>,
    /// Families whose routes can be announced.
    pub families: Vec<Family>,
    /// True if both speakers negotiated graceful restart.
    pub has_graceful_restart: bool,
}
