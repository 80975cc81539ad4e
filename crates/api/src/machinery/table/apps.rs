//! Tables of the workloads of `apps/v1`, of ReplicationControllers and of scales.

use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, name, number_column, wide};
use crate::machinery::selector::format_object;
use crate::machinery::tree::{child, entries, items, number, text};

pub(super) static DEPLOYMENT: Layout = Layout {
    columns: &[
        NAME,
        column("Ready", "Number of ready Pods and desired Pods."),
        column("Up-to-date", "Number of Pods of the current template."),
        column("Available", "Number of available Pods."),
        AGE,
        wide("Containers", "Container names."),
        wide("Images", "Container images."),
        wide("Selector", "Label selector of the Pods."),
    ],
    cells: |deployment, now| {
        let (spec, status) = (child(deployment, "spec"), child(deployment, "status"));
        let ready = (number(status, "readyReplicas"), number(spec, "replicas"));
        let mut cells = vec![
            name(deployment),
            format!("{}/{}", ready.0, ready.1).into(),
            number(status, "updatedReplicas").into(),
            number(status, "availableReplicas").into(),
            age::of(deployment, now),
        ];
        cells.extend(wide_cells(spec));
        cells
    },
};

pub(super) static REPLICA_SET: Layout = Layout {
    columns: &[
        NAME,
        number_column("Desired", "Number of desired Pods."),
        number_column("Current", "Number of existing Pods."),
        number_column("Ready", "Number of ready Pods."),
        AGE,
        wide("Containers", "Container names."),
        wide("Images", "Container images."),
        wide("Selector", "Label selector of the Pods."),
    ],
    cells: |replica_set, now| {
        let (spec, status) = (child(replica_set, "spec"), child(replica_set, "status"));
        let mut cells = vec![
            name(replica_set),
            number(spec, "replicas").into(),
            number(status, "replicas").into(),
            number(status, "readyReplicas").into(),
            age::of(replica_set, now),
        ];
        cells.extend(wide_cells(spec));
        cells
    },
};

pub(super) static STATEFUL_SET: Layout = Layout {
    columns: &[
        NAME,
        column("Ready", "Number of ready Pods and desired Pods."),
        AGE,
        wide("Containers", "Container names."),
        wide("Images", "Container images."),
    ],
    cells: |stateful_set, now| {
        let (spec, status) = (child(stateful_set, "spec"), child(stateful_set, "status"));
        let [containers, images, _] = wide_cells(spec);
        vec![
            name(stateful_set),
            format!("{}/{}", number(status, "readyReplicas"), number(spec, "replicas")).into(),
            age::of(stateful_set, now),
            containers,
            images,
        ]
    },
};

pub(super) static DAEMON_SET: Layout = Layout {
    columns: &[
        NAME,
        number_column("Desired", "Number of Nodes that are to run a Pod."),
        number_column("Current", "Number of those Nodes with a Pod."),
        number_column("Ready", "Number of those Nodes with a ready Pod."),
        number_column(
            "Up-to-date",
            "Number of those Nodes with a Pod of the current template.",
        ),
        number_column("Available", "Number of those Nodes with an available Pod."),
        column("Node Selector", "Node selector of the Pods."),
        AGE,
        wide("Containers", "Container names."),
        wide("Images", "Container images."),
        wide("Selector", "Label selector of the Pods."),
    ],
    cells: |daemon_set, now| {
        let (spec, status) = (child(daemon_set, "spec"), child(daemon_set, "status"));
        let selector = entries(child(child(spec, "template"), "spec"), "nodeSelector");
        let selector: Vec<String> = selector.map(|(key, value)| format!("{key}={value}")).collect();
        let mut cells = vec![
            name(daemon_set),
            number(status, "desiredNumberScheduled").into(),
            number(status, "currentNumberScheduled").into(),
            number(status, "numberReady").into(),
            number(status, "updatedNumberScheduled").into(),
            number(status, "numberAvailable").into(),
            super::or(&selector.join(","), NONE).into(),
            age::of(daemon_set, now),
        ];
        cells.extend(wide_cells(spec));
        cells
    },
};

pub(super) static CONTROLLER_REVISION: Layout = Layout {
    columns: &[
        NAME,
        column("Controller", "The StatefulSet or DaemonSet of the revision."),
        column("Revision", "Number of the revision."),
        AGE,
    ],
    cells: |revision, now| {
        let owners = items(child(revision, "metadata"), "ownerReferences");
        let controller = owners
            .iter()
            .find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
        let controller = controller.map_or_else(
            || NONE.to_owned(),
            |owner| {
                controller_name(
                    text(owner, "apiVersion"),
                    text(owner, "kind"),
                    text(owner, "name"),
                )
            },
        );
        vec![
            name(revision),
            controller.into(),
            number(revision, "revision").into(),
            age::of(revision, now),
        ]
    },
};

/// Returns `statefulset.apps/web`.
fn controller_name(api_version: &str, kind: &str, name: &str) -> String {
    let kind = kind.to_lowercase();
    match api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

pub(super) static SCALE: Layout = Layout {
    columns: &[
        // As upstream, without the format of names.
        column("Name", "Name of the scaled object."),
        number_column("Desired", "Number of desired Pods."),
        number_column("Available", "Number of existing Pods."),
        AGE,
    ],
    cells: |scale, now| {
        vec![
            name(scale),
            number(child(scale, "spec"), "replicas").into(),
            number(child(scale, "status"), "replicas").into(),
            age::of(scale, now),
        ]
    },
};

/// Returns containers, images and selector.
pub(super) fn wide_cells(spec: &Value) -> [Value; 3] {
    let containers = items(child(child(spec, "template"), "spec"), "containers");
    let joined = |field: &str| -> Value {
        let all: Vec<&str> = containers
            .iter()
            .map(|container| text(container, field))
            .collect();
        all.join(",").into()
    };
    // Stored selectors are valid.
    let selector = child(spec, "selector");
    // The selector of a ReplicationController is a map of labels.
    let is_map = selector
        .as_object()
        .is_some_and(|map| map.values().any(Value::is_string));
    let selector = if is_map {
        serde_json::json!({ "matchLabels": selector })
    } else {
        selector.clone()
    };
    let selector = super::or(&format_object(&selector), NONE).into();
    [joined("name"), joined("image"), selector]
}
