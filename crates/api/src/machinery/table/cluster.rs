//! Rows of Nodes, Namespaces, Events and the small kinds.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, name, or, wide};
use crate::machinery::tree::{child, entries, flag_if_set, is_set, items, number, text};

pub(super) static NODE: Layout = Layout {
    columns: &[
        NAME,
        column("Status", "Whether the Node is ready and takes Pods."),
        column("Roles", "The roles of the Node."),
        AGE,
        column("Version", "Version of the node agent."),
        wide("Internal-IP", "The first internal address."),
        wide("External-IP", "The first external address."),
        wide("OS-Image", "Operating system."),
        wide("Kernel-Version", "Kernel."),
        wide("Container-Runtime", "What runs the containers."),
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
            or(text(system, "kernelVersion"), "<unknown>").into(),
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
        column("Last Seen", "When it happened last."),
        column("Type", "Normal or Warning."),
        column("Reason", "Why, in a word."),
        column("Object", "What it is about."),
        wide("Subobject", "Which part of the object."),
        wide("Source", "Who says so."),
        column("Message", "What happened."),
        wide("First Seen", "When it happened first."),
        wide("Count", "How often it happened."),
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
        column("Type", "What the entries are."),
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
    columns: &[NAME, column("Secrets", "Number of secrets."), AGE],
    cells: |account, now| {
        let secrets = items(account, "secrets").len();
        vec![name(account), secrets.into(), age::of(account, now)]
    },
};

pub(super) static LEASE: Layout = Layout {
    columns: &[NAME, column("Holder", "Who holds the lease."), AGE],
    cells: |lease, now| {
        let holder = text(child(lease, "spec"), "holderIdentity");
        vec![name(lease), holder.into(), age::of(lease, now)]
    },
};

/// Ready, NotReady or Unknown, and whether Pods may be put there.
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
            number(event, "count").max(1),
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

/// The number of entries of a map.
fn length(object: &Value, field: &str) -> usize {
    child(object, field).as_object().map_or(0, serde_json::Map::len)
}
