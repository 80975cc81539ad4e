//! Session with one peer: a task around the state machine.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bgp::Time;
use bgp::routes::Routes;
use bgp::session::{Action, ConnectionId, Peer, PeerSettings, State, Stop};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::connection::{self, ConnectionEvent, MESSAGES_QUEUED_MAX, Outgoing, Reports};
use super::sockets::{self, SocketOptions};
use crate::report::SessionReport;

/// Capacity of the queue of connection events; a peer that floods waits.
const EVENTS_QUEUED_MAX: usize = 16;
/// Capacity of the queue of accepted connections.
const ACCEPTED_QUEUED_MAX: usize = 2;
/// Space in the queue of messages that UPDATEs leave to other messages.
const RESERVED_MESSAGES: usize = 16;
/// Time for the connections of a stopped session to send their last messages.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the last routes of a session that ends for a successor.
const LAST_ROUTES_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest sleep while no timer runs.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);

/// Settings of a session task; a change needs a new session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionSettings {
    pub(super) peer: PeerSettings,
    pub(super) socket: SocketOptions,
}

/// Handle of a session task.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) settings: SessionSettings,
    routes: watch::Sender<Arc<Routes>>,
    accepted: mpsc::Sender<TcpStream>,
    stop: watch::Sender<Option<Stop>>,
    bfd_losses: watch::Sender<u64>,
    task: JoinHandle<()>,
}

impl Session {
    /// Starts a session.
    pub(super) fn start(settings: SessionSettings, start: Instant, report: Arc<SessionReport>) -> Self {
        let (routes, desired) = watch::channel(Arc::default());
        let (accepted, incoming) = mpsc::channel(ACCEPTED_QUEUED_MAX);
        let (stop, stopped) = watch::channel(None);
        let (bfd_losses, bfd) = watch::channel(0);
        let (events, received) = mpsc::channel(EVENTS_QUEUED_MAX);
        let now = start.elapsed();
        let task = Task {
            start,
            peer: Peer::new(settings.peer.clone(), fastrand::u64(..), now),
            socket: settings.socket.clone(),
            send_timeout: connection::send_timeout(settings.peer.hold_seconds),
            outgoing: HashMap::new(),
            connections: JoinSet::new(),
            events,
            report,
            state: State::Idle,
        };
        Self {
            settings,
            routes,
            accepted,
            stop,
            bfd_losses,
            task: tokio::spawn(task.run(Inputs {
                desired,
                incoming,
                stopped,
                bfd,
                received,
            })),
        }
    }

    /// Replaces the routes to announce.
    pub(super) fn set_routes(&self, routes: &Routes) {
        self.routes.send_if_modified(|present| {
            let is_changed = **present != *routes;
            if is_changed {
                *present = Arc::new(routes.clone());
            }
            is_changed
        });
    }

    /// Ends the connection, because BFD lost the peer.
    pub(super) fn bfd_lost(&self) {
        self.bfd_losses.send_modify(|count| *count += 1);
    }

    /// Passes an accepted connection on. With a full queue the connection is closed.
    pub(super) fn accept(&self, stream: TcpStream) {
        if self.accepted.try_send(stream).is_err() {
            tracing::debug!(peer = %self.settings.socket.remote, "connection closed; another one waits");
        }
    }

    /// Returns true if a connection of this address may be one of the peer. `device` is the link or VRF to which the
    /// kernel bound the connection; the same address in another VRF is another peer.
    pub(super) fn accepts_connection_from(&self, address: IpAddr, device: Option<&str>) -> bool {
        let socket = &self.settings.socket;
        if let Some(link) = &socket.link {
            // The kernel binds a connection between link-local addresses to its link.
            return device == Some(link.as_str()) && socket.remote.ip() == address;
        }
        let is_in_vrf = socket.vrf.as_deref().is_none_or(|vrf| device == Some(vrf));
        is_in_vrf && socket.remote.ip() == address
    }

    /// Ends the session, and waits until its last messages are sent, up to a bound.
    pub(super) async fn stop(mut self, reason: Stop) {
        self.stop.send_replace(Some(reason));
        if timeout(STOP_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
            tracing::debug!("connections of the session not closed in time");
        }
    }
}

/// Inputs of a session task.
struct Inputs {
    desired: watch::Receiver<Arc<Routes>>,
    incoming: mpsc::Receiver<TcpStream>,
    stopped: watch::Receiver<Option<Stop>>,
    bfd: watch::Receiver<u64>,
    received: mpsc::Receiver<(ConnectionId, ConnectionEvent)>,
}

/// State of a session task.
struct Task {
    start: Instant,
    peer: Peer,
    socket: SocketOptions,
    /// Time for the peer to read one message.
    send_timeout: Duration,
    outgoing: HashMap<ConnectionId, Outgoing>,
    connections: JoinSet<()>,
    events: mpsc::Sender<(ConnectionId, ConnectionEvent)>,
    report: Arc<SessionReport>,
    state: State,
}

impl Task {
    async fn run(mut self, mut inputs: Inputs) {
        self.peer.start(self.now());
        loop {
            self.perform_actions();
            let wake = self.start + self.peer.next_wake().unwrap_or(self.now() + SLEEP_MAX);
            tokio::select! {
                biased;
                _ = inputs.stopped.changed() => break,
                Some((id, event)) = inputs.received.recv() => self.process(id, event),
                Ok(()) = inputs.desired.changed() => {
                    let routes = Arc::clone(&inputs.desired.borrow_and_update());
                    self.set_routes(&routes);
                }
                Some(stream) = inputs.incoming.recv() => self.accept(stream),
                Ok(()) = inputs.bfd.changed() => {
                    self.peer.bfd_down(self.now());
                }
                () = sleep_until(wake) => {}
                () = writable(&self.outgoing) => {}
                Some(_) = self.connections.join_next() => {}
            }
            self.peer.tick(self.now());
        }
        let reason = inputs.stopped.borrow().clone().unwrap_or(Stop::Restart);
        if reason == Stop::Restart {
            let routes = Arc::clone(&inputs.desired.borrow_and_update());
            self.send_last_routes(&routes).await;
        }
        self.peer.stop(&reason);
        self.perform_actions();
        drop(inputs);
        self.outgoing.clear();
        while self.connections.join_next().await.is_some() {}
    }

    fn now(&self) -> Time {
        self.start.elapsed()
    }

    fn set_routes(&mut self, routes: &Routes) {
        let excess = self.peer.set_routes(routes.clone());
        if excess > 0 {
            tracing::error!(peer = %self.socket.remote, excess, "routes left out; there are too many");
        }
    }

    fn accept(&mut self, stream: TcpStream) {
        let prepared = stream
            .local_addr()
            .and_then(|local| sockets::local_addresses(local.ip(), &self.socket))
            .and_then(|local| sockets::prepare_accepted(&stream, &self.socket).map(|()| local));
        let local = match prepared {
            Ok(local) => local,
            Err(error) => {
                tracing::debug!(peer = %self.socket.remote, %error, "accepted connection closed");
                return;
            }
        };
        let now = self.now();
        if let Some(id) = self.peer.accepted(now, local) {
            let (outgoing, messages) = mpsc::channel(MESSAGES_QUEUED_MAX);
            let reports = self.reports(id);
            self.outgoing.insert(id, outgoing);
            self.connections
                .spawn(connection::serve(stream, messages, reports, self.send_timeout));
        }
    }

    fn reports(&self, id: ConnectionId) -> Reports {
        Reports {
            id,
            events: self.events.clone(),
        }
    }

    fn process(&mut self, id: ConnectionId, event: ConnectionEvent) {
        let now = self.now();
        match event {
            ConnectionEvent::Connected(local) => self.peer.connected(now, id, local),
            ConnectionEvent::Received(bytes) => self.peer.received(now, id, &bytes),
            ConnectionEvent::Closed(reason) => self.peer.closed(now, id, &reason),
        }
    }

    /// Performs the actions of the state machine, and sends UPDATEs while the queue has space.
    fn perform_actions(&mut self) {
        self.perform_all();
        self.send_updates();
        // A connection whose peer does not read was closed.
        self.perform_all();
        let state = self.peer.state();
        if std::mem::replace(&mut self.state, state) != state
            && (state == State::Established || self.was_lost(state))
        {
            let error = self
                .peer
                .last_error()
                .map(ToString::to_string)
                .unwrap_or_default();
            tracing::info!(peer = %self.socket.remote, %state, error, "BGP session changed");
        }
        self.report.update(&self.peer, self.now());
    }

    fn perform_all(&mut self) {
        for action in self.peer.take_actions() {
            self.perform(action);
        }
    }

    fn was_lost(&self, state: State) -> bool {
        state < State::OpenSent && self.peer.last_error().is_some()
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Connect(id) => {
                let (outgoing, messages) = mpsc::channel(MESSAGES_QUEUED_MAX);
                let reports = self.reports(id);
                self.outgoing.insert(id, outgoing);
                let socket = self.socket.clone();
                self.connections
                    .spawn(connection::connect(socket, messages, reports, self.send_timeout));
            }
            Action::Send(id, bytes) => {
                let Some(outgoing) = self.outgoing.get(&id) else {
                    return;
                };
                if outgoing.try_send(bytes).is_err() {
                    let now = self.now();
                    self.outgoing.remove(&id);
                    self.peer.closed(now, id, "the peer does not read");
                }
            }
            Action::Close(id) => {
                self.outgoing.remove(&id);
            }
        }
    }

    /// Sends UPDATEs while the queue has space.
    fn send_updates(&mut self) {
        let now = self.now();
        while self.has_space() {
            let Some((id, bytes)) = self.peer.next_update(now) else {
                return;
            };
            self.perform(Action::Send(id, bytes));
        }
    }

    /// Sends the last change of the routes, up to a bound: the peer keeps its routes until the successor connects.
    async fn send_last_routes(&mut self, routes: &Routes) {
        self.set_routes(routes);
        self.perform_actions();
        let sent = async {
            while !self.has_space() {
                writable(&self.outgoing).await;
                self.perform_actions();
            }
        };
        if timeout(LAST_ROUTES_TIMEOUT, sent).await.is_err() {
            tracing::warn!(peer = %self.socket.remote, "last routes not sent in time");
        }
    }

    fn has_space(&self) -> bool {
        let mut queues = self.outgoing.values();
        queues.all(|outgoing| outgoing.capacity() > RESERVED_MESSAGES)
    }
}

/// Resolves when a full queue has space again; never without a full queue. Cancel safe.
async fn writable(outgoing: &HashMap<ConnectionId, Outgoing>) {
    let full = outgoing
        .values()
        .find(|outgoing| outgoing.capacity() <= RESERVED_MESSAGES);
    // An error means that the connection ends, which its task reports.
    if let Some(outgoing) = full
        && let Ok(permits) = outgoing.reserve_many(RESERVED_MESSAGES + 1).await
    {
        drop(permits);
        return;
    }
    std::future::pending().await
}
