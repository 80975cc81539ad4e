use super::*;

#[test]
fn a_sync_is_counted_for_both_families() {
    let metrics = Metrics::default();
    let now = Timestamp::from_millisecond(1_500).expect("a time");
    metrics.synced(Duration::from_millis(3), false, now);
    let text = metrics.render();
    for line in [
        "# TYPE kubeproxy_sync_proxy_rules_duration_seconds histogram",
        "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv6\",le=\"0.002\"} 0",
        "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.004\"} 1",
        "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"+Inf\"} 1",
        "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1",
        "kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 0",
        "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"} 1.5",
        "kubeproxy_proxy_healthz_total{code=\"200\"} 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

#[test]
fn buckets_of_network_programming() {
    let bounds = network_programming_bounds();
    assert_eq!(bounds.len(), 2 + 59 + 12 + 7);
    assert!(bounds.is_sorted());
    assert_eq!((bounds[0], bounds[bounds.len() - 1]), (0.25, 300.0));
}
