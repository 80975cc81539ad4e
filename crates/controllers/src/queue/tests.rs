use std::time::{Duration, Instant};

use super::{BackOff, Queue};

fn taken(queue: &mut Queue<&'static str>, now: Instant) -> Option<&'static str> {
    queue.take(now).map(|(key, _)| key)
}

#[test]
fn a_busy_key_waits_for_its_worker() {
    let mut queue = Queue::default();
    let now = Instant::now();
    assert!(queue.add("a", now));
    assert!(!queue.add("a", now), "asked for already");
    assert_eq!(taken(&mut queue, now), Some("a"));
    assert!(queue.add("a", now));
    assert_eq!(taken(&mut queue, now), None, "a is being worked on");
    queue.done(&"a", now);
    assert_eq!(taken(&mut queue, now), Some("a"), "it came again meanwhile");
    queue.done(&"a", now);
    assert_eq!(taken(&mut queue, now), None);
    assert!(queue.is_empty() && queue.entries.is_empty());
}

#[test]
fn failures_wait_longer_each_time_up_to_a_bound() {
    let mut queue = Queue::default();
    let now = Instant::now();
    let mut last = Duration::ZERO;
    for _ in 0..40 {
        queue.add("a", now);
        assert_eq!(taken(&mut queue, now), Some("a"));
        let pause = queue.failed(&"a", now);
        assert!(pause >= last && pause <= BackOff::default().max);
        last = pause;
    }
    assert_eq!(last, BackOff::default().max);
    assert_eq!(
        queue.resting.len(),
        1,
        "a key rests once, however often it failed"
    );
}

#[test]
fn a_pause_ends_at_its_time_and_success_resets_it() {
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
    assert_eq!(queue.failed(&"a", later), first, "success forgets old failures");
}

#[test]
fn the_earlier_of_two_pauses_counts_and_a_busy_key_is_not_handed_out_at_its_end() {
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
