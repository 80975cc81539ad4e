use std::time::{Duration, Instant};

use telemetry::MetricsText;

use super::QueueRegistry;
use crate::queue::Queue;

/// Asserts that the rendered metrics have these lines.
fn assert_lines(registry: &QueueRegistry, now: Instant, lines: &[&str]) {
    let mut text = MetricsText::default();
    registry.write(now, &mut text);
    let text = text.finish();
    for line in lines {
        assert!(
            text.lines().any(|other| other == *line),
            "no line {line} in\n{text}"
        );
    }
}

#[test]
fn queue_metrics_cover_depth_waiting_and_work_in_progress() {
    let (registry, start) = (QueueRegistry::default(), Instant::now());
    let after = |seconds| start + Duration::from_secs(seconds);
    let mut queue = Queue::with_metrics(registry.register("q"));
    queue.add("a", start);
    queue.add("a", start);
    queue.add("b", start);
    queue.take(after(1));
    assert_lines(
        &registry,
        after(5),
        &[
            "workqueue_adds_total{name=\"q\"} 2",
            "workqueue_depth{name=\"q\"} 1",
            "workqueue_queue_duration_seconds_sum{name=\"q\"} 1",
            "workqueue_longest_running_processor_seconds{name=\"q\"} 4",
        ],
    );
    queue.take(after(3));
    assert_lines(
        &registry,
        after(5),
        &["workqueue_unfinished_work_seconds{name=\"q\"} 6"],
    );
    queue.done(&"a", after(5));
    queue.failed(&"b", after(5));
    assert_lines(
        &registry,
        after(5),
        &[
            "workqueue_depth{name=\"q\"} 0",
            "workqueue_retries_total{name=\"q\"} 1",
            "workqueue_unfinished_work_seconds{name=\"q\"} 0",
            "workqueue_work_duration_seconds_count{name=\"q\"} 2",
            "workqueue_work_duration_seconds_sum{name=\"q\"} 6",
        ],
    );
}

#[test]
fn new_queue_of_the_same_name_resets_gauges_and_keeps_counters() {
    let (registry, now) = (QueueRegistry::default(), Instant::now());
    let mut queue = Queue::with_metrics(registry.register("q"));
    queue.add("a", now);
    let _next: Queue<&str> = Queue::with_metrics(registry.register("q"));
    assert_lines(
        &registry,
        now,
        &[
            "workqueue_depth{name=\"q\"} 0",
            "workqueue_adds_total{name=\"q\"} 1",
        ],
    );
}
