use super::*;

/// CCM-12: upstream's names, types and buckets.
#[test]
fn renders_all_metrics_of_upstream() {
    let metrics = Metrics::default();
    metrics.synced();
    metrics.synced();
    metrics.node_sync_failed();
    metrics.nodes_synced(Duration::from_millis(1_500));
    metrics.host_updated(Duration::from_secs(5));
    assert_eq!(metrics.syncs(), 2);
    let text = metrics.render();
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    for line in [
        "# TYPE service_controller_loadbalancer_sync_total counter",
        "service_controller_loadbalancer_sync_total 2",
        "# TYPE service_controller_nodesync_error_total counter",
        "service_controller_nodesync_error_total 1",
        "# TYPE service_controller_nodesync_latency_seconds histogram",
        "service_controller_nodesync_latency_seconds_bucket{le=\"1\"} 0",
        "service_controller_nodesync_latency_seconds_bucket{le=\"2\"} 1",
        "service_controller_nodesync_latency_seconds_bucket{le=\"16384\"} 1",
        "service_controller_nodesync_latency_seconds_sum 1.5",
        "# TYPE service_controller_update_loadbalancer_host_latency_seconds histogram",
        "service_controller_update_loadbalancer_host_latency_seconds_bucket{le=\"4\"} 0",
        "service_controller_update_loadbalancer_host_latency_seconds_bucket{le=\"8\"} 1",
        "service_controller_update_loadbalancer_host_latency_seconds_count 1",
    ] {
        assert!(
            text.lines().any(|rendered| rendered == line),
            "{line} is not in\n{text}"
        );
    }
}
