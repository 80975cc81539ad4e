//! Tables of measured CPU time and memory, with the columns of upstream's metrics-server.

use serde_json::Value;

use super::{Column, Layout, NAME, column, name};
use crate::kinds::resource_metrics::{cpu_text, nanocores, sum_of};
use crate::machinery::tree::{child, items, text};

const COLUMNS: &[Column] = &[
    NAME,
    column("cpu", "CPU time for each second."),
    column("memory", "Working set."),
    column("Window", "Time between the two samples."),
];

pub(super) static NODE: Layout = Layout {
    columns: COLUMNS,
    cells: |node, _now| cells(node, &[child(node, "usage")]),
};

pub(super) static POD: Layout = Layout {
    columns: COLUMNS,
    cells: |pod, _now| {
        let containers = items(pod, "containers").iter();
        let usages: Vec<&Value> = containers.map(|container| child(container, "usage")).collect();
        cells(pod, &usages)
    },
};

/// Returns the cells of an object with the sum of its usages.
fn cells(object: &Value, usages: &[&Value]) -> Vec<Value> {
    let cpu = usages.iter().map(|usage| nanocores(text(usage, "cpu")));
    vec![
        name(object),
        cpu_text(cpu.fold(0, u128::saturating_add)).into(),
        sum_of(usages.iter().map(|usage| text(usage, "memory"))).into(),
        text(object, "window").into(),
    ]
}
