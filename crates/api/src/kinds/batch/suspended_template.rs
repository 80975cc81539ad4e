//! Changes of the template of a suspended Job (upstream's `validatePodTemplateUpdate`).

use serde_json::Value;

use crate::machinery::tree::{
    child, flag_if_set, is_set, items, items_mut, number, object_mut, set_or_clear, text,
};

/// Returns true if a Job may change parts of its template. The Job has to be suspended without active Pods. It has
/// either never started, or has stopped its Pods since then.
pub(super) fn is_adjustable(old: &Value) -> bool {
    let (spec, status) = (child(old, "spec"), child(old, "status"));
    let mut conditions = items(status, "conditions").iter();
    let has_stopped = conditions
        .any(|condition| text(condition, "type") == "Suspended" && text(condition, "status") == "True");
    flag_if_set(spec, "suspend") == Some(true)
        && number(status, "active") == 0
        && (!is_set(status, "startTime") || has_stopped)
}

/// Returns the old template with the parts of the new one that a suspended Job may change: labels, annotations, scheduling
/// directives and resources.
pub(super) fn adjusted_template(old: &Value, new: &Value) -> Value {
    let mut template = old.clone();
    copy(&mut template, new, "metadata", &["labels", "annotations"]);
    copy(
        &mut template,
        new,
        "spec",
        &["nodeSelector", "tolerations", "schedulingGates"],
    );
    let new_spec = child(new, "spec");
    let Some(spec) = template.get_mut("spec") else {
        return template;
    };
    copy_node_affinity(spec, child(new_spec, "affinity"));
    for list in ["initContainers", "containers"] {
        for (container, changed) in items_mut(spec, list).iter_mut().zip(items(new_spec, list)) {
            set_or_clear(container, "resources", changed.get("resources").cloned());
        }
    }
    template
}

/// Copies fields of the object at `parent`.
fn copy(to: &mut Value, from: &Value, parent: &str, fields: &[&str]) {
    let source = child(from, parent);
    if source.is_null() && !is_set(to, parent) {
        return;
    }
    object_mut(to, parent);
    let Some(target) = to.get_mut(parent) else { return };
    for field in fields {
        set_or_clear(target, field, source.get(*field).cloned());
    }
}

/// Copies the node affinity. An affinity that has no other part then is absent if the new one is.
fn copy_node_affinity(spec: &mut Value, affinity: &Value) {
    const FIELD: &str = "affinity";
    if affinity.is_null() && !is_set(spec, FIELD) {
        return;
    }
    let own = object_mut(spec, FIELD);
    match affinity.get("nodeAffinity") {
        Some(given) => own.insert("nodeAffinity".to_owned(), given.clone()),
        None => own.shift_remove("nodeAffinity"),
    };
    if own.is_empty() && affinity.is_null() {
        set_or_clear(spec, FIELD, None);
    }
}
