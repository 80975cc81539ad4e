//! Seats of one priority level, and the queues for them. Pure: no waiting, no clock.
//!
//! A request takes a free seat at once. Otherwise it waits in the queue of its user. A released seat passes to the
//! waiting user with the fewest seats. Among equals, it passes to the user whose last seat is the oldest. A user with
//! many requests therefore delays each other user by at most one request. When the queues are full, the longest queue
//! drops its last request, so that a user with a shorter queue can wait.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::UserKey;

/// Sequence number of a queued request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueNumber(u64);

/// Response to a request for a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeatResponse {
    /// The request has a seat.
    Seated,
    /// The request waits. [`Seats::release`] returns its waiter when it receives a seat.
    Queued(QueueNumber),
    /// The queue of the user, or of the level, is full.
    Rejected,
}

/// Bounds of a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeatBounds {
    pub(super) seats: u32,
    /// Queued requests of all users, and of one user.
    pub(super) queued_max: usize,
    pub(super) queued_per_user_max: usize,
}

/// Seats of one level. `W` wakes a queued request.
#[derive(Debug)]
pub(super) struct Seats<W> {
    bounds: SeatBounds,
    held: u32,
    queued: usize,
    next_ticket: u64,
    /// Number of seats that queued requests have received.
    served: u64,
    /// Users with seats or queued requests.
    users: HashMap<UserKey, User<W>>,
    /// Users with queued requests, in the order in which they receive seats.
    positions: BTreeSet<QueuePosition>,
    /// Users with queued requests, by queue length.
    lengths: BTreeSet<(usize, UserKey)>,
}

/// Position of a user in the queue: by seats held, then by its last seat from the queue, then by its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QueuePosition {
    held: u32,
    served: u64,
    ticket: QueueNumber,
    user: UserKey,
}

/// Held seats and waiting requests of a user.
#[derive(Debug)]
struct User<W> {
    held: u32,
    /// Sequence number of the user's last seat from the queue; 0 for no such seat.
    served: u64,
    waiting: VecDeque<(QueueNumber, W)>,
}

impl<W> User<W> {
    /// Returns the position of the user, if it has queued requests.
    fn position(&self, key: UserKey) -> Option<QueuePosition> {
        let (ticket, _) = self.waiting.front()?;
        Some(QueuePosition {
            held: self.held,
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
            held: 0,
            queued: 0,
            next_ticket: 0,
            served: 0,
            users: HashMap::new(),
            positions: BTreeSet::new(),
            lengths: BTreeSet::new(),
        }
    }

    /// Requests a seat. `waiter` creates the waiter if the request is queued.
    pub(super) fn request(&mut self, key: UserKey, waiter: impl FnOnce() -> W) -> SeatResponse {
        if self.held < self.bounds.seats {
            self.held += 1;
            self.user(key).held += 1;
            return SeatResponse::Seated;
        }
        let own = self.users.get(&key).map_or(0, |user| user.waiting.len());
        if own >= self.bounds.queued_per_user_max {
            return SeatResponse::Rejected;
        }
        if self.queued >= self.bounds.queued_max && !self.shorten_longest_queue(own) {
            return SeatResponse::Rejected;
        }
        let ticket = QueueNumber(self.next_ticket);
        self.next_ticket += 1;
        self.queued += 1;
        self.change(key, |user| user.waiting.push_back((ticket, waiter())));
        SeatResponse::Queued(ticket)
    }

    /// Releases a seat of a user. Returns the waiter that receives the seat.
    pub(super) fn release(&mut self, key: UserKey) -> Option<W> {
        self.change(key, |user| user.held = user.held.saturating_sub(1));
        let Some(next) = self.positions.first().map(|position| position.user) else {
            self.held = self.held.saturating_sub(1);
            return None;
        };
        self.queued = self.queued.saturating_sub(1);
        self.served += 1;
        let served = self.served;
        let waiting = self.change(next, |user| {
            user.held += 1;
            user.served = served;
            user.waiting.pop_front()
        });
        waiting.map(|(_, waiter)| waiter)
    }

    /// Removes a request from the queue. Returns false if it is not queued: it received a seat, or its waiter was
    /// dropped.
    pub(super) fn cancel(&mut self, key: UserKey, ticket: QueueNumber) -> bool {
        let removed = self.change(key, |user| {
            let index = user.waiting.iter().position(|(own, _)| *own == ticket);
            index.and_then(|index| user.waiting.remove(index))
        });
        if removed.is_some() {
            self.queued = self.queued.saturating_sub(1);
        }
        removed.is_some()
    }

    /// Drops the last request of the longest queue, if that queue is longer than `own` plus one.
    fn shorten_longest_queue(&mut self, own: usize) -> bool {
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
            held: 0,
            served: 0,
            waiting: VecDeque::new(),
        })
    }

    /// Changes a user and updates its positions. Users without seats and requests are removed.
    fn change<T>(&mut self, key: UserKey, change: impl FnOnce(&mut User<W>) -> T) -> T {
        let user = self.user(key);
        let (before, length_before) = (user.position(key), user.waiting.len());
        let result = change(user);
        let (after, length_after) = (user.position(key), user.waiting.len());
        let is_idle = user.held == 0 && user.waiting.is_empty();
        if is_idle {
            self.users.remove(&key);
        }
        if before != after {
            if let Some(before) = before {
                self.positions.remove(&before);
            }
            self.positions.extend(after);
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
