use std::time::{Duration, Instant};

use super::{BackOff, DELAY_MAX, Queue};

fn taken(queue: &mut Queue<&'static str>, now: Instant) -> Option<&'static str> {
    queue.take(now).map(|(key, _)| key)
}

#[test]
fn key_in_progress_is_ready_again_after_its_worker_is_done() {
    let mut queue = Queue::default();
    let now = Instant::now();
    assert!(queue.add("a", now));
    assert!(!queue.add("a", now), "already added");
    assert_eq!(taken(&mut queue, now), Some("a"));
    assert!(queue.add("a", now));
    assert_eq!(taken(&mut queue, now), None, "a is in progress");
    queue.done(&"a", now);
    assert_eq!(taken(&mut queue, now), Some("a"), "a was added in the meantime");
    queue.done(&"a", now);
    assert_eq!(taken(&mut queue, now), None);
    assert!(queue.is_empty() && queue.entries.is_empty());
}

#[test]
fn back_off_grows_with_each_failure_up_to_its_maximum() {
    let mut queue = Queue::default();
    let now = Instant::now();
    let mut last = Duration::ZERO;
    for _ in 0..40 {
        queue.add("a", now);
        assert_eq!(taken(&mut queue, now), Some("a"));
        let delay = queue.failed(&"a", now);
        assert!(delay >= last && delay <= BackOff::default().max);
        last = delay;
    }
    assert_eq!(last, BackOff::default().max);
    assert_eq!(
        queue.delayed.len(),
        1,
        "one delay per key, regardless of its failures"
    );
}

#[test]
fn delayed_keys_are_due_in_time_and_success_resets_the_back_off() {
    let mut queue = Queue::default();
    let start = Instant::now();
    queue.add("a", start);
    queue.take(start);
    let first = queue.failed(&"a", start);
    queue.wake(start);
    assert_eq!(queue.take(start), None);
    assert_eq!(queue.next_wake(), Some(start + first));
    let later = start + first;
    queue.wake(later);
    assert_eq!(queue.take(later), Some(("a", later)));
    queue.done(&"a", later);
    queue.add("a", later);
    queue.take(later);
    assert_eq!(queue.failed(&"a", later), first, "success resets the failures");
}

#[test]
fn earlier_of_two_delays_counts_and_keys_in_progress_are_taken_once() {
    let mut queue = Queue::default();
    let start = Instant::now();
    let second = Duration::from_secs(1);
    queue.add_at("a", start + second);
    queue.add_at("a", start + 2 * second);
    assert_eq!(queue.next_wake(), Some(start + second));
    queue.add("a", start);
    queue.take(start);
    queue.wake(start + second);
    assert_eq!(queue.take(start + second), None);
    assert_eq!(queue.done(&"a", start + second), second);
    assert_eq!(taken(&mut queue, start + second), Some("a"));
}

#[test]
fn every_delay_of_an_object_has_an_end() {
    let mut queue = Queue::default();
    let start = Instant::now();
    for delay in [Duration::from_secs(i64::MAX.unsigned_abs()), Duration::MAX] {
        queue.add_after("a", delay, start);
        assert_eq!(queue.next_wake(), Some(start + DELAY_MAX));
    }
    queue.add_after("a", Duration::from_secs(1), start);
    assert_eq!(queue.next_wake(), Some(start + Duration::from_secs(1)));
}

#[test]
fn tenants_take_turns_and_keep_the_order_of_their_keys() {
    fn tenant<'a>(key: &'a &'static str) -> &'a str {
        &key[..1]
    }
    let mut queue = Queue::default().shared_by(tenant);
    let now = Instant::now();
    for key in ["a1", "a2", "a3", "b1", "c1", "b2"] {
        queue.add(key, now);
    }
    assert_eq!(queue.depth(), 6);
    let order: Vec<&str> = std::iter::from_fn(|| taken(&mut queue, now)).collect();
    assert_eq!(order, ["a1", "b1", "c1", "a2", "b2", "a3"]);
    queue.add("c2", now);
    for key in order {
        queue.done(&key, now);
    }
    assert_eq!(taken(&mut queue, now), Some("c2"));
    queue.done(&"c2", now);
    assert!(queue.is_empty());
}

#[test]
fn key_whose_work_rewrote_a_large_object_is_held() {
    let mut queue = Queue::default();
    let start = Instant::now();
    queue.add("a", start);
    queue.take(start);
    queue.count_rewritten(&"a", 3 << 20, start);
    queue.add("a", start);
    queue.done(&"a", start);
    queue.add("b", start);
    assert_eq!(taken(&mut queue, start), Some("b"));
    queue.done(&"b", start);
    assert_eq!(taken(&mut queue, start), None);
    assert!(queue.add("a", start), "a changes while it is held");
    assert_eq!(taken(&mut queue, start), None);
    let later = start + Duration::from_secs(12);
    assert_eq!(queue.next_wake(), Some(later));
    queue.wake(later);
    assert_eq!(taken(&mut queue, later), Some("a"));
    queue.done(&"a", later);
    assert!(queue.is_empty() && queue.entries.is_empty());
}

#[test]
fn keys_that_are_held_together_are_taken_in_the_order_of_their_addition() {
    let mut queue = Queue::default();
    let start = Instant::now();
    let ended = start + Duration::from_secs(1);
    for key in ["a", "b", "c"] {
        queue.add(key, start);
    }
    assert_eq!(taken(&mut queue, start), Some("a"));
    assert_eq!(taken(&mut queue, start), Some("b"));
    for key in ["a", "b"] {
        queue.count_rewritten(&key, 4 << 20, start);
        queue.add(key, ended);
        queue.done(&key, ended);
    }
    assert_eq!(taken(&mut queue, ended), None, "all are held");
    let later = start + Duration::from_secs(16);
    queue.wake(later);
    let order: Vec<_> = std::iter::from_fn(|| taken(&mut queue, later)).collect();
    assert_eq!(order, ["c", "a", "b"]);
}
