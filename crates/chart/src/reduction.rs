//! Removal of the parts of objects that readers of the map may not see or do not need.
//!
//! A reader of the map has the right to list objects, so most of them are not secret. Environment variables, commands,
//! annotations and headers of probes often hold passwords, and findings quote objects. The rules that need such a part
//! report nothing.

use explain::Kind;
use serde_json::{Map, Value, json};

/// Maximum number of bytes of an annotation that is kept. A longer one is data of a tool.
const ANNOTATION_BYTES_MAX: usize = 1_024;
/// Annotation with a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Kinds with annotations that the rules read.
const ANNOTATED: [Kind; 4] = [Kind::Service, Kind::Endpoints, Kind::EndpointSlice, Kind::Ingress];

/// Text in place of a command.
const OMITTED: &str = "…";

/// Fields of the metadata that are kept, besides annotations.
const METADATA: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "labels",
    "ownerReferences",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
];
/// Fields of a Pod spec that are kept.
const POD_SPEC: [&str; 8] = [
    "nodeName",
    "hostname",
    "subdomain",
    "hostNetwork",
    "dnsPolicy",
    "dnsConfig",
    "readinessGates",
    "restartPolicy",
];
/// Fields of a container that are kept.
const CONTAINER: [&str; 5] = ["name", "image", "ports", "restartPolicy", "readinessProbe"];
/// Fields of a Pod status that are kept.
const POD_STATUS: [&str; 7] = [
    "phase",
    "reason",
    "podIP",
    "podIPs",
    "hostIP",
    "conditions",
    "startTime",
];
/// Fields of the state of a container that are kept.
const CONTAINER_STATUS: [&str; 6] = ["name", "ready", "started", "restartCount", "state", "lastState"];

/// Reduces an object to the parts that the map reads.
pub fn reduce(kind: Kind, tree: &mut Value) {
    let annotations = kept_annotations(kind, &tree["metadata"]["annotations"]);
    keep_fields(tree.get_mut("metadata"), &METADATA);
    if let Some(metadata) = tree.get_mut("metadata").and_then(Value::as_object_mut)
        && !annotations.is_empty()
    {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    match kind {
        Kind::Pod => {
            reduce_pod_spec(tree.get_mut("spec"));
            reduce_pod_status(tree.get_mut("status"));
        }
        Kind::Node => reduce_node(tree),
        Kind::CronJob => reduce_template(tree.pointer_mut("/spec/jobTemplate/spec/template")),
        Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::DaemonSet | Kind::Job => {
            reduce_template(tree.pointer_mut("/spec/template"));
        }
        _ => {}
    }
}

fn kept_annotations(kind: Kind, annotations: &Value) -> Map<String, Value> {
    let annotations = annotations.as_object().filter(|_| ANNOTATED.contains(&kind));
    let is_kept = |(name, value): &(&String, &Value)| {
        let bytes = value.as_str().map_or(0, str::len);
        name.as_str() != LAST_APPLIED && bytes <= ANNOTATION_BYTES_MAX
    };
    let kept = annotations.into_iter().flatten().filter(is_kept);
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Removes all other fields of an object.
fn keep_fields(tree: Option<&mut Value>, fields: &[&str]) {
    if let Some(Value::Object(tree)) = tree {
        tree.retain(|name, _| fields.contains(&name.as_str()));
    }
}

fn items<'t>(tree: &'t mut Value, field: &str) -> impl Iterator<Item = &'t mut Value> {
    tree.get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

fn reduce_template(template: Option<&mut Value>) {
    if let Some(template) = template {
        keep_fields(template.get_mut("metadata"), &METADATA);
        reduce_pod_spec(template.get_mut("spec"));
    }
}

fn reduce_pod_spec(spec: Option<&mut Value>) {
    let Some(spec) = spec else {
        return;
    };
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            keep_fields(Some(container), &CONTAINER);
            if let Some(probe) = container.get_mut("readinessProbe") {
                keep_fields(probe.get_mut("httpGet"), &["path", "port", "scheme"]);
                if let Some(command) = probe.pointer_mut("/exec/command") {
                    *command = json!([OMITTED]);
                }
            }
        }
    }
    let kept: Vec<&str> = POD_SPEC
        .into_iter()
        .chain(["containers", "initContainers"])
        .collect();
    keep_fields(Some(spec), &kept);
}

fn reduce_pod_status(status: Option<&mut Value>) {
    let Some(status) = status else {
        return;
    };
    let lists = ["containerStatuses", "initContainerStatuses"];
    for list in lists {
        for container in items(status, list) {
            keep_fields(Some(container), &CONTAINER_STATUS);
            for field in ["state", "lastState"] {
                let states = container.get_mut(field).and_then(Value::as_object_mut);
                for (_, state) in states.into_iter().flatten() {
                    // The message of a terminated container is the end of its log.
                    keep_fields(
                        Some(state),
                        &["reason", "exitCode", "signal", "startedAt", "finishedAt"],
                    );
                }
            }
        }
    }
    let kept: Vec<&str> = POD_STATUS.into_iter().chain(lists).collect();
    keep_fields(Some(status), &kept);
}

/// Heartbeats change nothing that the map shows.
fn reduce_node(tree: &mut Value) {
    let Some(status) = tree.get_mut("status") else {
        return;
    };
    for condition in items(status, "conditions") {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("lastHeartbeatTime");
        }
    }
    keep_fields(Some(status), &["addresses", "conditions"]);
}

#[cfg(test)]
mod tests;
