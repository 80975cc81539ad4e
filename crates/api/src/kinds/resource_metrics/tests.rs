use super::*;

fn report() -> Report {
    Report {
        timestamp_seconds: 1_767_225_600,
        window_milliseconds: 10_002,
        node: Some(Usage {
            cpu_nanocores: 1_250_000_000,
            memory_bytes: 3 << 20,
        }),
        pods: vec![PodUsage {
            namespace: "shop".into(),
            name: "web".into(),
            uid: "u1".into(),
            is_static: false,
            containers: ["web", "invented"]
                .map(|name| ContainerUsage {
                    name: name.into(),
                    usage: Usage {
                        cpu_nanocores: 1_234_567,
                        memory_bytes: 4096,
                    },
                })
                .into(),
        }],
    }
}

fn pod(uid: &str) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": uid, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web"}]},
        "status": {"phase": "Running"},
    })
}

#[test]
fn node_metrics_have_canonical_quantities() {
    let node = json!({"metadata": {"name": "n1"}});
    assert_eq!(
        node_metrics(&node, &report()),
        Some(json!({
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "NodeMetrics",
            "metadata": {"name": "n1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "timestamp": "2026-01-01T00:00:00Z",
            "window": "10.002s",
            "usage": {"cpu": "1250m", "memory": "3Mi"},
        }))
    );
    let empty = Report::default();
    assert_eq!(node_metrics(&node, &empty), None);
}

#[test]
fn pod_metrics_have_containers_of_the_pod_only() {
    let metrics = pod_metrics(&pod("u1"), &report()).expect("measured");
    assert_eq!(
        metrics["containers"],
        json!([{"name": "web", "usage": {"cpu": "1234567n", "memory": "4Ki"}}])
    );
    assert_eq!(metrics["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(metrics["metadata"]["namespace"], "shop");
}

#[test]
fn pods_with_another_uid_or_phase_have_no_metrics() {
    assert_eq!(pod_metrics(&pod("u2"), &report()), None);
    let mut of_static_pod = report();
    of_static_pod.pods[0].is_static = true;
    assert!(pod_metrics(&pod("u2"), &of_static_pod).is_some());
    let mut finished = pod("u1");
    finished["status"]["phase"] = "Succeeded".into();
    assert_eq!(pod_metrics(&finished, &report()), None);
}

#[test]
fn invalid_timestamps_give_no_metrics() {
    let mut invalid = report();
    invalid.timestamp_seconds = i64::MAX;
    assert_eq!(pod_metrics(&pod("u1"), &invalid), None);
}

#[test]
fn reports_survive_encoding() {
    let text = serde_json::to_string(&report()).expect("JSON");
    assert_eq!(serde_json::from_str::<Report>(&text).expect("a report"), report());
}

#[test]
fn quantities_are_formatted_parsed_and_added() {
    for (value, text) in [
        (0, "0"),
        (1, "1n"),
        (2_000, "2u"),
        (250_000_000, "250m"),
        (3_000_000_000, "3"),
    ] {
        assert_eq!(cpu_text(value), text);
        assert_eq!(nanocores(text), value);
    }
    assert_eq!(memory_text(1_000), "1000");
    assert_eq!(sum_of(["1Mi", "1Ki", "0", "nonsense"].into_iter()), "1025Ki");
    assert_eq!(nanocores("5x"), 0);
}

#[test]
fn durations_have_the_form_of_go() {
    for (milliseconds, text) in [
        (10_000, "10s"),
        (500, "0.5s"),
        (90_250, "1m30.25s"),
        (60_000, "1m0s"),
    ] {
        assert_eq!(duration_text(milliseconds), text);
    }
}
