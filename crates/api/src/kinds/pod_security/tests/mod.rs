use serde_json::{Value, json};

use super::*;

mod baseline;
mod configuration;
mod namespaces;
mod policies;
mod registry;
mod restricted;
mod updates;

/// Parses a policy such as `restricted:v1.34`.
fn policy(text: &str) -> LevelVersion {
    let (level, version) = text.split_once(':').expect("level:version");
    LevelVersion {
        level: Level::parse(level).expect("level"),
        version: Version::parse(version).expect("version"),
    }
}

/// Returns the violations of a Pod.
fn details(policy_text: &str, pod: &Value) -> String {
    evaluate(policy(policy_text), &PodView::new(pod)).details()
}

/// Returns a Pod with this spec.
fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

/// Returns a Pod with one container `a` that has these fields.
fn container(fields: Value) -> Value {
    let mut container = json!({"name": "a"});
    for (key, value) in fields.as_object().expect("fields") {
        container[key] = value.clone();
    }
    pod(json!({"containers": [container]}))
}

/// Returns a Pod with one container `a` that has this security context.
fn context(context: Value) -> Value {
    container(json!({"securityContext": context}))
}

/// Returns a Pod that complies with `restricted`.
fn compliant() -> Value {
    pod(json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext":
            {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
    }))
}
