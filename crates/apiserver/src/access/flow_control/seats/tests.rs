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
fn free_seats_are_taken_at_once() {
    let mut seats = seats(2);
    assert_eq!(seats.request(VICTIM, || 0), SeatResponse::Seated);
    assert_eq!(seats.request(VICTIM, || 0), SeatResponse::Seated);
    assert_eq!(seats.request(VICTIM, || 7), SeatResponse::Queued(QueueNumber(0)));
    assert_eq!(seats.release(VICTIM), Some(7));
    assert_eq!(seats.release(VICTIM), None);
    assert_eq!(seats.release(VICTIM), None);
    assert!(seats.users.is_empty() && seats.positions.is_empty());
    assert_eq!((seats.held, seats.queued), (0, 0));
}

#[test]
fn released_seat_passes_to_the_user_with_the_fewest() {
    let mut seats = seats(4);
    for _ in 0..300 {
        seats.request(ATTACKER, || 1);
    }
    assert_eq!(
        seats.request(VICTIM, || 2),
        SeatResponse::Queued(QueueNumber(296))
    );
    assert_eq!(
        seats.request(VICTIM, || 3),
        SeatResponse::Queued(QueueNumber(297))
    );
    assert_eq!(seats.release(ATTACKER), Some(2));
    assert_eq!(seats.release(ATTACKER), Some(3));
    assert_eq!(seats.release(ATTACKER), Some(1));
}

#[test]
fn queues_are_bounded_by_user_and_in_total() {
    let mut seats = seats(1);
    let arrivals: Vec<SeatResponse> = (0..500).map(|_| seats.request(ATTACKER, || 1)).collect();
    assert_eq!(
        arrivals
            .iter()
            .filter(|arrival| **arrival == SeatResponse::Rejected)
            .count(),
        199
    );
    assert!(matches!(seats.request(VICTIM, || 2), SeatResponse::Queued(_)));
    for user in 2..1_000 {
        assert!(
            matches!(seats.request(UserKey(user), || 3), SeatResponse::Queued(_)),
            "{user}"
        );
    }
    // The longest queue has been shortened for all others.
    assert_eq!(seats.queued, 1_000);
    assert_eq!(seats.users[&ATTACKER].waiting.len(), 1);
    assert_eq!(seats.request(UserKey(1_001), || 4), SeatResponse::Rejected);
    assert_eq!(seats.lengths.len(), 1_000);
}

#[test]
fn cancelled_request_leaves_the_queue() {
    let mut seats = seats(1);
    seats.request(ATTACKER, || 1);
    let SeatResponse::Queued(first) = seats.request(VICTIM, || 2) else {
        panic!("no seat was free")
    };
    let SeatResponse::Queued(second) = seats.request(VICTIM, || 3) else {
        panic!("no seat was free")
    };
    assert!(seats.cancel(VICTIM, first));
    assert!(!seats.cancel(VICTIM, first));
    assert_eq!(seats.release(ATTACKER), Some(3));
    // The request has the seat and must release it.
    assert!(!seats.cancel(VICTIM, second));
    assert_eq!(seats.release(VICTIM), None);
    assert!(seats.users.is_empty() && seats.positions.is_empty());
}

/// A level in virtual time: requests arrive, hold a seat for [`Self::SERVICE`], and release it.
struct Simulation {
    seats: Seats<u64>,
    now: u64,
    /// Release time and user of seated requests.
    leaving: BinaryHeap<Reverse<(u64, u64)>>,
    /// Arrival time and user of queued requests, by waiter.
    arrived: HashMap<u64, (u64, u64)>,
    next: u64,
    longest_wait: HashMap<u64, u64>,
    rejected: HashMap<u64, u64>,
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
            rejected: HashMap::new(),
        }
    }

    fn advance(&mut self, now: u64) {
        while let Some(Reverse((at, user))) = self.leaving.peek().copied() {
            if at > now {
                break;
            }
            self.leaving.pop();
            self.now = at;
            if let Some(waiter) = self.seats.release(UserKey(user)) {
                let (since, user) = self.arrived.remove(&waiter).expect("queued request");
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
        match self.seats.request(UserKey(user), || waiter) {
            SeatResponse::Seated => self.seated(user, self.now),
            SeatResponse::Queued(_) => {
                self.arrived.insert(waiter, (self.now, user));
            }
            SeatResponse::Rejected => *self.rejected.entry(user).or_default() += 1,
        }
    }
}

#[test]
fn flood_of_one_user_delays_others_by_one_request() {
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
    assert_eq!(simulation.rejected.get(&0), None);
    assert!(simulation.rejected[&1] > 100_000);
}

#[test]
fn users_share_seats_equally() {
    let mut simulation = Simulation::new(8);
    let mut served = HashMap::<u64, u64>::new();
    for now in 0..5_000 {
        simulation.advance(now);
        for user in 0..10 {
            // All users send more than their share, some much more than others.
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
    let (least, most) = (least.expect("served users"), most.expect("served users"));
    // Seats are released at the same time here, so the order of release affects the shares.
    assert!(most - least <= least / 2, "{served:?}");
}
