use std::time::{Duration, Instant};

use super::{BACK_OFF_MAX, Queue};

#[test]
fn a_busy_key_waits_for_its_worker() {
    let mut queue = Queue::default();
    queue.add("a");
    queue.add("a");
    assert_eq!(queue.take(), Some("a"));
    queue.add("a");
    assert_eq!(queue.take(), None, "a is being worked on");
    queue.done(&"a");
    assert_eq!(queue.take(), Some("a"), "it came again meanwhile");
    queue.done(&"a");
    assert_eq!(queue.take(), None);
}

#[test]
fn failures_wait_longer_each_time_up_to_a_bound() {
    let mut queue = Queue::default();
    let start = Instant::now();
    let mut last = Duration::ZERO;
    for _ in 0..40 {
        queue.add("a");
        assert_eq!(queue.take(), Some("a"));
        let pause = queue.failed(&"a", start);
        assert!(pause >= last && pause <= BACK_OFF_MAX);
        last = pause;
    }
    assert_eq!(last, BACK_OFF_MAX);
}

#[test]
fn a_pause_ends_at_its_time_and_success_resets_it() {
    let mut queue = Queue::default();
    let start = Instant::now();
    queue.add("a");
    queue.take();
    let first = queue.failed(&"a", start);
    queue.wake(start);
    assert_eq!(queue.take(), None);
    assert_eq!(queue.next_wake(), Some(start + first));
    queue.wake(start + first);
    assert_eq!(queue.take(), Some("a"));
    queue.done(&"a");
    queue.add("a");
    queue.take();
    assert_eq!(queue.failed(&"a", start), first, "success forgets old failures");
}
