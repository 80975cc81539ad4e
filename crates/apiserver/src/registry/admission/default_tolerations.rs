//! DefaultTolerationSeconds: a new or changed Pod stays for five minutes on a Node that is not ready or unreachable. Other
//! tolerations for these taints take precedence.

use api::tree::{items, object_mut, set, text};
use serde_json::{Value, json};

/// Taints of Nodes without heartbeats.
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// Upstream's `--default-not-ready-toleration-seconds` and `--default-unreachable-toleration-seconds`.
const TOLERATION_SECONDS: i64 = 300;

/// Adds the tolerations that a Pod lacks, also in an update, which replaces the list.
pub(super) fn admit(pod: &mut Value) {
    object_mut(pod, "spec");
    let Some(spec) = pod.get_mut("spec") else { return };
    let mut tolerations = items(spec, "tolerations").to_vec();
    let before = tolerations.len();
    for taint in TAINTS {
        let is_about = |toleration: &Value| {
            let key = text(toleration, "key");
            (key == taint || key.is_empty()) && matches!(text(toleration, "effect"), "NoExecute" | "")
        };
        if !tolerations[..before].iter().any(is_about) {
            tolerations.push(json!({
                "key": taint,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": TOLERATION_SECONDS,
            }));
        }
    }
    if tolerations.len() > before {
        set(spec, "tolerations", tolerations);
    }
}

#[cfg(test)]
mod tests;
