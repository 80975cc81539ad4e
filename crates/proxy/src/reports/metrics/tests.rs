use super::*;

#[test]
fn sync_counts_for_both_families() {
    let metrics = Metrics::default();
    let now = Timestamp::from_millisecond(1_500).expect("a time");
    metrics.synced(Duration::from_millis(3), false, now);
    let text = metrics.render(Packets::default()).finish();
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
        assert!(
            text.lines().any(|candidate| candidate == line),
            "{line} is not in\n{text}"
        );
    }
}

#[test]
fn families_have_help_texts() {
    let metrics = Metrics::default();
    let packets = Packets {
        invalid_dropped: Some(1),
        localhost_accepted: 1,
        two_tier: Some(ForwardedPackets::default()),
    };
    assert_eq!(telemetry::validate(&metrics.render(packets).finish()), Ok(()));
    assert_eq!(telemetry::validate(&metrics.render_health([true, false])), Ok(()));
    metrics.update(|values| {
        values.is_iptables = true;
        values.counts.iptables = vec![IptablesCounts {
            family: plan::Family::V4,
            failures: 0,
            partial_failures: 0,
            tables: Vec::new(),
        }];
    });
    assert_eq!(telemetry::validate(&metrics.render(packets).finish()), Ok(()));
}

#[test]
fn refused_permits_are_counted_by_limit_in_userspace_mode() {
    let metrics = Metrics::default();
    let text = metrics.render(Packets::default()).finish();
    assert!(!text.contains("permit_refusals"));
    metrics.update(|values| {
        values.counts.permit_refusals = Some(dataplane::PermitRefusals {
            process: 3,
            service: 2,
            client: 1,
        });
    });
    let text = metrics.render(Packets::default()).finish();
    assert_eq!(telemetry::validate(&text), Ok(()));
    for line in [
        "kubeproxy_userspace_permit_refusals_total{limit=\"process\"} 3",
        "kubeproxy_userspace_permit_refusals_total{limit=\"service\"} 2",
        "kubeproxy_userspace_permit_refusals_total{limit=\"client\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

#[test]
fn network_programming_has_upstream_buckets() {
    let bounds = network_programming_bounds();
    assert_eq!(bounds.len(), 2 + 59 + 12 + 7);
    assert!(bounds.is_sorted());
    assert_eq!((bounds[0], bounds[bounds.len() - 1]), (0.25, 300.0));
}

#[test]
fn deleted_flows_are_counted_by_family() {
    let metrics = Metrics::default();
    metrics.update(|values| values.conntrack_reconciler_deleted_entries_total = [2, 1]);
    let text = metrics.render(Packets::default()).finish();
    for line in [
        "kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family=\"IPv4\"} 2",
        "kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family=\"IPv6\"} 1",
    ] {
        assert!(
            text.lines().any(|candidate| candidate == line),
            "{line} is not in\n{text}"
        );
    }
    assert_eq!(metrics.status()["deletedFlows"], 3);
}

#[test]
fn failure_counters_depend_on_mode() {
    let metrics = Metrics::default();
    let has = |packets, name: &str| {
        metrics
            .render(packets)
            .finish()
            .contains(&format!("\nkubeproxy_{name}"))
    };
    assert!(has(
        Packets::default(),
        "sync_proxy_rules_nftables_sync_failures_total"
    ));
    assert!(has(
        Packets::default(),
        "iptables_localhost_nodeports_accepted_packets_total 0\n"
    ));
    assert!(!has(
        Packets::default(),
        "iptables_ct_state_invalid_dropped_packets_total"
    ));
    metrics.update(|values| values.is_iptables = true);
    assert!(!has(
        Packets::default(),
        "sync_proxy_rules_nftables_sync_failures_total"
    ));
    let counted = Packets {
        invalid_dropped: Some(7),
        localhost_accepted: 2,
        two_tier: Some(ForwardedPackets {
            to_current: 5,
            to_previous: 1,
        }),
    };
    assert!(has(
        counted,
        "iptables_ct_state_invalid_dropped_packets_total 7\n"
    ));
    assert!(!has(Packets::default(), "two_tier_forwarded_packets_total"));
    assert!(has(
        counted,
        "two_tier_forwarded_packets_total{node=\"current\"} 5\n"
    ));
    assert!(has(
        counted,
        "two_tier_forwarded_packets_total{node=\"previous\"} 1\n"
    ));
    let name = "two_tier_xdp_forwarded_packets_total";
    assert!(!has(Packets::default(), name));
    metrics.update(|values| values.xdp_forwarded_packets = Some(3));
    assert!(has(
        Packets::default(),
        "two_tier_xdp_forwarded_packets_total 3\n"
    ));
}

/// MET-11, MET-14, MET-15.
#[test]
fn gauges_and_failures_have_the_labels_of_kube_proxy() {
    let metrics = Metrics::default();
    metrics.update(|values| {
        values.is_iptables = true;
        values.totals[0].internal_without_local = 3;
        values.totals[1].external_without_local = 4;
        values.counts.iptables = vec![IptablesCounts {
            family: plan::Family::V4,
            failures: 5,
            partial_failures: 2,
            tables: Vec::new(),
        }];
    });
    let text = metrics.render(Packets::default()).finish();
    for (name, labels, value) in [
        (
            "no_local_endpoints_total",
            r#"traffic_policy="internal",ip_family="IPv4""#,
            3,
        ),
        (
            "no_local_endpoints_total",
            r#"traffic_policy="external",ip_family="IPv4""#,
            0,
        ),
        (
            "no_local_endpoints_total",
            r#"traffic_policy="external",ip_family="IPv6""#,
            4,
        ),
        ("iptables_restore_failures_total", r#"ip_family="IPv4""#, 5),
        (
            "iptables_partial_restore_failures_total",
            r#"ip_family="IPv4""#,
            2,
        ),
    ] {
        let line = text.lines().find(|line| {
            line.starts_with(&format!("kubeproxy_sync_proxy_rules_{name}{{"))
                && labels.split(',').all(|label| line.contains(label))
        });
        let line = line.unwrap_or_else(|| panic!("{name} {labels} is not in\n{text}"));
        assert!(line.ends_with(&format!(" {value}")), "{line}");
    }
}
