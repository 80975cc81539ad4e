//! Rows of Deployments, ReplicaSets and their scales.

use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, name, number_column, wide};
use crate::machinery::field::Path;
use crate::machinery::selector::LabelSelector;
use crate::machinery::tree::{child, items, number, text};

pub(super) static DEPLOYMENT: Layout = Layout {
    columns: &[
        NAME,
        column("Ready", "Pods that are ready, of all that there should be."),
        column("Up-to-date", "Pods that are as the Deployment wants them now."),
        column("Available", "Pods that have been ready for long enough."),
        AGE,
        wide("Containers", "Names of the containers."),
        wide("Images", "Images of the containers."),
        wide("Selector", "The labels that choose the Pods."),
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
        number_column("Desired", "Pods that there should be."),
        number_column("Current", "Pods that there are."),
        number_column("Ready", "Pods that are ready."),
        AGE,
        wide("Containers", "Names of the containers."),
        wide("Images", "Images of the containers."),
        wide("Selector", "The labels that choose the Pods."),
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
        number_column("Desired", "Pods that there should be."),
        number_column("Available", "Pods that there are."),
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

/// Containers, images and selector.
fn wide_cells(spec: &Value) -> [Value; 3] {
    let containers = items(child(child(spec, "template"), "spec"), "containers");
    let joined = |field: &str| -> Value {
        let all: Vec<&str> = containers
            .iter()
            .map(|container| text(container, field))
            .collect();
        all.join(",").into()
    };
    // What is stored has been checked.
    let selector = LabelSelector::from_object(&Path::new("selector"), child(spec, "selector"));
    let selector = selector.map_or_else(|_| String::new(), |selector| selector.to_string());
    let selector = super::or(&selector, NONE).into();
    [joined("name"), joined("image"), selector]
}
