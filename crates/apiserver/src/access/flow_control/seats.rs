//! Seats of one priority level, and the queue for them. Pure: it neither waits nor knows the time.
//!
//! While there is a free seat, a request takes it at once. When there is none, it waits in the queue of its user, and the next
//! seat goes to that waiting user who holds the fewest; among equals, to the one who was given a seat longest ago. So a user
//! who floods the level delays others by one request each at most. When all queues together are full, the longest one
//! gives up its last request for that of a user with a shorter one.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::UserKey;

/// A request's number in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// Answer to a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The request has a seat.
    Seated,
    /// The request waits. Its waiter is returned when a seat is free.
    Queued(Ticket),
    /// The queue of the user is full.
    Refused,
}

/// Bounds of a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeatBounds {
    pub(super) seats: u32,
    /// Requests that wait, of all users together and of one.
    pub(super) queued_max: usize,
    pub(super) queued_per_user_max: usize,
}

/// Seats of one level. `W` is what wakes a waiting request.
#[derive(Debug)]
pub(super) struct Seats<W> {
    bounds: SeatBounds,
    taken: u32,
    queued: usize,
    next_ticket: u64,
    /// Seats that were given from the queue so far.
    served: u64,
    /// Users that hold a seat or wait for one.
    users: HashMap<UserKey, User<W>>,
    /// Users that wait, in the order of their turns.
    turns: BTreeSet<Turn>,
    /// Users that wait, by how many of their requests do.
    lengths: BTreeSet<(usize, UserKey)>,
}

/// A waiting user's place: by seats held, then by when it was given the last one, then by its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    taken: u32,
    served: u64,
    ticket: Ticket,
    user: UserKey,
}

#[derive(Debug)]
struct User<W> {
    taken: u32,
    /// Sequence number of the user's last seat from the queue; 0 for none.
    served: u64,
    waiting: VecDeque<(Ticket, W)>,
}

impl<W> User<W> {
    /// The user's place in the order of turns, if it waits.
    fn turn(&self, key: UserKey) -> Option<Turn> {
        let (ticket, _) = self.waiting.front()?;
        Some(Turn {
            taken: self.taken,
            served: self.served,
            ticket: *ticket,
            user: key,
        })
    }
}

impl<W> Seats<W> {
    pub(super) fn new(bounds: SeatBounds) -> Seats<W> {
        Seats {
            bounds,
            taken: 0,
            queued: 0,
            next_ticket: 0,
            served: 0,
            users: HashMap::new(),
            turns: BTreeSet::new(),
            lengths: BTreeSet::new(),
        }
    }

    /// A request of a user arrives. `waiter` makes what wakes it, if it has to wait.
    pub(super) fn arrive(&mut self, key: UserKey, waiter: impl FnOnce() -> W) -> Arrival {
        if self.taken < self.bounds.seats {
            self.taken += 1;
            self.user(key).taken += 1;
            return Arrival::Seated;
        }
        let own = self.users.get(&key).map_or(0, |user| user.waiting.len());
        if own >= self.bounds.queued_per_user_max {
            return Arrival::Refused;
        }
        if self.queued >= self.bounds.queued_max && !self.shorten_the_longest_queue(own) {
            return Arrival::Refused;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.queued += 1;
        self.change(key, |user| user.waiting.push_back((ticket, waiter())));
        Arrival::Queued(ticket)
    }

    /// A user's request leaves its seat. It goes to the waiter that comes back, if any.
    pub(super) fn leave(&mut self, key: UserKey) -> Option<W> {
        self.change(key, |user| user.taken = user.taken.saturating_sub(1));
        let Some(next) = self.turns.first().map(|turn| turn.user) else {
            self.taken = self.taken.saturating_sub(1);
            return None;
        };
        self.queued = self.queued.saturating_sub(1);
        self.served += 1;
        let served = self.served;
        let waiting = self.change(next, |user| {
            user.taken += 1;
            user.served = served;
            user.waiting.pop_front()
        });
        waiting.map(|(_, waiter)| waiter)
    }

    /// A request waits no longer. `false` if it does not wait any more: it was given a seat, or its waiter was dropped.
    pub(super) fn give_up(&mut self, key: UserKey, ticket: Ticket) -> bool {
        let gone = self.change(key, |user| {
            let at = user.waiting.iter().position(|(own, _)| *own == ticket);
            at.and_then(|at| user.waiting.remove(at))
        });
        if gone.is_some() {
            self.queued = self.queued.saturating_sub(1);
        }
        gone.is_some()
    }

    /// Drops the last waiter of the longest queue, if that is longer than one of `own` and one more.
    fn shorten_the_longest_queue(&mut self, own: usize) -> bool {
        let Some((_, longest)) = self
            .lengths
            .last()
            .copied()
            .filter(|(length, _)| *length > own + 1)
        else {
            return false;
        };
        self.queued = self.queued.saturating_sub(1);
        self.change(longest, |user| user.waiting.pop_back()).is_some()
    }

    fn user(&mut self, key: UserKey) -> &mut User<W> {
        self.users.entry(key).or_insert_with(|| User {
            taken: 0,
            served: 0,
            waiting: VecDeque::new(),
        })
    }

    /// Changes a user, keeps its place in the order of turns right, and forgets it when it holds and waits for nothing.
    fn change<T>(&mut self, key: UserKey, change: impl FnOnce(&mut User<W>) -> T) -> T {
        let user = self.user(key);
        let (before, length_before) = (user.turn(key), user.waiting.len());
        let result = change(user);
        let (after, length_after) = (user.turn(key), user.waiting.len());
        let is_done = user.taken == 0 && user.waiting.is_empty();
        if is_done {
            self.users.remove(&key);
        }
        if before != after {
            if let Some(before) = before {
                self.turns.remove(&before);
            }
            self.turns.extend(after);
        }
        if length_before != length_after {
            self.lengths.remove(&(length_before, key));
            if length_after > 0 {
                self.lengths.insert((length_after, key));
            }
        }
        result
    }
}

#[cfg(test)]
mod tests;
