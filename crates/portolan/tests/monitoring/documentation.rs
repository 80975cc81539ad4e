//! Tables of upstream's metrics in `docs/monitoring.md`.

use std::collections::BTreeSet;
use std::fs;

use super::files;

/// A row of a table.
#[derive(Debug)]
pub(crate) struct Row {
    /// Component whose page has the metric.
    pub page: String,
    pub metric: String,
    pub labels: BTreeSet<String>,
    /// False if the metric is absent.
    pub is_present: bool,
}

/// Returns the rows of the tables below the marks `<!-- page: NAME -->`.
pub(crate) fn rows() -> Vec<Row> {
    let text = fs::read_to_string(files::path("../../docs/monitoring.md")).expect("a page");
    let mut rows = Vec::new();
    let mut page = None;
    for line in text.lines() {
        if let Some(mark) = line.strip_prefix("<!-- page: ") {
            page = mark.strip_suffix(" -->");
        } else if line.is_empty() {
            page = None;
        } else if let (Some(page), true) = (page, line.starts_with("| `")) {
            rows.push(row(page, line));
        }
    }
    rows
}

fn row(page: &str, line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [metric, labels, state] = cells.as_slice() else {
        panic!("expected three cells: {line}");
    };
    let is_present = state.starts_with("same");
    assert!(is_present || state.starts_with("absent: "), "{line}");
    let names = |cell: &str| {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    Row {
        page: page.to_owned(),
        metric: names(metric).remove(0),
        labels: names(labels).into_iter().collect(),
        is_present,
    }
}

#[test]
fn tables_have_rows_for_each_component() {
    let rows = rows();
    for page in ["proxy", "dns", "controllers", "balancer"] {
        let of_page = rows.iter().filter(|row| row.page == page);
        assert!(
            of_page.clone().filter(|row| row.is_present).count() >= 8,
            "{page}"
        );
        assert!(of_page.filter(|row| !row.is_present).count() >= 1, "{page}");
    }
}
