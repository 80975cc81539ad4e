//! Event loop of a worker: it waits for all sockets and advances each one as far as possible.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;

use super::connecting::{Client, EndpointSearch, PendingConnect, SearchResult};
use super::listener::{AcceptOutcome, SharedListener};
use super::outbound_sockets::OutboundSockets;
use super::pump::BUFFER_BYTES;
use super::rebalance::{ConnectionId, Report, Round};
use super::relay::{Direction, Relay, RelayProgress};
use super::{Request, ResetReason, WorkerHandle};

/// Events that one call of `epoll_wait` returns at most.
const EVENTS_MAX: usize = 256;
/// Pause after accept failed for lack of file descriptors or permits.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Events after which a connection counts as long-lived: more than a request with its response causes.
const LONG_LIVED_EVENTS: u32 = 16;
/// A connection moves if this worker has more long-lived ones than another, by this tolerance and a quarter of its
/// own.
const LOAD_TOLERANCE: usize = 1;

/// Period of the checks of ages: the maximum delay of a reset.
const AGE_CHECK_PERIOD: Duration = Duration::from_secs(5);
/// Maximum number of connections that one pass of a worker ends because of their age or a scale-out: their clients
/// connect again at once.
const ENDED_PER_PASS_MAX: usize = 2_048;
/// Time until the next pass, if connections remain.
const PASS_PAUSE: Duration = Duration::from_secs(1);

/// Bit in the tokens of listeners. A client has twice the number of its connection as token; an endpoint has twice
/// its file descriptor plus one ([`OutboundSockets`]).
const LISTENER_BIT: usize = 1 << (usize::BITS - 2);
/// Token of the waker, which announces a request.
const WAKER_TOKEN: Token = Token(usize::MAX);

/// State of a worker.
pub(super) struct EventLoop {
    poll: Poll,
    /// Index of this worker.
    index: usize,
    listeners: HashMap<usize, Arc<SharedListener>>,
    connections: Slab<Connection>,
    outbound_sockets: OutboundSockets,
    /// Number of long-lived connections.
    long_lived: usize,
    /// Deadlines of pending connection attempts.
    deadlines: BTreeSet<(Instant, usize)>,
    /// Directions to continue without an event, after other connections had their share.
    yielded: Vec<(usize, Direction)>,
    /// Listeners to register again, and the time for it.
    paused_listeners: BTreeSet<usize>,
    resume_at: Option<Instant>,
    /// Time of the next check of ages; `None` if no connection has a maximum age.
    age_check_at: Option<Instant>,
    /// Connections to end because of their age or a scale-out, and the time of the next pass.
    ending: VecDeque<(ConnectionId, ResetReason)>,
    end_at: Option<Instant>,
    buffer: Box<[u8]>,
}

/// A connection of this worker.
enum Connection {
    /// A connection attempt with its deadline.
    Connecting(Box<PendingConnect>, Instant),
    /// A relay between client and endpoint.
    Established(TrackedRelay),
}

/// A relay with its scheduling state.
struct TrackedRelay {
    relay: Box<Relay>,
    /// True if the client is registered for writability.
    awaits_client_writable: bool,
    /// Directions that are in the list of yielded ones.
    is_yielded: [bool; 2],
    /// Number of events so far.
    events: u32,
}

impl TrackedRelay {
    /// Creates the state of a relay with this number of past events.
    fn new(relay: Box<Relay>, events: u32) -> Self {
        Self {
            relay,
            awaits_client_writable: false,
            is_yielded: [false; 2],
            events,
        }
    }
}

impl EventLoop {
    /// Creates the state of a worker, and its waker.
    pub(super) fn new(index: usize) -> io::Result<(Self, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER_TOKEN)?;
        let this = Self {
            poll,
            index,
            listeners: HashMap::new(),
            connections: Slab::new(),
            outbound_sockets: OutboundSockets::default(),
            long_lived: 0,
            deadlines: BTreeSet::new(),
            yielded: Vec::new(),
            paused_listeners: BTreeSet::new(),
            resume_at: None,
            age_check_at: None,
            ending: VecDeque::new(),
            end_at: None,
            buffer: vec![0; BUFFER_BYTES].into(),
        };
        Ok((this, waker))
    }

    /// Runs until a stop request.
    pub(super) fn run(mut self, workers: &[WorkerHandle]) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            match self.poll.poll(&mut events, self.timeout()) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    tracing::error!(%error, "epoll wait failed in userspace mode");
                    std::thread::sleep(ACCEPT_PAUSE);
                }
                _ => {}
            }
            self.outbound_sockets.next_poll();
            for event in events.iter().filter(|event| event.token().0 & LISTENER_BIT == 0) {
                self.handle_event(event, workers);
            }
            // Listeners come last, so that a new connection cannot get the number of one that still has events in
            // this batch.
            for event in events.iter().filter(|event| event.token().0 & LISTENER_BIT != 0) {
                match event.token() {
                    WAKER_TOKEN => {
                        if self.handle_requests(workers) {
                            return;
                        }
                    }
                    Token(token) => self.accept(token & !LISTENER_BIT),
                }
            }
            self.resume_yielded();
            self.resume_listeners();
            self.time_out_connects();
            self.queue_aged();
            if let Some(worker) = workers.get(self.index) {
                self.end_queued(worker);
                worker.load.store(self.long_lived, Ordering::Relaxed);
            }
        }
    }

    /// Returns the time until work is due without an event.
    fn timeout(&self) -> Option<Duration> {
        if !self.yielded.is_empty() {
            return Some(Duration::ZERO);
        }
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        let others = [self.resume_at, self.age_check_at, self.end_at];
        let next = deadline.into_iter().chain(others.into_iter().flatten()).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Handles the waiting requests. Returns true if one of them is a stop request.
    fn handle_requests(&mut self, workers: &[WorkerHandle]) -> bool {
        let worker = workers.get(self.index);
        for request in worker.map(WorkerHandle::take_requests).unwrap_or_default() {
            match request {
                Request::Stop => return true,
                Request::End(endpoints) => {
                    let ended = self.end_connections(|relay| {
                        let address = relay.endpoint.address().ip();
                        endpoints.contains(&(relay.accepted.service.clone(), address))
                    });
                    count_ended(worker, ResetReason::Lost, ended);
                }
                Request::EndDrained(endpoints) => {
                    let ended = self.end_connections(|relay| {
                        let address = relay.endpoint.address();
                        endpoints.contains(&(relay.accepted.service.clone(), address))
                    });
                    count_ended(worker, ResetReason::Drain, ended);
                }
                Request::Report(round) => {
                    send_excess(round.take(self.report(&round)), workers);
                }
                request => self.handle_request(request),
            }
        }
        false
    }

    fn handle_request(&mut self, request: Request) {
        match request {
            Request::Listen(number, listener) => {
                self.register_listener(number, &listener);
                self.listeners.insert(number, listener);
            }
            Request::Close(number) => {
                if let Some(listener) = self.listeners.remove(&number) {
                    self.deregister_listener(&listener);
                    self.accept_backlog(&listener);
                }
            }
            Request::Adopt(relay) => {
                self.long_lived += 1;
                self.start_relay(TrackedRelay::new(relay, LONG_LIVED_EVENTS));
            }
            Request::CheckAges(is_needed) => {
                self.age_check_at = is_needed.then(|| Instant::now() + AGE_CHECK_PERIOD);
            }
            Request::EndExcess(connections) => {
                let excess = connections.into_iter().map(|id| (id, ResetReason::Rebalance));
                self.ending.extend(excess);
                self.end_at.get_or_insert_with(Instant::now);
            }
            Request::End(_) | Request::EndDrained(_) | Request::Report(_) | Request::Stop => {}
        }
    }

    /// Returns the connections that a distribution concerns.
    fn report(&self, round: &Round) -> Report {
        let mut report = Report::default();
        for (id, tracked) in self.relays() {
            let relay = &tracked.relay;
            round.add(
                &mut report,
                &relay.accepted.lifetime,
                id,
                relay.endpoint.address(),
            );
        }
        report
    }

    /// Queues the connections that reached their maximum age, when a check is due.
    fn queue_aged(&mut self) {
        let Some(at) = self.age_check_at else { return };
        let now = Instant::now();
        if at > now {
            return;
        }
        self.age_check_at = Some(now + AGE_CHECK_PERIOD);
        if self.ending.is_empty() {
            let aged = self.relays();
            let aged = aged.filter(|(_, tracked)| tracked.relay.accepted.lifetime.is_over(now));
            self.ending = aged.map(|(id, _)| (id, ResetReason::Age)).collect();
            self.end_at = (!self.ending.is_empty()).then_some(now);
        }
    }

    /// Resets queued connections, when a pass is due.
    fn end_queued(&mut self, worker: &WorkerHandle) {
        if self.end_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        for _ in 0..ENDED_PER_PASS_MAX {
            let Some((id, reason)) = self.ending.pop_front() else {
                break;
            };
            if self.is_open(id) {
                self.end_relay(id.number, RelayProgress::Broken);
                worker.count_ended(reason, 1);
            }
        }
        self.end_at = (!self.ending.is_empty()).then(|| Instant::now() + PASS_PAUSE);
    }

    /// Returns true if a connection has neither ended nor moved to another worker.
    fn is_open(&self, id: ConnectionId) -> bool {
        match self.connections.get(id.number) {
            Some(Connection::Established(tracked)) => {
                tracked.relay.accepted.lifetime.began_at() == id.began_at
            }
            Some(Connection::Connecting(..)) | None => false,
        }
    }

    /// Returns the relays of this worker.
    fn relays(&self) -> impl Iterator<Item = (ConnectionId, &TrackedRelay)> {
        let worker = self.index;
        let connections = self.connections.iter();
        connections.filter_map(move |(number, connection)| match connection {
            Connection::Established(tracked) => {
                let id = ConnectionId {
                    worker,
                    number,
                    began_at: tracked.relay.accepted.lifetime.began_at(),
                };
                Some((id, tracked))
            }
            Connection::Connecting(..) => None,
        })
    }

    /// Resets the connections for which `ends` returns true. Returns their number.
    fn end_connections(&mut self, ends: impl Fn(&Relay) -> bool) -> u64 {
        let ended: Vec<usize> = self
            .relays()
            .filter(|(_, tracked)| ends(&tracked.relay))
            .map(|(id, _)| id.number)
            .collect();
        for number in &ended {
            self.end_relay(*number, RelayProgress::Broken);
        }
        ended.len() as u64
    }

    /// Registers a listener for incoming connections.
    fn register_listener(&self, number: usize, listener: &SharedListener) {
        if let Err(error) = listener.register(self.poll.registry(), Token(number | LISTENER_BIT)) {
            tracing::error!(%error, address = %listener.address, "listener not registered");
        }
    }

    /// Deregisters a listener.
    fn deregister_listener(&self, listener: &SharedListener) {
        if let Err(error) = listener.deregister(self.poll.registry()) {
            tracing::debug!(%error, address = %listener.address, "listener not deregistered");
        }
    }

    /// Accepts one connection. The kernel reports further ones by another event; a second accept without need would
    /// make it allocate and free a socket.
    fn accept(&mut self, number: usize) {
        let Some(listener) = self.listeners.get(&number) else {
            return;
        };
        match listener.accept() {
            Ok(AcceptOutcome::Client(client)) => return self.connect_client(client),
            // Another worker may have accepted the connection first.
            Ok(AcceptOutcome::Refused | AcceptOutcome::None) => return,
            Ok(AcceptOutcome::NoPermit(refusal)) => tracing::debug!(%refusal, "connection waits"),
            Err(error) => {
                tracing::debug!(%error, "accept failed; retrying");
                // File descriptors may be exhausted.
                self.outbound_sockets.close_idle();
            }
        }
        self.deregister_listener(listener);
        self.paused_listeners.insert(number);
        self.resume_at = Some(Instant::now() + ACCEPT_PAUSE);
    }

    /// Accepts the backlog of a listener before it closes, because these clients are connected already.
    fn accept_backlog(&mut self, listener: &Arc<SharedListener>) {
        loop {
            match listener.accept() {
                Ok(AcceptOutcome::Client(client)) => self.connect_client(client),
                Ok(AcceptOutcome::Refused) => {}
                Ok(AcceptOutcome::None) => return,
                Ok(AcceptOutcome::NoPermit(refusal)) => return log_backlog(&refusal),
                Err(error) => return log_backlog(&error),
            }
        }
    }

    /// Searches an endpoint for a client.
    fn connect_client(&mut self, client: Client) {
        if client.is_redirected() {
            let found = EndpointSearch::new(client).try_next(
                Instant::now(),
                &mut self.outbound_sockets,
                &mut self.buffer,
            );
            self.track(found);
        } else {
            client.reset_on_drop();
        }
    }

    /// Stores a connection according to the result of its search.
    fn track(&mut self, found: SearchResult) {
        match found {
            SearchResult::Connected(relay) => self.start_relay(TrackedRelay::new(relay, 0)),
            SearchResult::Pending(mut connect, until) => {
                let number = self.connections.vacant_key();
                match connect.outbound.register(self.poll.registry(), interest(true)) {
                    Ok(()) => {
                        self.outbound_sockets.assign(&connect.outbound, number);
                        self.deadlines.insert((until, number));
                        self.connections.insert(Connection::Connecting(connect, until));
                    }
                    Err(error) => {
                        log_register(&error);
                        connect.reset_on_drop();
                    }
                }
            }
            SearchResult::Failed => {}
        }
    }

    /// Relays the data that is available, then registers both sockets. The kernel reports at once what is pending on
    /// newly registered sockets.
    fn start_relay(&mut self, tracked: TrackedRelay) {
        let is_new = tracked.events == 0;
        let has_sent_initial_data = is_new && tracked.relay.has_sent_initial_data();
        let number = self.connections.insert(Connection::Established(tracked));
        if !has_sent_initial_data {
            self.pump(number, Direction::Up);
        }
        if !is_new {
            self.pump(number, Direction::Down);
        }
        let Some(Connection::Established(tracked)) = self.connections.get_mut(number) else {
            return;
        };
        let registry = self.poll.registry();
        let relay = &mut tracked.relay;
        relay.acknowledge_handshake();
        self.outbound_sockets.assign(&relay.endpoint, number);
        let registered = registry
            .register(
                &mut relay.client,
                token(number),
                interest(tracked.awaits_client_writable),
            )
            .and_then(|()| {
                if relay.endpoint.is_registered() {
                    Ok(())
                } else {
                    relay.endpoint.register(registry, interest(false))
                }
            });
        if let Err(error) = registered {
            log_register(&error);
            self.end_relay(number, RelayProgress::Broken);
        }
    }

    /// Handles an event of a connection.
    fn handle_event(&mut self, event: &Event, workers: &[WorkerHandle]) {
        let number = event.token().0 / 2;
        let (number, outgoing, incoming) = match event.token().0 % 2 {
            0 => (Some(number), Direction::Up, Direction::Down),
            _ => (
                self.outbound_sockets.owner(number),
                Direction::Down,
                Direction::Up,
            ),
        };
        let Some(number) = number else { return };
        match self.connections.get_mut(number) {
            None => {}
            Some(Connection::Connecting(..)) => self.resume_connect(number, PendingConnect::check),
            Some(Connection::Established(tracked)) => {
                if event.is_read_closed() {
                    tracked.relay.pump_mut(outgoing).record_peer_closed();
                }
                if event.is_priority() || event.is_error() {
                    tracked.relay.pump_mut(outgoing).read_until_drained();
                }
                tracked.events = tracked.events.saturating_add(1);
                let becomes_long_lived = tracked.events == LONG_LIVED_EVENTS;
                self.long_lived += usize::from(becomes_long_lived);
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.pump(number, outgoing);
                }
                if event.is_writable() {
                    self.pump(number, incoming);
                }
                if becomes_long_lived && let Some(other) = self.less_loaded_worker(workers) {
                    self.move_relay(number, other);
                }
            }
        }
    }

    /// Returns another worker with fewer long-lived connections.
    fn less_loaded_worker<'h>(&self, workers: &'h [WorkerHandle]) -> Option<&'h WorkerHandle> {
        let others = workers
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != self.index);
        let (_, least) = others.min_by_key(|(_, worker)| worker.load())?;
        (self.long_lived > least.load() + LOAD_TOLERANCE + self.long_lived / 4).then_some(least)
    }

    /// Moves a connection to another worker.
    fn move_relay(&mut self, number: usize, other: &WorkerHandle) {
        let Some(Connection::Established(mut tracked)) = self.connections.try_remove(number) else {
            return;
        };
        let Relay { client, endpoint, .. } = &mut *tracked.relay;
        let registry = self.poll.registry();
        log_deregister(registry.deregister(client));
        log_deregister(endpoint.deregister(registry));
        self.outbound_sockets.unassign(endpoint);
        self.long_lived -= 1;
        other.load.fetch_add(1, Ordering::Relaxed);
        other.send(Request::Adopt(tracked.relay));
    }

    /// Ends a connection, and keeps its socket if that is reusable.
    fn end_relay(&mut self, number: usize, progress: RelayProgress) {
        let Some(Connection::Established(tracked)) = self.connections.try_remove(number) else {
            return;
        };
        if tracked.events >= LONG_LIVED_EVENTS {
            self.long_lived -= 1;
        }
        if progress == RelayProgress::Broken {
            tracked.relay.reset();
        } else if let Some(call) = tracked.relay.into_reusable_socket() {
            self.outbound_sockets.release(call, interest(false));
        }
    }

    /// Continues a connection attempt.
    fn resume_connect(
        &mut self,
        number: usize,
        how: fn(PendingConnect, Instant, &mut OutboundSockets, &mut [u8]) -> SearchResult,
    ) {
        if let Some(Connection::Connecting(mut connect, until)) = self.connections.try_remove(number) {
            self.deadlines.remove(&(until, number));
            // A later registration reports everything that is pending again.
            log_deregister(connect.outbound.deregister(self.poll.registry()));
            let found = how(
                *connect,
                Instant::now(),
                &mut self.outbound_sockets,
                &mut self.buffer,
            );
            self.track(found);
        }
    }

    /// Relays one direction of a connection.
    fn pump(&mut self, number: usize, direction: Direction) {
        let Some(Connection::Established(tracked)) = self.connections.get_mut(number) else {
            return;
        };
        if tracked.is_yielded[direction as usize] {
            return;
        }
        let progress = tracked.relay.pump(direction, &mut self.buffer);
        match progress {
            RelayProgress::AwaitReadable => {}
            RelayProgress::Yielded => {
                tracked.is_yielded[direction as usize] = true;
                self.yielded.push((number, direction));
            }
            RelayProgress::AwaitWritable => self.await_writable(number, direction),
            RelayProgress::Finished | RelayProgress::Broken => self.end_relay(number, progress),
        }
    }

    /// Continues the directions that yielded to others.
    fn resume_yielded(&mut self) {
        for (number, direction) in std::mem::take(&mut self.yielded) {
            if let Some(Connection::Established(tracked)) = self.connections.get_mut(number)
                && std::mem::take(&mut tracked.is_yielded[direction as usize])
            {
                self.pump(number, direction);
            }
        }
    }

    /// Registers the receiver of a direction for writability.
    fn await_writable(&mut self, number: usize, direction: Direction) {
        let Some(Connection::Established(tracked)) = self.connections.get_mut(number) else {
            return;
        };
        let registry = self.poll.registry();
        let registered = match direction {
            Direction::Up => tracked.relay.endpoint.register(registry, interest(true)),
            Direction::Down if tracked.awaits_client_writable => Ok(()),
            Direction::Down => {
                tracked.awaits_client_writable = true;
                registry.reregister(&mut tracked.relay.client, token(number), interest(true))
            }
        };
        match registered {
            // A client without registration is registered when its relay starts.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                log_register(&error);
                self.end_relay(number, RelayProgress::Broken);
            }
            _ => {}
        }
    }

    /// Registers the listeners again at which accept failed.
    fn resume_listeners(&mut self) {
        if self.resume_at.is_some_and(|at| at <= Instant::now()) {
            self.resume_at = None;
            for number in std::mem::take(&mut self.paused_listeners) {
                if let Some(listener) = self.listeners.get(&number) {
                    self.register_listener(number, listener);
                }
            }
        }
    }

    /// Tries other endpoints for attempts whose deadline has passed.
    fn time_out_connects(&mut self) {
        while let Some((deadline, number)) = self.deadlines.first().copied()
            && deadline <= Instant::now()
        {
            self.deadlines.pop_first();
            self.resume_connect(number, PendingConnect::time_out);
        }
    }
}

fn count_ended(worker: Option<&WorkerHandle>, reason: ResetReason, count: u64) {
    if let Some(worker) = worker {
        worker.count_ended(reason, count);
    }
}

/// Sends the connections to end to their workers.
fn send_excess(chosen: Vec<ConnectionId>, workers: &[WorkerHandle]) {
    let mut by_worker: BTreeMap<usize, Vec<ConnectionId>> = BTreeMap::new();
    for id in chosen {
        by_worker.entry(id.worker).or_default().push(id);
    }
    for (index, connections) in by_worker {
        if let Some(worker) = workers.get(index) {
            worker.send(Request::EndExcess(connections));
        }
    }
}

/// Returns the token of a client.
const fn token(number: usize) -> Token {
    Token(number * 2)
}

fn interest(awaits_writable: bool) -> Interest {
    let readable = Interest::READABLE | Interest::PRIORITY;
    if awaits_writable {
        readable | Interest::WRITABLE
    } else {
        readable
    }
}

fn log_deregister(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "socket not deregistered");
    }
}

fn log_register(error: &io::Error) {
    tracing::error!(%error, "connection not registered");
}

fn log_backlog(error: &dyn Display) {
    tracing::warn!(%error, "pending connections of a closed listener not accepted; the kernel resets them");
}
