//! Tables of multi-cluster kinds, with the columns of upstream's definition.

use super::{AGE, Layout, NAME, age, column, name};
use crate::machinery::tree::{child, text, texts};

pub(super) static SERVICE_IMPORT: Layout = Layout {
    columns: &[
        NAME,
        column("Type", "ClusterSetIP or Headless."),
        column("IP", "Clusterset IPs."),
        AGE,
    ],
    cells: |import, now| {
        let spec = child(import, "spec");
        let addresses: Vec<String> = texts(spec, "ips")
            .iter()
            .map(|address| format!("{address:?}"))
            .collect();
        let shown = if addresses.is_empty() {
            String::new()
        } else {
            format!("[{}]", addresses.join(","))
        };
        vec![
            name(import),
            text(spec, "type").into(),
            shown.into(),
            age::of(import, now),
        ]
    },
};
