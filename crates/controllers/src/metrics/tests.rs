use std::time::{Duration, Instant};

use api::object::{ObjectKey, Service};
use serde_json::json;

use super::{Ending, Metrics, Phase};
use crate::endpointslice::{Counts, Report};
use crate::queue::Queue;

fn service(distribution: Option<&str>) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": {"trafficDistribution": distribution}}))
        .expect("a Service")
}

fn has(metrics: &Metrics, now: Instant, lines: &[&str]) {
    let text = metrics.render(now);
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    for line in lines {
        assert!(text.lines().any(|l| l == *line), "{line} is not in\n{text}");
    }
}

#[test]
fn gauges_follow_the_last_sync_of_each_service() {
    let (metrics, now) = (Metrics::default(), Instant::now());
    let counts = |endpoints, slices| Counts {
        added: 3,
        endpoints,
        slices,
        slices_desired: 1,
        ..Counts::default()
    };
    metrics.update(|values| {
        let slices = &mut values.slices;
        slices.synced(
            &ObjectKey::new("n", "a"),
            &service(Some("PreferClose")),
            counts(7, 2),
            1,
        );
        slices.synced(
            &ObjectKey::new("n", "b"),
            &service(Some("example.com/mine")),
            counts(5, 1),
            0,
        );
        slices.synced(
            &ObjectKey::new("n", "a"),
            &service(Some("PreferClose")),
            counts(8, 3),
            2,
        );
        slices.ended(Ending::Success);
        slices.ended(Ending::Stale);
        let report = Report {
            written: vec![Default::default(); 3],
            created: 1,
            ..Report::default()
        };
        slices.changes.count(&report);
    });
    has(
        &metrics,
        now,
        &[
            "endpoint_slice_controller_endpoints_desired 13",
            "endpoint_slice_controller_num_endpoint_slices 4",
            "endpoint_slice_controller_desired_endpoint_slices 2",
            "endpoint_slice_controller_endpoints_added_per_sync_bucket{le=\"4\"} 3",
            "endpoint_slice_controller_endpoints_removed_per_sync_count 3",
            "endpoint_slice_controller_changes{operation=\"create\"} 1",
            "endpoint_slice_controller_changes{operation=\"update\"} 2",
            "endpoint_slice_controller_syncs{result=\"success\"} 1",
            "endpoint_slice_controller_syncs{result=\"stale\"} 1",
            "endpoint_slice_controller_services_count_by_traffic_distribution{traffic_distribution=\"PreferClose\"} 1",
            "endpoint_slice_controller_services_count_by_traffic_distribution{traffic_distribution=\"ImplementationSpecific\"} 1",
            "endpoint_slice_controller_endpointslices_changed_per_sync_sum{topology=\"Disabled\",traffic_distribution=\"PreferClose\"} 3",
        ],
    );
    metrics.update(|values| values.slices.forget(&ObjectKey::new("n", "a")));
    has(&metrics, now, &["endpoint_slice_controller_endpoints_desired 5"]);
    metrics.enter(Phase::StandingBy);
    has(
        &metrics,
        now,
        &[
            "endpoint_slice_controller_endpoints_desired 0",
            "endpoint_slice_controller_syncs{result=\"success\"} 1",
        ],
    );
}

#[test]
fn mirroring_has_its_own() {
    let (metrics, now) = (Metrics::default(), Instant::now());
    let counts = crate::mirroring::Counts {
        updated: 2,
        skipped: 5,
        endpoints: 4,
        slices: 1,
        slices_desired: 1,
        ..Default::default()
    };
    metrics.update(|values| {
        let key = ObjectKey::new("n", "e");
        values.mirroring.synced(&key, counts);
        values
            .mirroring
            .synced(&ObjectKey::new("n", "none"), Default::default());
        values.mirroring.took(Duration::from_millis(3));
    });
    has(
        &metrics,
        now,
        &[
            "endpoint_slice_mirroring_controller_endpoints_desired 4",
            "endpoint_slice_mirroring_controller_num_endpoint_slices 1",
            "endpoint_slice_mirroring_controller_desired_endpoint_slices 1",
            "endpoint_slice_mirroring_controller_endpoints_updated_per_sync_sum 2",
            "endpoint_slice_mirroring_controller_addresses_skipped_per_sync_sum 5",
            "endpoint_slice_mirroring_controller_endpoints_added_per_sync_count 1",
            "endpoint_slice_mirroring_controller_endpoints_removed_per_sync_count 1",
            "endpoint_slice_mirroring_controller_endpoints_sync_duration_bucket{le=\"0.004\"} 1",
            "endpoint_slice_mirroring_controller_changes{operation=\"delete\"} 0",
        ],
    );
}

#[test]
fn a_queue_tells_what_waits_and_what_is_under_way() {
    let (metrics, start) = (Metrics::default(), Instant::now());
    let after = |seconds| start + Duration::from_secs(seconds);
    let mut queue = Queue::metered(metrics.queue("q"));
    queue.add("a", start);
    queue.add("a", start);
    queue.add("b", start);
    queue.take(after(1));
    has(
        &metrics,
        after(5),
        &[
            "workqueue_adds_total{name=\"q\"} 2",
            "workqueue_depth{name=\"q\"} 1",
            "workqueue_queue_duration_seconds_sum{name=\"q\"} 1",
            "workqueue_longest_running_processor_seconds{name=\"q\"} 4",
        ],
    );
    queue.take(after(3));
    has(
        &metrics,
        after(5),
        &["workqueue_unfinished_work_seconds{name=\"q\"} 6"],
    );
    queue.done(&"a", after(5));
    queue.failed(&"b", after(5));
    has(
        &metrics,
        after(5),
        &[
            "workqueue_depth{name=\"q\"} 0",
            "workqueue_retries_total{name=\"q\"} 1",
            "workqueue_unfinished_work_seconds{name=\"q\"} 0",
            "workqueue_work_duration_seconds_count{name=\"q\"} 2",
            "workqueue_work_duration_seconds_sum{name=\"q\"} 6",
        ],
    );
    queue.add("c", after(5));
    let _next_term: Queue<&str> = Queue::metered(metrics.queue("q"));
    has(
        &metrics,
        after(5),
        &[
            "workqueue_depth{name=\"q\"} 0",
            "workqueue_adds_total{name=\"q\"} 3",
        ],
    );
}

#[test]
fn who_leads_is_told() {
    let (metrics, now) = (Metrics::default(), Instant::now());
    assert!(!metrics.render(now).contains("leader_election"));
    let is_leader = tokio::sync::watch::Sender::new(false);
    metrics.elect("lock", is_leader.subscribe());
    has(&metrics, now, &["leader_election_master_status{name=\"lock\"} 0"]);
    is_leader.send_replace(true);
    has(&metrics, now, &["leader_election_master_status{name=\"lock\"} 1"]);
}
