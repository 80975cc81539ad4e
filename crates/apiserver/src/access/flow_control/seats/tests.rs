use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

const VICTIM: UserKey = UserKey(0);
const ATTACKER: UserKey = UserKey(1);

fn seats(seats: u32) -> Seats<u64> {
    Seats::new(SeatBounds {
        seats,
        queued_max: 1_000,
        queued_per_user_max: 300,
    })
}

#[test]
fn a_free_seat_is_taken_at_once() {
    let mut seats = seats(2);
    assert_eq!(seats.arrive(VICTIM, || 0), Arrival::Seated);
    assert_eq!(seats.arrive(VICTIM, || 0), Arrival::Seated);
    assert_eq!(seats.arrive(VICTIM, || 7), Arrival::Queued(Ticket(0)));
    assert_eq!(seats.leave(VICTIM), Some(7));
    assert_eq!(seats.leave(VICTIM), None);
    assert_eq!(seats.leave(VICTIM), None);
    assert!(seats.users.is_empty() && seats.turns.is_empty());
    assert_eq!((seats.taken, seats.queued), (0, 0));
}

#[test]
fn the_next_seat_goes_to_the_user_with_the_fewest() {
    let mut seats = seats(4);
    for _ in 0..300 {
        seats.arrive(ATTACKER, || 1);
    }
    assert_eq!(seats.arrive(VICTIM, || 2), Arrival::Queued(Ticket(296)));
    assert_eq!(seats.arrive(VICTIM, || 3), Arrival::Queued(Ticket(297)));
    assert_eq!(seats.leave(ATTACKER), Some(2));
    assert_eq!(seats.leave(ATTACKER), Some(3));
    assert_eq!(seats.leave(ATTACKER), Some(1));
}

#[test]
fn queues_are_bounded_for_each_user_and_for_all() {
    let mut seats = seats(1);
    let arrivals: Vec<Arrival> = (0..500).map(|_| seats.arrive(ATTACKER, || 1)).collect();
    assert_eq!(arrivals.iter().filter(|a| **a == Arrival::Refused).count(), 199);
    assert!(matches!(seats.arrive(VICTIM, || 2), Arrival::Queued(_)));
    for user in 2..1_000 {
        assert!(
            matches!(seats.arrive(UserKey(user), || 3), Arrival::Queued(_)),
            "{user}"
        );
    }
    // The flood has made room for them all.
    assert_eq!(seats.queued, 1_000);
    assert_eq!(seats.users[&ATTACKER].waiting.len(), 1);
    assert_eq!(seats.arrive(UserKey(1_001), || 4), Arrival::Refused);
    assert_eq!(seats.lengths.len(), 1_000);
}

#[test]
fn waiter_that_gives_up_leaves_the_queue() {
    let mut seats = seats(1);
    seats.arrive(ATTACKER, || 1);
    let Arrival::Queued(first) = seats.arrive(VICTIM, || 2) else {
        panic!("no seat was free")
    };
    let Arrival::Queued(second) = seats.arrive(VICTIM, || 3) else {
        panic!("no seat was free")
    };
    assert!(seats.give_up(VICTIM, first));
    assert!(!seats.give_up(VICTIM, first));
    assert_eq!(seats.leave(ATTACKER), Some(3));
    // It has the seat, so it must leave it.
    assert!(!seats.give_up(VICTIM, second));
    assert_eq!(seats.leave(VICTIM), None);
    assert!(seats.users.is_empty() && seats.turns.is_empty());
}

/// A level in virtual time: requests of some users arrive, take `service` each, and leave.
struct Simulation {
    seats: Seats<u64>,
    now: u64,
    /// When requests that are seated leave: time, user.
    leaving: BinaryHeap<Reverse<(u64, u64)>>,
    /// Arrival of those that wait, by their waiter.
    arrived: HashMap<u64, (u64, u64)>,
    next: u64,
    longest_wait: HashMap<u64, u64>,
    refused: HashMap<u64, u64>,
}

impl Simulation {
    const SERVICE: u64 = 10;

    fn new(count: u32) -> Simulation {
        Simulation {
            seats: seats(count),
            now: 0,
            leaving: BinaryHeap::new(),
            arrived: HashMap::new(),
            next: 0,
            longest_wait: HashMap::new(),
            refused: HashMap::new(),
        }
    }

    fn advance(&mut self, now: u64) {
        while let Some(Reverse((at, user))) = self.leaving.peek().copied() {
            if at > now {
                break;
            }
            self.leaving.pop();
            self.now = at;
            if let Some(waiter) = self.seats.leave(UserKey(user)) {
                let (since, user) = self.arrived.remove(&waiter).expect("it waits");
                self.seated(user, since);
            }
        }
        self.now = now;
    }

    fn seated(&mut self, user: u64, since: u64) {
        let longest = self.longest_wait.entry(user).or_default();
        *longest = (*longest).max(self.now - since);
        self.leaving.push(Reverse((self.now + Self::SERVICE, user)));
    }

    fn arrive(&mut self, user: u64) {
        let waiter = self.next;
        self.next += 1;
        match self.seats.arrive(UserKey(user), || waiter) {
            Arrival::Seated => self.seated(user, self.now),
            Arrival::Queued(_) => {
                self.arrived.insert(waiter, (self.now, user));
            }
            Arrival::Refused => *self.refused.entry(user).or_default() += 1,
        }
    }
}

#[test]
fn a_flood_of_one_user_delays_another_by_one_request() {
    let mut simulation = Simulation::new(5);
    for now in 0..10_000 {
        simulation.advance(now);
        for _ in 0..20 {
            simulation.arrive(1);
        }
        if now % 25 == 0 {
            simulation.arrive(0);
        }
    }
    simulation.advance(20_000);
    assert!(
        simulation.longest_wait[&0] <= Simulation::SERVICE,
        "{:?}",
        simulation.longest_wait
    );
    assert_eq!(simulation.refused.get(&0), None);
    assert!(simulation.refused[&1] > 100_000);
}

#[test]
fn many_users_share_the_seats_alike() {
    let mut simulation = Simulation::new(8);
    let mut served = HashMap::<u64, u64>::new();
    for now in 0..5_000 {
        simulation.advance(now);
        for user in 0..10 {
            // Some ask much more often than others, and all more than their part.
            for _ in 0..=user {
                simulation.arrive(user);
            }
        }
        for Reverse((at, user)) in simulation.leaving.iter() {
            if *at == now + Simulation::SERVICE {
                *served.entry(*user).or_default() += 1;
            }
        }
    }
    let (least, most) = (served.values().min(), served.values().max());
    let (least, most) = (least.expect("some"), most.expect("some"));
    // All seats are left at the same time here, so that who leaves first is served first.
    assert!(most - least <= least / 2, "{served:?}");
}
