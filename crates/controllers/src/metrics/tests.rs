use std::time::{Duration, Instant};

use api::object::{ObjectKey, Service};
use serde_json::json;

use super::{Metrics, Phase, SyncResult};
use crate::endpoint_slice::{Counts, Report};

fn service(distribution: Option<&str>) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": {"trafficDistribution": distribution}}))
        .expect("a Service")
}

fn assert_lines(metrics: &Metrics, now: Instant, lines: &[&str]) {
    let text = metrics.render(now);
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    for line in lines {
        assert!(
            text.lines().any(|candidate| candidate == *line),
            "no line {line} in\n{text}"
        );
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
        slices.observe_sync(
            &ObjectKey::new("n", "a"),
            &service(Some("PreferClose")),
            counts(7, 2),
            1,
        );
        slices.observe_sync(
            &ObjectKey::new("n", "b"),
            &service(Some("example.com/mine")),
            counts(5, 1),
            0,
        );
        slices.observe_sync(
            &ObjectKey::new("n", "a"),
            &service(Some("PreferClose")),
            counts(8, 3),
            2,
        );
        slices.count_sync(SyncResult::Success);
        slices.count_sync(SyncResult::Stale);
        let report = Report {
            written: vec![Default::default(); 3],
            created: 1,
            ..Report::default()
        };
        slices.changes.count(&report);
    });
    assert_lines(
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
    metrics.update(|values| values.slices.remove_service(&ObjectKey::new("n", "a")));
    assert_lines(&metrics, now, &["endpoint_slice_controller_endpoints_desired 5"]);
    metrics.enter(Phase::StandingBy);
    assert_lines(
        &metrics,
        now,
        &[
            "endpoint_slice_controller_endpoints_desired 0",
            "endpoint_slice_controller_syncs{result=\"success\"} 1",
        ],
    );
}

#[test]
fn mirroring_metrics_follow_the_last_sync() {
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
        values.mirroring.observe_changes(&key, counts);
        values
            .mirroring
            .observe_changes(&ObjectKey::new("n", "none"), Default::default());
        values.mirroring.observe_sync(Duration::from_millis(3));
    });
    assert_lines(
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
fn leader_election_status_follows_the_election() {
    let (metrics, now) = (Metrics::default(), Instant::now());
    assert!(!metrics.render(now).contains("leader_election"));
    let is_leader = tokio::sync::watch::Sender::new(false);
    metrics.elect("lock", is_leader.subscribe());
    assert_lines(&metrics, now, &["leader_election_master_status{name=\"lock\"} 0"]);
    is_leader.send_replace(true);
    assert_lines(&metrics, now, &["leader_election_master_status{name=\"lock\"} 1"]);
}
