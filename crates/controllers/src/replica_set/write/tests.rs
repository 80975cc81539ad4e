use serde_json::json;

use super::is_still_present;

#[test]
fn removed_pods_do_not_remain() {
    let of = |metadata| is_still_present(&json!({ "metadata": metadata }));
    let mark = "2026-01-01T00:00:00Z";
    assert!(of(
        json!({"deletionTimestamp": mark, "deletionGracePeriodSeconds": 30})
    ));
    let finalizers = ["batch.kubernetes.io/job-tracking"];
    assert!(of(
        json!({"deletionTimestamp": mark, "deletionGracePeriodSeconds": 0, "finalizers": finalizers})
    ));
    assert!(!of(
        json!({"deletionTimestamp": mark, "deletionGracePeriodSeconds": 0})
    ));
    assert!(!of(json!({})));
}
