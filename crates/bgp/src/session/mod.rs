//! State machine of a session with one peer (RFC 4271, section 8).
//!
//! A [`Peer`] owns at most two connections: one opened by this speaker, and one opened by the peer. It closes one of
//! them when they collide. Inputs are connections, bytes and time; outputs are [`Action`]s, which the caller takes
//! after each input. The caller requests UPDATEs with [`Peer::next_update`] when its write buffer has space, so a
//! peer that reads slowly delays only itself.
//!
//! The state machine differs from the RFC in two points. Attempts to connect follow a back-off with jitter up to the
//! connect-retry time. OpenSent of an incoming connection does not stop outgoing attempts.

mod connection;
mod settings;
mod status;

use std::time::Duration;

use fastrand::Rng;

pub use connection::ConnectionId;
pub use settings::{LocalAddresses, PeerSettings, PeerSystem};
pub use status::{Counters, Established, SessionError, State};

use crate::Time;
use crate::message::{self, Message, Notification, Open, encode};
use crate::routes::{Advertised, Routes};
use connection::{Connection, ConnectionState, Initiator, KEEPALIVE_MIN, collision_winner, negotiate, open};

#[cfg(test)]
mod tests;

/// Time for one attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay before the second attempt to connect; it doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Age of a session from which its end does not count as one failure more.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Bound of the exponent of the back-off.
const BACK_OFF_EXPONENT_MAX: u32 = 16;

/// Output of the state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a connection; [`Peer::connected`] or [`Peer::closed`] follows.
    Connect(ConnectionId),
    /// Send bytes.
    Send(ConnectionId, Vec<u8>),
    /// Close the connection after the bytes before; it is unknown from now on.
    Close(ConnectionId),
}

/// Reason to stop a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Another process continues: a peer with graceful restart keeps the routes.
    Restart,
    /// The node stops announcing, with a text for the operator of the peer (RFC 9003).
    Shutdown(String),
    /// The peer is not configured any more.
    Deconfigured,
    /// The settings have changed; a session with the new ones follows.
    SettingsChanged,
}

/// An attempt to connect.
#[derive(Clone, Copy, Debug)]
struct ConnectAttempt {
    id: ConnectionId,
    deadline: Time,
}

/// State machine of the session with one peer.
#[derive(Debug)]
pub struct Peer {
    settings: PeerSettings,
    random: Rng,
    is_started: bool,
    /// At most one of each initiator.
    connections: Vec<Connection>,
    attempt: Option<ConnectAttempt>,
    connect_due: Option<Time>,
    failures: u32,
    next_id: u64,
    /// End of the time after the start of the process in which OPENs say that it has restarted.
    restarted_until: Time,
    advertised: Advertised,
    actions: Vec<Action>,
    counters: Counters,
    last_error: Option<SessionError>,
}

impl Peer {
    /// Creates a stopped session. `seed` determines the jitter of timers.
    pub fn new(settings: PeerSettings, seed: u64, now: Time) -> Self {
        let restart = u64::from(settings.restart_seconds.unwrap_or_default());
        Self {
            settings,
            random: Rng::with_seed(seed),
            is_started: false,
            connections: Vec::new(),
            attempt: None,
            connect_due: None,
            failures: 0,
            next_id: 0,
            restarted_until: now + Duration::from_secs(restart),
            advertised: Advertised::default(),
            actions: Vec::new(),
            counters: Counters::default(),
            last_error: None,
        }
    }

    /// Starts to connect, or to wait for the peer.
    pub fn start(&mut self, now: Time) {
        self.is_started = true;
        self.failures = 0;
        self.connect_due = (!self.settings.is_passive).then_some(now);
    }

    /// Ends all connections.
    pub fn stop(&mut self, reason: &Stop) {
        self.is_started = false;
        self.connect_due = None;
        if let Some(attempt) = self.attempt.take() {
            self.actions.push(Action::Close(attempt.id));
        }
        for connection in std::mem::take(&mut self.connections) {
            if let Some(notification) = stop_notification(&connection, reason) {
                self.send_notification(connection.id, &notification);
            }
            self.actions.push(Action::Close(connection.id));
        }
    }

    /// Replaces the routes to announce. Returns the number of routes that exceed the maximum and are left out.
    pub fn set_routes(&mut self, routes: Routes) -> usize {
        self.advertised.set(routes)
    }

    /// Accepts a connection of the peer; `None` to close it.
    pub fn accepted(&mut self, now: Time, local: LocalAddresses) -> Option<ConnectionId> {
        if !self.is_started {
            return None;
        }
        let established = self
            .connections
            .iter()
            .find(|connection| connection.is_established());
        if let Some(established) = established {
            let negotiated = established.negotiated.as_ref();
            let restarts =
                negotiated.is_some_and(|negotiated| negotiated.peer.capabilities.graceful_restart.is_some());
            if !restarts {
                return None;
            }
            // The peer has restarted without the session (RFC 4724, section 5).
            let id = established.id;
            self.end(
                now,
                id,
                SessionError::Closed("the peer opened another one".to_owned()),
            );
        }
        // The peer has opened another connection, so it no longer uses the earlier one without a session.
        if let Some(before) = self.find(Initiator::Peer) {
            self.remove(before);
        }
        let id = self.new_id();
        self.open_connection(now, id, Initiator::Peer, local);
        Some(id)
    }

    /// Notes that the connection of [`Action::Connect`] is open.
    pub fn connected(&mut self, now: Time, id: ConnectionId, local: LocalAddresses) {
        if self.attempt.is_some_and(|attempt| attempt.id == id) {
            self.attempt = None;
            self.open_connection(now, id, Initiator::Local, local);
        }
    }

    /// Notes that a connection is closed or was not opened.
    pub fn closed(&mut self, now: Time, id: ConnectionId, reason: &str) {
        let error = if self.attempt.is_some_and(|attempt| attempt.id == id) {
            SessionError::Connect(reason.to_owned())
        } else {
            SessionError::Closed(reason.to_owned())
        };
        self.end(now, id, error);
    }

    /// Processes received bytes.
    pub fn received(&mut self, now: Time, id: ConnectionId, bytes: &[u8]) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        let mut input = std::mem::take(&mut connection.input);
        input.extend_from_slice(bytes);
        let mut start = 0;
        while let Some(connection) = self.connections.iter_mut().find(|connection| connection.id == id) {
            let context = connection.context(&self.settings);
            let unread = &input[start..];
            let decoded = match message::frame_length(unread) {
                Ok(Some(length)) if length <= unread.len() => {
                    start += length;
                    Message::decode(&unread[..length], &context)
                }
                Ok(_) => {
                    connection.input = unread.to_vec();
                    return;
                }
                Err(notification) => Err(notification),
            };
            match decoded {
                Ok(message) => self.process(now, id, message),
                Err(notification) => return self.fail(now, id, notification),
            }
        }
    }

    /// Ends the session because BFD lost the peer (RFC 9384).
    pub fn bfd_down(&mut self, now: Time) {
        let established = self
            .connections
            .iter()
            .find(|connection| connection.is_established());
        if let Some(id) = established.map(|connection| connection.id) {
            self.fail(now, id, Notification::new(Notification::CEASE, 10));
        }
    }

    /// Processes expired timers.
    pub fn tick(&mut self, now: Time) {
        if let Some(attempt) = self.attempt.filter(|attempt| attempt.deadline <= now) {
            self.end(now, attempt.id, SessionError::Connect("no response".to_owned()));
        }
        let is_expired =
            |connection: &&Connection| connection.hold_deadline.is_some_and(|deadline| deadline <= now);
        let expired: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(is_expired)
            .map(|expired| expired.id)
            .collect();
        for id in expired {
            self.fail(now, id, Notification::new(Notification::HOLD_TIMER, 0));
        }
        let is_due = |connection: &&Connection| connection.keepalive_due.is_some_and(|due| due <= now);
        let due: Vec<ConnectionId> = self.connections.iter().filter(is_due).map(|due| due.id).collect();
        for id in due {
            self.send_keepalive(now, id);
        }
        if self.connect_due.is_some_and(|due| due <= now) {
            self.connect_due = None;
            let id = self.new_id();
            self.attempt = Some(ConnectAttempt {
                id,
                deadline: now + CONNECT_TIMEOUT,
            });
            self.actions.push(Action::Connect(id));
        }
    }

    /// Returns the time of the next [`Peer::tick`].
    pub fn next_wake(&self) -> Option<Time> {
        let connections = self.connections.iter();
        let timers = connections.flat_map(|connection| [connection.hold_deadline, connection.keepalive_due]);
        let attempt = self.attempt.map(|attempt| attempt.deadline);
        timers.chain([attempt, self.connect_due]).flatten().min()
    }

    /// Returns the actions since the last call.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Returns the next UPDATE of the established session; `None` if the peer has all routes.
    pub fn next_update(&mut self, now: Time) -> Option<(ConnectionId, Vec<u8>)> {
        let connection = self
            .connections
            .iter_mut()
            .find(|connection| connection.is_established())?;
        let negotiated = connection.negotiated.as_ref()?;
        let batch = self
            .advertised
            .next_batch(|family| connection.next_hop(family).is_some());
        let bytes = match batch {
            Some(batch) => {
                let (bytes, count) = match &batch.attributes {
                    Some(attributes) => {
                        let next_hop = connection.next_hop(batch.family)?;
                        let context = &negotiated.context;
                        encode::announcement(&batch.prefixes, batch.family, attributes, next_hop, context)
                    }
                    None => encode::withdrawal(&batch.prefixes, batch.family),
                };
                self.advertised.sent(&batch, count);
                bytes
            }
            None => encode::end_of_routes(connection.initial_families.pop()?),
        };
        self.counters.updates_sent += 1;
        // An UPDATE restarts the keepalive timer, too (RFC 4271, section 8.2.2).
        let keepalive = negotiated.keepalive;
        connection.keepalive_due = keepalive.map(|period| now + keepalive_delay(&mut self.random, period));
        Some((connection.id, bytes))
    }

    /// Returns the state of the most advanced connection.
    pub fn state(&self) -> State {
        let of = |connection: &Connection| match connection.state {
            ConnectionState::OpenSent => State::OpenSent,
            ConnectionState::OpenConfirm => State::OpenConfirm,
            ConnectionState::Established => State::Established,
        };
        let connection = self.connections.iter().map(of).max();
        connection.unwrap_or(match (self.is_started, self.attempt) {
            (false, _) => State::Idle,
            (true, None) => State::Active,
            (true, Some(_)) => State::Connect,
        })
    }

    /// Returns the properties of the established session.
    pub fn established(&self, now: Time) -> Option<Established> {
        let connection = self
            .connections
            .iter()
            .find(|connection| connection.is_established())?;
        let negotiated = connection.negotiated.as_ref()?;
        let families = negotiated.families.iter().copied();
        Some(Established {
            duration: now.saturating_sub(connection.since),
            peer_as: negotiated.peer.autonomous_system,
            peer_identifier: negotiated.peer.identifier,
            hold: negotiated.hold,
            families: families
                .filter(|family| connection.next_hop(*family).is_some())
                .collect(),
            has_graceful_restart: negotiated.has_graceful_restart,
        })
    }

    /// Counters since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the reason of the last end of a connection.
    pub fn last_error(&self) -> Option<&SessionError> {
        self.last_error.as_ref()
    }

    /// Returns the desired and sent routes. Without an established session, the peer has none.
    pub fn advertised(&self) -> &Advertised {
        &self.advertised
    }

    fn open_connection(&mut self, now: Time, id: ConnectionId, initiator: Initiator, local: LocalAddresses) {
        self.connections.push(Connection::new(id, initiator, local, now));
        let is_restarted = now < self.restarted_until && self.counters.established == 0;
        let bytes = encode::open(&open(&self.settings, is_restarted));
        self.counters.opens_sent += 1;
        self.actions.push(Action::Send(id, bytes));
    }

    /// Processes a message of a connection by the state of the connection.
    fn process(&mut self, now: Time, id: ConnectionId, message: Message) {
        let Some(connection) = self.connection(id) else {
            return;
        };
        match (connection.state, message) {
            (_, Message::Notification(notification)) => {
                self.counters.notifications_received += 1;
                self.end(now, id, SessionError::Received(notification));
            }
            (ConnectionState::OpenSent, Message::Open(open)) => self.process_open(now, id, open),
            (ConnectionState::OpenConfirm, Message::Keepalive) => {
                self.counters.keepalives_received += 1;
                self.establish(now, id);
            }
            (ConnectionState::Established, Message::Keepalive) => {
                connection.restart_hold_timer(now);
                self.counters.keepalives_received += 1;
            }
            (ConnectionState::Established, Message::Update(update)) => {
                connection.restart_hold_timer(now);
                self.counters.updates_received += 1;
                self.counters.malformed_updates += u64::from(update.error.is_some());
                let count = u64::try_from(update.announced.len()).unwrap_or(u64::MAX);
                self.counters.prefixes_received = self.counters.prefixes_received.saturating_add(count);
            }
            (ConnectionState::Established, Message::RouteRefresh(family)) => {
                connection.restart_hold_timer(now);
                self.counters.route_refreshes_received += 1;
                if let Some(family) = family {
                    self.advertised.refresh(family);
                }
            }
            (state, _) => {
                // The subcodes of RFC 6608.
                let subcode = match state {
                    ConnectionState::OpenSent => 1,
                    ConnectionState::OpenConfirm => 2,
                    ConnectionState::Established => 3,
                };
                self.fail(now, id, Notification::new(Notification::STATE, subcode));
            }
        }
    }

    fn process_open(&mut self, now: Time, id: ConnectionId, peer: Open) {
        self.counters.opens_received += 1;
        let negotiated = match negotiate(&self.settings, peer) {
            Ok(negotiated) => negotiated,
            Err(notification) => return self.fail(now, id, notification),
        };
        if !self.wins_collision(now, id, &negotiated.peer) {
            return self.fail(
                now,
                id,
                Notification::new(Notification::CEASE, Notification::COLLISION),
            );
        }
        if let Some(connection) = self.connection(id) {
            connection.negotiated = Some(negotiated);
            connection.state = ConnectionState::OpenConfirm;
            connection.restart_hold_timer(now);
        }
        self.send_keepalive(now, id);
    }

    /// Resolves the collision with another connection, which it may end (RFC 4271, section 6.8).
    fn wins_collision(&mut self, now: Time, id: ConnectionId, peer: &Open) -> bool {
        let Some(connection) = self.connection(id) else {
            return false;
        };
        let initiator = connection.initiator;
        let other = self.connections.iter().find(|other| other.id != id);
        let Some((other, state)) = other.map(|other| (other.id, other.state)) else {
            return true;
        };
        match state {
            // The OPEN of the other one has not arrived yet.
            ConnectionState::OpenSent => true,
            ConnectionState::Established => false,
            ConnectionState::OpenConfirm => {
                let wins = initiator == collision_winner(&self.settings, peer);
                if wins {
                    self.fail(
                        now,
                        other,
                        Notification::new(Notification::CEASE, Notification::COLLISION),
                    );
                }
                wins
            }
        }
    }

    /// Makes a connection the established one, and ends the others (RFC 4271, section 6.8).
    fn establish(&mut self, now: Time, id: ConnectionId) {
        let others: Vec<ConnectionId> = self
            .connections
            .iter()
            .map(|other| other.id)
            .filter(|other| *other != id)
            .collect();
        for other in others {
            self.fail(
                now,
                other,
                Notification::new(Notification::CEASE, Notification::COLLISION),
            );
        }
        if let Some(attempt) = self.attempt.take() {
            self.actions.push(Action::Close(attempt.id));
        }
        self.connect_due = None;
        let Some(connection) = self.connections.iter_mut().find(|connection| connection.id == id) else {
            return;
        };
        connection.state = ConnectionState::Established;
        connection.since = now;
        connection.restart_hold_timer(now);
        let families = connection
            .negotiated
            .as_ref()
            .map(|negotiated| negotiated.families.clone());
        connection.initial_families = families.unwrap_or_default();
        self.advertised.reset();
        self.counters.established += 1;
        self.last_error = None;
    }

    fn send_keepalive(&mut self, now: Time, id: ConnectionId) {
        let Some(connection) = self.connections.iter_mut().find(|connection| connection.id == id) else {
            return;
        };
        let period = connection
            .negotiated
            .as_ref()
            .and_then(|negotiated| negotiated.keepalive);
        connection.keepalive_due = period.map(|period| now + keepalive_delay(&mut self.random, period));
        self.counters.keepalives_sent += 1;
        self.actions.push(Action::Send(id, encode::keepalive()));
    }

    fn send_notification(&mut self, id: ConnectionId, notification: &Notification) {
        self.counters.notifications_sent += 1;
        self.actions
            .push(Action::Send(id, encode::notification(notification)));
    }

    /// Ends a connection with a NOTIFICATION.
    fn fail(&mut self, now: Time, id: ConnectionId, notification: Notification) {
        self.send_notification(id, &notification);
        self.end(now, id, SessionError::Sent(notification));
    }

    /// Ends an attempt or a connection, and schedules the next attempt.
    fn end(&mut self, now: Time, id: ConnectionId, error: SessionError) {
        let is_attempt = self.attempt.take_if(|attempt| attempt.id == id).is_some();
        let Some(connection) = self.remove(id) else {
            if is_attempt {
                self.actions.push(Action::Close(id));
                self.record_failure(error);
                self.schedule(now);
            }
            return;
        };
        if connection.is_established() {
            self.advertised.reset();
            if now.saturating_sub(connection.since) >= STABLE_AFTER {
                self.failures = 0;
            }
        }
        let is_collision = matches!(
            &error,
            SessionError::Sent(notification) | SessionError::Received(notification)
                if (notification.code, notification.subcode) == (Notification::CEASE, Notification::COLLISION)
        );
        if !is_collision {
            self.record_failure(error);
        }
        self.schedule(now);
    }

    fn record_failure(&mut self, error: SessionError) {
        self.counters.failures += 1;
        self.failures = self.failures.saturating_add(1);
        self.last_error = Some(error);
    }

    /// Schedules the next attempt, unless another connection is under way.
    fn schedule(&mut self, now: Time) {
        let is_busy = self.attempt.is_some()
            || self.find(Initiator::Local).is_some()
            || self
                .connections
                .iter()
                .any(|other| other.state > ConnectionState::OpenSent);
        if !self.is_started || self.settings.is_passive || is_busy || self.connect_due.is_some() {
            return;
        }
        let exponent = self.failures.saturating_sub(1).min(BACK_OFF_EXPONENT_MAX);
        let delay = (FIRST_RETRY * 2_u32.pow(exponent)).min(self.settings.connect_retry);
        self.connect_due = Some(now + jittered(&mut self.random, delay));
    }

    fn new_id(&mut self) -> ConnectionId {
        self.next_id += 1;
        ConnectionId(self.next_id)
    }

    fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.id == id)
    }

    fn find(&self, initiator: Initiator) -> Option<ConnectionId> {
        let mut connections = self.connections.iter();
        let connection = connections.find(|connection| connection.initiator == initiator);
        connection.map(|connection| connection.id)
    }

    /// Removes a connection and closes it.
    fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let index = self
            .connections
            .iter()
            .position(|connection| connection.id == id)?;
        self.actions.push(Action::Close(id));
        Some(self.connections.remove(index))
    }
}

/// Returns the NOTIFICATION of a stop; `None` to close the connection without one.
fn stop_notification(connection: &Connection, reason: &Stop) -> Option<Notification> {
    let negotiated = connection.negotiated.as_ref();
    let keeps_routes = negotiated.is_some_and(|negotiated| negotiated.has_graceful_restart);
    let needs_hard_reset = negotiated.is_some_and(|negotiated| negotiated.has_notification_restart);
    let notification = match reason {
        Stop::Restart if keeps_routes => return None,
        Stop::Restart => return Some(Notification::cease(Notification::RESET, "")),
        Stop::SettingsChanged => return Some(Notification::cease(Notification::RESET, "settings changed")),
        Stop::Shutdown(text) => Notification::cease(Notification::SHUTDOWN, text),
        Stop::Deconfigured => Notification::new(Notification::CEASE, Notification::DECONFIGURED),
    };
    Some(if needs_hard_reset {
        notification.into_hard_reset()
    } else {
        notification
    })
}

/// Returns the delay of the next KEEPALIVE. Jitter does not shorten the minimum (RFC 4271, section 4.4).
fn keepalive_delay(random: &mut Rng, period: Duration) -> Duration {
    jittered(random, period).max(KEEPALIVE_MIN)
}

/// Shortens a duration by up to a quarter (RFC 4271, section 10).
fn jittered(random: &mut Rng, duration: Duration) -> Duration {
    duration.mul_f64(0.75 + 0.25 * random.f64())
}
