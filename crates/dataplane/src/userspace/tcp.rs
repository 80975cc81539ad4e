//! TCP: threads that take connections and join them with endpoints.
//!
//! All threads wait at each listener, and the kernel wakes one that has nothing else to do. Who takes a connection keeps
//! it: one that is opened, answered and closed wakes nobody else. Only one that lasts is handed over, when its thread has
//! more of these than another one. Each thread waits for all of its sockets at once, and does what is possible without
//! waiting for any of them.

mod calls;
mod congestion;
mod connection;
mod direction;
mod door;
mod pipe;
mod search;
mod turns;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use connection::Joined;
use mio::Waker;
use turns::Turns;

pub use congestion::CongestionControl;
pub use door::Door;

/// What a thread is asked to do.
#[derive(Debug)]
enum Request {
    /// Take connections.
    Listen(usize, Arc<Door>),
    /// Take those that wait, and no more.
    Close(usize),
    /// Go on with a connection that lasts, and that another thread has begun.
    GoOn(Box<Joined>),
    /// End, with all connections.
    End,
}

/// A thread, as others see it.
#[derive(Debug)]
struct Hand {
    waker: Waker,
    /// What it is asked. Bounded by listeners, and by the connections that may be open at the same time.
    requests: Mutex<Vec<Request>>,
    /// Its connections that last.
    load: AtomicUsize,
}

impl Hand {
    fn ask(&self, request: Request) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(request);
        drop(requests);
        if let Err(error) = self.waker.wake() {
            tracing::error!(%error, "a thread of the userspace mode cannot be woken");
        }
    }

    fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }
}

/// The threads. Dropping this ends them and all connections.
#[derive(Debug)]
pub struct Threads {
    hands: Arc<[Hand]>,
    /// The number of the next listener.
    next: AtomicUsize,
}

/// A listener's place with the threads. When it is dropped, connections that wait are taken, and no more.
#[derive(Debug)]
pub struct Listening {
    hands: Arc<[Hand]>,
    number: usize,
}

impl Threads {
    /// Starts so many threads, in the calling thread's network namespace.
    pub fn start(count: usize) -> io::Result<Self> {
        let mut turns = Vec::new();
        let mut hands = Vec::new();
        for index in 0..count {
            let (turn, waker) = Turns::new(index)?;
            turns.push(turn);
            hands.push(Hand {
                waker,
                requests: Mutex::default(),
                load: AtomicUsize::new(0),
            });
        }
        let this = Self {
            hands: hands.into(),
            next: AtomicUsize::new(0),
        };
        for turn in turns {
            let hands = this.hands.clone();
            let thread = std::thread::Builder::new().name("userspace".to_owned());
            thread.spawn(move || turn.run(&hands))?;
        }
        Ok(this)
    }

    /// Has connections taken.
    pub fn listen(&self, door: Door) -> Listening {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let door = Arc::new(door);
        for hand in self.hands.iter() {
            hand.ask(Request::Listen(number, door.clone()));
        }
        Listening {
            hands: self.hands.clone(),
            number,
        }
    }
}

#[cfg(test)]
impl Threads {
    /// How many connections that last each has.
    pub fn loads(&self) -> Vec<usize> {
        self.hands.iter().map(Hand::load).collect()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for hand in self.hands.iter() {
            hand.ask(Request::End);
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        for hand in self.hands.iter() {
            hand.ask(Request::Close(self.number));
        }
    }
}
