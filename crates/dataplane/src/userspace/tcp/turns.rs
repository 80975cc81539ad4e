//! A thread's turns: it waits for any of its sockets, and lets each go on as far as it can.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;

use super::calls::Calls;
use super::connection::{Joined, Outcome, Way};
use super::direction::BUFFER_BYTES;
use super::door::Door;
use super::search::{Client, Dial, Found, Search};
use super::{Hand, Request};

/// What the kernel tells at once.
const EVENTS_MAX: usize = 256;
/// Pause after a connection could not be taken, for want of file descriptors or of places.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Turns after which a connection is one that lasts: more than a request and its answer take.
const LASTING_TURNS: u32 = 16;
/// A connection goes to another thread if this one has so many more that last than that, and a quarter of its own.
const LOAD_SLACK: usize = 1;

/// Set in the tokens of listeners. Those of clients are a connection's number doubled; those of endpoints the doubled
/// descriptor of the socket ([`Calls`]), and one more.
const LISTENER: usize = 1 << (usize::BITS - 2);
/// Told when this thread is asked for something.
const REQUESTED: Token = Token(usize::MAX);

/// What a thread has.
pub struct Turns {
    poll: Poll,
    /// Its number among all of them.
    index: usize,
    listeners: HashMap<usize, Arc<Door>>,
    connections: Slab<Connection>,
    calls: Calls,
    /// How many connections last.
    lasting: usize,
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
    Asked(Box<Dial>, Instant),
    /// Both sides are joined.
    Joined(Care),
}

/// A joined connection.
struct Care {
    joined: Box<Joined>,
    /// Whether the kernel tells when the client takes more.
    tells_client: bool,
    /// Which ways are among those that go on soon.
    is_soon: [bool; 2],
    /// How often the kernel has told something of it.
    turns: u32,
}

impl Care {
    /// Of a connection with so many turns behind it.
    fn of(joined: Box<Joined>, turns: u32) -> Self {
        Self {
            joined,
            tells_client: false,
            is_soon: [false; 2],
            turns,
        }
    }
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
            calls: Calls::default(),
            lasting: 0,
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
            self.calls.next_turn();
            for event in events.iter().filter(|event| event.token().0 & LISTENER == 0) {
                self.go_on(event, hands);
            }
            // What is new comes last, so that it does not get the number of a connection of which there is still news.
            for event in events.iter().filter(|event| event.token().0 & LISTENER != 0) {
                match event.token() {
                    REQUESTED => {
                        for request in hands.get(self.index).map(Hand::take_requests).unwrap_or_default() {
                            if matches!(request, Request::End) {
                                return;
                            }
                            self.take_request(request);
                        }
                    }
                    Token(token) => self.accept(token & !LISTENER),
                }
            }
            self.pump_again();
            self.look_again();
            self.give_up_late();
            if let Some(hand) = hands.get(self.index) {
                hand.load.store(self.lasting, Ordering::Relaxed);
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
            Request::Listen(number, door) => {
                self.wait_for_connections(number, &door);
                self.listeners.insert(number, door);
            }
            Request::Close(number) => {
                if let Some(door) = self.listeners.remove(&number) {
                    self.let_be(&door);
                    self.take_waiting(&door);
                }
            }
            Request::GoOn(joined) => {
                self.lasting += 1;
                self.begin(Care::of(joined, LASTING_TURNS));
            }
            Request::End => {}
        }
    }

    /// Has the kernel tell of connections that wait.
    fn wait_for_connections(&self, number: usize, door: &Door) {
        if let Err(error) = door.wait(self.poll.registry(), Token(number | LISTENER)) {
            tracing::error!(%error, address = %door.address, "connections cannot be taken");
        }
    }

    /// Has the kernel tell nothing more of a listener.
    fn let_be(&self, door: &Door) {
        if let Err(error) = door.let_be(self.poll.registry()) {
            tracing::debug!(%error, address = %door.address, "a listener was not waited for");
        }
    }

    /// Takes a connection if there is room for it. The kernel tells again if there are more; to ask for one that is not there
    /// would have it make a socket and take that down again.
    fn accept(&mut self, number: usize) {
        let Some(door) = self.listeners.get(&number) else {
            return;
        };
        match door.take() {
            Ok(Some(client)) => self.serve(client),
            // Another thread was quicker.
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, "a connection is not taken yet");
                // It may be descriptors that are short.
                self.calls.close_spare();
                self.let_be(door);
                self.waiting.insert(number);
                self.look_at = Some(Instant::now() + ACCEPT_PAUSE);
            }
        }
    }

    /// Takes the connections that wait at a listener that goes: their clients hold them for open.
    fn take_waiting(&mut self, door: &Arc<Door>) {
        loop {
            match door.take() {
                Ok(Some(client)) => self.serve(client),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "connections that waited for a Service that goes are reset");
                    return;
                }
            }
        }
    }

    /// Looks for an endpoint for a client.
    fn serve(&mut self, client: Client) {
        if client.is_redirected() {
            let found = Search::new(client).go_on(Instant::now(), &mut self.calls, &mut self.buffer);
            self.place(found);
        } else {
            client.refuse();
        }
    }

    /// Takes a connection into care, as far as it got.
    fn place(&mut self, found: Found) {
        match found {
            Found::Joined(joined) => self.begin(Care::of(joined, 0)),
            Found::Asked(mut dial, until) => {
                let number = self.connections.vacant_key();
                match dial.call.wait_for(self.poll.registry(), interest(true)) {
                    Ok(()) => {
                        self.calls.assign(&dial.call, number);
                        self.deadlines.insert((until, number));
                        self.connections.insert(Connection::Asked(dial, until));
                    }
                    Err(error) => {
                        cannot_wait(&error);
                        dial.refuse();
                    }
                }
            }
            Found::Nobody => {}
        }
    }

    /// Passes on what the client has most likely said by now, and has the kernel tell of both from then on: of new
    /// sockets it tells at once what there is.
    fn begin(&mut self, care: Care) {
        let is_new = care.turns == 0;
        let is_greeted = is_new && care.joined.is_greeted();
        let number = self.connections.insert(Connection::Joined(care));
        if !is_greeted {
            self.pump(number, Way::Up);
        }
        if !is_new {
            self.pump(number, Way::Down);
        }
        let Some(Connection::Joined(care)) = self.connections.get_mut(number) else {
            return;
        };
        let registry = self.poll.registry();
        let joined = &mut care.joined;
        joined.welcome();
        self.calls.assign(&joined.endpoint, number);
        let registered = registry
            .register(&mut joined.client, token(number), interest(care.tells_client))
            .and_then(|()| match joined.endpoint.is_waited_for() {
                true => Ok(()),
                false => joined.endpoint.wait_for(registry, interest(false)),
            });
        if let Err(error) = registered {
            cannot_wait(&error);
            self.end(number, Outcome::Broken);
        }
    }

    /// Goes on with a connection of which the kernel has told something.
    fn go_on(&mut self, event: &Event, hands: &[Hand]) {
        let number = event.token().0 / 2;
        let (number, speaks, hears) = match event.token().0 % 2 {
            0 => (Some(number), Way::Up, Way::Down),
            _ => (self.calls.user(number), Way::Down, Way::Up),
        };
        let Some(number) = number else { return };
        match self.connections.get_mut(number) {
            None => {}
            Some(Connection::Asked(..)) => self.look(number, Dial::look),
            Some(Connection::Joined(care)) => {
                if event.is_read_closed() {
                    care.joined.direction(speaks).note_end();
                }
                if event.is_priority() || event.is_error() {
                    care.joined.direction(speaks).read_on();
                }
                care.turns = care.turns.saturating_add(1);
                let lasts_from_now_on = care.turns == LASTING_TURNS;
                self.lasting += usize::from(lasts_from_now_on);
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    self.pump(number, speaks);
                }
                if event.is_writable() {
                    self.pump(number, hears);
                }
                if lasts_from_now_on && let Some(other) = self.less_loaded(hands) {
                    self.hand_over(number, other);
                }
            }
        }
    }

    /// Another thread that has less to do.
    fn less_loaded<'h>(&self, hands: &'h [Hand]) -> Option<&'h Hand> {
        let others = hands.iter().enumerate().filter(|(index, _)| *index != self.index);
        let (_, least) = others.min_by_key(|(_, hand)| hand.load())?;
        (self.lasting > least.load() + LOAD_SLACK + self.lasting / 4).then_some(least)
    }

    /// Has another thread go on with a connection.
    fn hand_over(&mut self, number: usize, other: &Hand) {
        let Some(Connection::Joined(mut care)) = self.connections.try_remove(number) else {
            return;
        };
        let Joined { client, endpoint, .. } = &mut *care.joined;
        let registry = self.poll.registry();
        forgotten(registry.deregister(client));
        forgotten(endpoint.let_be(registry));
        self.calls.unassign(endpoint);
        self.lasting -= 1;
        other.load.fetch_add(1, Ordering::Relaxed);
        other.ask(Request::GoOn(care.joined));
    }

    /// Lets a connection end, and keeps what another one may have.
    fn end(&mut self, number: usize, outcome: Outcome) {
        let Some(Connection::Joined(care)) = self.connections.try_remove(number) else {
            return;
        };
        if care.turns >= LASTING_TURNS {
            self.lasting -= 1;
        }
        if outcome == Outcome::Broken {
            care.joined.reset();
        } else if let Some(call) = care.joined.finish() {
            self.calls.give_back(call, interest(false));
        }
    }

    /// Goes on with a connection in the making.
    fn look(&mut self, number: usize, how: fn(Dial, Instant, &mut Calls, &mut [u8]) -> Found) {
        if let Some(Connection::Asked(mut dial, until)) = self.connections.try_remove(number) {
            self.deadlines.remove(&(until, number));
            // It is waited for anew when it is joined, and all that there is by then is told again.
            forgotten(dial.call.let_be(self.poll.registry()));
            let found = how(*dial, Instant::now(), &mut self.calls, &mut self.buffer);
            self.place(found);
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
        let outcome = care.joined.pump(way, &mut self.buffer);
        match outcome {
            Outcome::Later => {}
            Outcome::Soon => {
                care.is_soon[way as usize] = true;
                self.soon.push((number, way));
            }
            Outcome::WhenWritable => self.tell_when_writable(number, way),
            Outcome::Over | Outcome::Broken => self.end(number, outcome),
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
        let registry = self.poll.registry();
        let told = match way {
            Way::Up => care.joined.endpoint.wait_for(registry, interest(true)),
            Way::Down if care.tells_client => Ok(()),
            Way::Down => {
                care.tells_client = true;
                registry.reregister(&mut care.joined.client, token(number), interest(true))
            }
        };
        match told {
            // A client is registered when it begins.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                cannot_wait(&error);
                self.end(number, Outcome::Broken);
            }
            _ => {}
        }
    }

    /// Looks again at listeners where connections could not be taken.
    fn look_again(&mut self) {
        if self.look_at.is_some_and(|at| at <= Instant::now()) {
            self.look_at = None;
            for number in std::mem::take(&mut self.waiting) {
                if let Some(door) = self.listeners.get(&number) {
                    self.wait_for_connections(number, door);
                }
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

/// The token of a connection's client.
const fn token(number: usize) -> Token {
    Token(number * 2)
}

fn interest(tells_when_writable: bool) -> Interest {
    let readable = Interest::READABLE | Interest::PRIORITY;
    match tells_when_writable {
        true => readable | Interest::WRITABLE,
        false => readable,
    }
}

fn forgotten(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "a socket is still waited for");
    }
}

fn cannot_wait(error: &io::Error) {
    tracing::error!(%error, "a connection cannot be waited for");
}
