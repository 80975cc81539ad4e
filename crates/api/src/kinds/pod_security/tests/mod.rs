use serde_json::{Value, json};

use super::*;

mod baseline;
mod configuration;
mod namespaces;
mod policies;
mod registry;
mod restricted;
mod updates;

/// A policy by its text: `restricted:v1.34`.
fn policy(text: &str) -> LevelVersion {
    let (level, version) = text.split_once(':').expect("level:version");
    LevelVersion {
        level: Level::parse(level).expect("a level"),
        version: Version::parse(version).expect("a version"),
    }
}

/// What a policy finds in a Pod.
fn details(of: &str, pod: &Value) -> String {
    evaluate(policy(of), &PodView::new(pod)).details()
}

/// A Pod with this spec.
fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

/// A Pod of one container `a`, with these fields.
fn container(fields: Value) -> Value {
    let mut container = json!({"name": "a"});
    for (key, value) in fields.as_object().expect("fields") {
        container[key] = value.clone();
    }
    pod(json!({"containers": [container]}))
}

/// A Pod of one container `a` with this security context.
fn context(context: Value) -> Value {
    container(json!({"securityContext": context}))
}

/// A Pod that complies with `restricted`.
fn compliant() -> Value {
    pod(json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext":
            {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
    }))
}
