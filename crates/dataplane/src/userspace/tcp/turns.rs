//! A thread's turns: it waits for any of its sockets, and lets each go on as far as it can.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;

use super::connection::{Client, Dial, Found, Joined, Outcome, Search, Way};
use super::direction::BUFFER_BYTES;
use super::{Door, Hand, Request};

/// What the kernel tells at once.
const EVENTS_MAX: usize = 256;
/// Connections taken from one listener before others have their turn.
const ACCEPTS_MAX: usize = 64;
/// Pause after a connection could not be taken, for want of file descriptors or of places.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Connections that this thread may have more than another before it hands one over: that wakes the other.
const LOAD_SLACK: usize = 1;

/// Told when this thread is asked for something.
const REQUESTED: Token = Token(usize::MAX);
/// Set in the tokens of listeners. The others are a connection's number doubled, and one more for its endpoint.
const LISTENER: usize = 1 << (usize::BITS - 2);

/// What a thread has.
pub struct Turns {
    poll: Poll,
    /// Its number among all of them.
    index: usize,
    listeners: HashMap<usize, (TcpListener, Arc<Door>)>,
    connections: Slab<Connection>,
    /// When connections in the making are given up.
    deadlines: BTreeSet<(Instant, usize)>,
    /// What may go on without the kernel's word, once others had their turn.
    soon: Vec<(usize, Way)>,
    /// Listeners that are to be looked at again, and when.
    waiting: BTreeSet<usize>,
    look_at: Option<Instant>,
    buffer: Box<[u8]>,
}

/// A connection in a thread's care.
enum Connection {
    /// An endpoint is asked until then.
    Asked(Dial, Instant),
    /// Both sides are joined.
    Joined(Care),
}

/// A joined connection.
struct Care {
    joined: Box<Joined>,
    /// Whether the kernel tells when a side takes more.
    tells_client: bool,
    tells_endpoint: bool,
    /// Which ways are among those that go on soon.
    is_soon: [bool; 2],
}

impl Turns {
    /// The state of a thread to be, and what wakes it.
    pub fn new(index: usize) -> io::Result<(Self, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), REQUESTED)?;
        let this = Self {
            poll,
            index,
            listeners: HashMap::new(),
            connections: Slab::new(),
            deadlines: BTreeSet::new(),
            soon: Vec::new(),
            waiting: BTreeSet::new(),
            look_at: None,
            buffer: vec![0; BUFFER_BYTES].into(),
        };
        Ok((this, waker))
    }

    /// Works until it is asked to end.
    pub fn run(mut self, hands: &[Hand]) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        loop {
            match self.poll.poll(&mut events, self.timeout()) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    tracing::error!(%error, "a thread of the userspace mode cannot wait for its sockets");
                    std::thread::sleep(ACCEPT_PAUSE);
                }
                _ => {}
            }
            for event in &events {
                match event.token() {
                    REQUESTED => {
                        for request in hands.get(self.index).map(Hand::take_requests).unwrap_or_default() {
                            if matches!(request, Request::End) {
                                return;
                            }
                            self.take_request(request);
                        }
                    }
                    Token(token) if token & LISTENER != 0 => self.accept(token & !LISTENER, hands),
                    Token(token) => self.go_on(token, event),
                }
            }
            self.pump_again();
            self.look_again(hands);
            self.give_up_late();
            if let Some(hand) = hands.get(self.index) {
                hand.load.store(self.connections.len(), Ordering::Relaxed);
            }
        }
    }

    /// How long there is nothing to do without the kernel's word.
    fn timeout(&self) -> Option<Duration> {
        if !self.soon.is_empty() {
            return Some(Duration::ZERO);
        }
        let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
        let next = deadline.into_iter().chain(self.look_at).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn take_request(&mut self, request: Request) {
        match request {
            Request::Listen(number, listener, door) => {
                let mut listener = TcpListener::from_std(listener);
                let token = Token(number | LISTENER);
                let registered = self
                    .poll
                    .registry()
                    .register(&mut listener, token, Interest::READABLE);
                if let Err(error) = registered {
                    tracing::error!(%error, address = %door.address, "connections cannot be taken");
                }
                self.listeners.insert(number, (listener, door));
            }
            Request::Close(number) => {
                if let Some((listener, door)) = self.listeners.remove(&number) {
                    self.take_waiting(&listener, &door);
                }
            }
            Request::Serve(client) => self.serve(client),
            Request::End => {}
        }
    }

    /// Takes connections, as long as there is room for them.
    fn accept(&mut self, number: usize, hands: &[Hand]) {
        let Some((listener, door)) = self.listeners.get(&number) else {
            return;
        };
        let mut taken = Vec::new();
        let pause = loop {
            if taken.len() >= ACCEPTS_MAX {
                break Some(Duration::ZERO);
            }
            match take(listener, door) {
                Ok(Some(client)) => taken.push(client),
                Ok(None) => break None,
                Err(error) => {
                    tracing::debug!(%error, "a connection is not taken yet");
                    break Some(ACCEPT_PAUSE);
                }
            }
        };
        if let Some(pause) = pause {
            self.waiting.insert(number);
            self.look_at = Some(Instant::now() + pause);
        }
        for client in taken {
            match self.less_loaded(hands) {
                Some(other) => other.ask(Request::Serve(client)),
                None => self.serve(client),
            }
        }
    }

    /// Takes the connections that wait at a listener that goes: their clients hold them for open.
    fn take_waiting(&mut self, listener: &TcpListener, door: &Arc<Door>) {
        loop {
            match take(listener, door) {
                Ok(Some(client)) => self.serve(client),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "connections that waited for a Service that goes are reset");
                    return;
                }
            }
        }
    }

    /// Another thread that has fewer connections.
    fn less_loaded<'h>(&self, hands: &'h [Hand]) -> Option<&'h Hand> {
        let least = hands
            .iter()
            .enumerate()
            .min_by_key(|(index, hand)| match *index == self.index {
                true => self.connections.len(),
                false => hand.load() + LOAD_SLACK,
            });
        let (index, hand) = least?;
        (index != self.index).then(|| {
            hand.load.fetch_add(1, Ordering::Relaxed);
            hand
        })
    }

    /// Looks for an endpoint for a client.
    fn serve(&mut self, client: Client) {
        if client.is_redirected() {
            self.place(Search::new(client).go_on(Instant::now()));
        } else {
            client.refuse();
        }
    }

    /// Takes a connection into care, as far as it got.
    fn place(&mut self, found: Found) {
        let number = self.connections.vacant_key();
        match found {
            Found::Joined(joined) => {
                self.connections.insert(Connection::Joined(Care {
                    joined,
                    tells_client: false,
                    tells_endpoint: false,
                    is_soon: [false; 2],
                }));
                self.begin(number);
            }
            Found::Asked(mut dial, until) => {
                let interest = Interest::READABLE | Interest::WRITABLE;
                let token = Token(number * 2 + 1);
                match self.poll.registry().register(&mut dial.stream, token, interest) {
                    Ok(()) => {
                        self.deadlines.insert((until, number));
                        self.connections.insert(Connection::Asked(dial, until));
                    }
                    Err(error) => cannot_wait(&error),
                }
            }
            Found::Nobody => {}
        }
    }

    /// Passes on what the client has most likely said already, and has the kernel tell of both from then on: of new
    /// sockets it tells at once what there is.
    fn begin(&mut self, number: usize) {
        self.pump(number, Way::Up);
        let Some(Connection::Joined(care)) = self.connections.get_mut(number) else {
            return;
        };
        let registry = self.poll.registry();
        let (client, endpoint) = tokens(number);
        let joined = &mut care.joined;
        joined.acknowledge();
        let registered = registry
            .register(&mut joined.client, client, Interest::READABLE)
            .and_then(|()| registry.register(&mut joined.endpoint, endpoint, interest(care.tells_endpoint)));
        if let Err(error) = registered {
            cannot_wait(&error);
            self.connections.remove(number);
        }
    }

    /// Goes on with a connection of which the kernel has told something.
    fn go_on(&mut self, token: usize, event: &Event) {
        let number = token / 2;
        let (speaks, hears) = match token % 2 {
            0 => (Way::Up, Way::Down),
            _ => (Way::Down, Way::Up),
        };
        match self.connections.get_mut(number) {
            None => {}
            Some(Connection::Asked(..)) => self.look(number, Dial::look),
            Some(Connection::Joined(care)) => {
                if event.is_read_closed() {
                    care.joined.note_end(speaks);
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.pump(number, speaks);
                }
                if event.is_writable() {
                    self.pump(number, hears);
                }
            }
        }
    }

    /// Goes on with a connection in the making.
    fn look(&mut self, number: usize, how: fn(Dial, Instant) -> Found) {
        if let Some(Connection::Asked(mut dial, until)) = self.connections.try_remove(number) {
            self.deadlines.remove(&(until, number));
            if let Err(error) = self.poll.registry().deregister(&mut dial.stream) {
                tracing::debug!(%error, "a socket is still waited for");
            }
            self.place(how(dial, Instant::now()));
        }
    }

    /// Passes on one direction of a connection.
    fn pump(&mut self, number: usize, way: Way) {
        let Some(Connection::Joined(care)) = self.connections.get_mut(number) else {
            return;
        };
        if care.is_soon[way as usize] {
            return;
        }
        match care.joined.pump(way, &mut self.buffer) {
            Outcome::Later => {}
            Outcome::Soon => {
                care.is_soon[way as usize] = true;
                self.soon.push((number, way));
            }
            Outcome::WhenWritable => self.tell_when_writable(number, way),
            Outcome::Over => {
                self.connections.remove(number);
            }
        }
    }

    /// Goes on with those that others have let go first.
    fn pump_again(&mut self) {
        for (number, way) in std::mem::take(&mut self.soon) {
            if let Some(Connection::Joined(care)) = self.connections.get_mut(number)
                && std::mem::take(&mut care.is_soon[way as usize])
            {
                self.pump(number, way);
            }
        }
    }

    /// Has the kernel tell from now on when the reader of a direction takes more.
    fn tell_when_writable(&mut self, number: usize, way: Way) {
        let Some(Connection::Joined(care)) = self.connections.get_mut(number) else {
            return;
        };
        let (client, endpoint) = tokens(number);
        let (stream, token, is_told) = match way {
            Way::Up => (&mut care.joined.endpoint, endpoint, &mut care.tells_endpoint),
            Way::Down => (&mut care.joined.client, client, &mut care.tells_client),
        };
        if std::mem::replace(is_told, true) {
            return;
        }
        match self.poll.registry().reregister(stream, token, interest(true)) {
            // It is registered when it begins.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                cannot_wait(&error);
                self.connections.remove(number);
            }
            _ => {}
        }
    }

    /// Looks again at listeners where connections could not be taken.
    fn look_again(&mut self, hands: &[Hand]) {
        if self.look_at.is_some_and(|at| at <= Instant::now()) {
            self.look_at = None;
            for number in std::mem::take(&mut self.waiting) {
                self.accept(number, hands);
            }
        }
    }

    /// Asks other endpoints in the place of those that have not answered in time.
    fn give_up_late(&mut self) {
        while let Some((deadline, number)) = self.deadlines.first().copied()
            && deadline <= Instant::now()
        {
            self.deadlines.pop_first();
            self.look(number, Dial::time_out);
        }
    }
}

/// The tokens of a connection's client and endpoint.
const fn tokens(number: usize) -> (Token, Token) {
    (Token(number * 2), Token(number * 2 + 1))
}

fn interest(tells_when_writable: bool) -> Interest {
    match tells_when_writable {
        true => Interest::READABLE | Interest::WRITABLE,
        false => Interest::READABLE,
    }
}

/// Takes a connection. `None` if none waits; an error if there is no room, or no file descriptor.
fn take(listener: &TcpListener, door: &Arc<Door>) -> io::Result<Option<Client>> {
    loop {
        let Ok(permit) = door.open.clone().try_acquire_owned() else {
            return Err(io::Error::other("as many connections are open as may be"));
        };
        match listener.accept() {
            Ok((stream, address)) => {
                return Ok(Some(Client {
                    stream,
                    address,
                    door: door.clone(),
                    permit,
                }));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
}

fn cannot_wait(error: &io::Error) {
    tracing::error!(%error, "a connection cannot be waited for");
}
