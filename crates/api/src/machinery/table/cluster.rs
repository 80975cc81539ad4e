//! Tables of Nodes, Namespaces, Events and smaller kinds.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, name, or, wide};
use crate::machinery::tree::{child, entries, flag_if_set, is_set, items, number, text};

pub(super) static NODE: Layout = Layout {
    columns: &[
        NAME,
        column("Status", "Readiness, and whether scheduling is disabled."),
        column("Roles", "Roles of the Node."),
        AGE,
        column("Version", "Version of the node agent."),
        wide("Internal-IP", "First internal address."),
        wide("External-IP", "First external address."),
        wide("OS-Image", "Operating system."),
        wide("Kernel-Version", "Kernel version."),
        wide("Container-Runtime", "Container runtime."),
    ],
    cells: |node, now| {
        let system = child(child(node, "status"), "nodeInfo");
        vec![
            name(node),
            node_status(node).into(),
            roles(node).into(),
            age::of(node, now),
            text(system, "kubeletVersion").into(),
            address(node, "InternalIP").into(),
            address(node, "ExternalIP").into(),
            or(text(system, "osImage"), "<unknown>").into(),
            kernel(system).into(),
            or(text(system, "containerRuntimeVersion"), "<unknown>").into(),
        ]
    },
};

pub(super) static NAMESPACE: Layout = Layout {
    columns: &[NAME, column("Status", "Active or Terminating."), AGE],
    cells: |namespace, now| {
        let phase = text(child(namespace, "status"), "phase");
        vec![name(namespace), phase.into(), age::of(namespace, now)]
    },
};

pub(super) static EVENT: Layout = Layout {
    columns: &[
        column("Last Seen", "Time since the last occurrence."),
        column("Type", "Normal or Warning."),
        column("Reason", "Machine-readable reason."),
        column("Object", "Object that the Event regards."),
        wide("Subobject", "Field of the object."),
        wide("Source", "Reporting component."),
        column("Message", "Description."),
        wide("First Seen", "Time since the first occurrence."),
        wide("Count", "Number of occurrences."),
        super::Column { priority: 1, ..NAME },
    ],
    cells: event,
};

pub(super) static CONFIG_MAP: Layout = Layout {
    columns: &[NAME, column("Data", "Number of entries."), AGE],
    cells: |map, now| {
        let entries = length(map, "data") + length(map, "binaryData");
        vec![name(map), entries.into(), age::of(map, now)]
    },
};

pub(super) static SECRET: Layout = Layout {
    columns: &[
        NAME,
        column("Type", "Type of the Secret."),
        column("Data", "Number of entries."),
        AGE,
    ],
    cells: |secret, now| {
        let kind = text(secret, "type");
        vec![
            name(secret),
            kind.into(),
            length(secret, "data").into(),
            age::of(secret, now),
        ]
    },
};

pub(super) static SERVICE_ACCOUNT: Layout = Layout {
    columns: &[NAME, AGE],
    cells: |account, now| vec![name(account), age::of(account, now)],
};

pub(super) static LEASE: Layout = Layout {
    columns: &[NAME, column("Holder", "Holder of the Lease."), AGE],
    cells: |lease, now| {
        let holder = text(child(lease, "spec"), "holderIdentity");
        vec![name(lease), holder.into(), age::of(lease, now)]
    },
};

/// Returns `Ready`, `NotReady` or `Unknown`, with `SchedulingDisabled` if Pods are not scheduled.
fn node_status(node: &Value) -> String {
    let ready = items(child(node, "status"), "conditions")
        .iter()
        .find(|condition| text(condition, "type") == "Ready");
    let status = match ready.map(|condition| text(condition, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    match flag_if_set(child(node, "spec"), "unschedulable") {
        Some(true) => format!("{status},SchedulingDisabled"),
        _ => status.to_owned(),
    }
}

/// Returns the version of the kernel with the architecture, as in `6.1.0 (amd64)`.
fn kernel(system: &Value) -> String {
    let version = or(text(system, "kernelVersion"), "<unknown>");
    match text(system, "architecture") {
        "" => version.to_owned(),
        architecture => format!("{version} ({architecture})"),
    }
}

fn roles(node: &Value) -> String {
    let roles: BTreeSet<&str> = entries(child(node, "metadata"), "labels")
        .filter_map(
            |(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role),
                None if key == "kubernetes.io/role" => Some(value),
                None => None,
            },
        )
        .filter(|role| !role.is_empty())
        .collect();
    or(&roles.into_iter().collect::<Vec<_>>().join(","), NONE).to_owned()
}

fn address<'n>(node: &'n Value, kind: &str) -> &'n str {
    items(child(node, "status"), "addresses")
        .iter()
        .find(|address| text(address, "type") == kind)
        .map_or(NONE, |address| text(address, "address"))
}

fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let first = or(text(event, "firstTimestamp"), text(event, "eventTime"));
    let series = child(event, "series");
    let (last, count) = if is_set(event, "series") {
        (text(series, "lastObservedTime"), number(series, "count"))
    } else {
        (
            or(text(event, "lastTimestamp"), first),
            match number(event, "count") {
                0 => 1,
                count => count,
            },
        )
    };
    let involved = child(event, "involvedObject");
    let kind = text(involved, "kind").to_lowercase();
    let object = match text(involved, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = child(event, "source");
    let component = or(text(source, "component"), text(event, "reportingComponent"));
    let source = match or(text(source, "host"), text(event, "reportingInstance")) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    vec![
        age::since(last, now).into(),
        text(event, "type").into(),
        text(event, "reason").into(),
        object.into(),
        text(involved, "fieldPath").into(),
        source.into(),
        text(event, "message").trim().into(),
        age::since(first, now).into(),
        count.into(),
        name(event),
    ]
}

/// Returns the number of entries of a map.
fn length(object: &Value, field: &str) -> usize {
    child(object, field).as_object().map_or(0, serde_json::Map::len)
}
