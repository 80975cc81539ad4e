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

/// LBM-17: usage of pools under Portolan's and MetalLB's names.
#[test]
fn renders_the_usage_of_pools() {
    let usage = |family: &str, total, assigned| AddressPoolUsage {
        family: family.to_owned(),
        total,
        assigned,
    };
    let metrics = Metrics::default();
    metrics.set_pool("a", Some(vec![usage("IPv4", 16, 2), usage("IPv6", i64::MAX, 1)]));
    metrics.set_pool("b", Some(vec![usage("IPv4", 1, 1)]));
    metrics.set_pool("b", None);
    let text = metrics.render();
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    for line in [
        "portolan_address_pool_addresses{pool=\"a\",family=\"IPv4\"} 16",
        "portolan_address_pool_addresses_assigned{pool=\"a\",family=\"IPv6\"} 1",
        "metallb_allocator_addresses_total{pool=\"a\"} 9223372036854775807",
        "metallb_allocator_addresses_in_use_total{pool=\"a\"} 3",
    ] {
        assert!(
            text.lines().any(|rendered| rendered == line),
            "{line} is not in\n{text}"
        );
    }
    assert!(!text.contains("pool=\"b\""), "{text}");
    metrics.clear_pools();
    assert!(
        !metrics.render().contains("pool="),
        "no pool of a standby process"
    );
}
