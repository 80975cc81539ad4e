//! Tables of Deployments, ReplicaSets and scales.

use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, name, number_column, wide};
use crate::machinery::field::Path;
use crate::machinery::selector::LabelSelector;
use crate::machinery::tree::{child, items, number, text};

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

pub(super) static SCALE: Layout = Layout {
    columns: &[
        NAME,
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
fn wide_cells(spec: &Value) -> [Value; 3] {
    let containers = items(child(child(spec, "template"), "spec"), "containers");
    let joined = |field: &str| -> Value {
        let all: Vec<&str> = containers
            .iter()
            .map(|container| text(container, field))
            .collect();
        all.join(",").into()
    };
    // Stored selectors are valid.
    let selector = LabelSelector::from_object(&Path::new("selector"), child(spec, "selector"));
    let selector = selector.map_or_else(|_| String::new(), |selector| selector.to_string());
    let selector = super::or(&selector, NONE).into();
    [joined("name"), joined("image"), selector]
}
