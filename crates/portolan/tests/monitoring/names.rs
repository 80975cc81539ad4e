//! Names of metrics and labels in rules, dashboards and documentation, compared with the pages of running components.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::pages::Page;
use super::promql::{self, Names};
use super::{components, documentation, files, promtool};

/// Labels that Prometheus adds to each series.
const TARGET_LABELS: [&str; 2] = ["job", "instance"];
/// Metrics that Prometheus adds to each target.
const TARGET_METRIC: &str = "up";
/// Complaints of `promtool check metrics` about names of upstream, which stay.
const UPSTREAM_NAMES: [&str; 12] = [
    // A gauge whose name ends like a counter's, or a counter whose name does not.
    "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
    "kubeproxy_sync_proxy_rules_iptables_total",
    "metallb_allocator_addresses_total",
    "metallb_allocator_addresses_in_use_total",
    "metallb_layer2_requests_received",
    "metallb_layer2_responses_sent",
    "metallb_layer2_gratuitous_sent",
    "endpoint_slice_controller_changes",
    "endpoint_slice_controller_syncs",
    "endpoint_slice_mirroring_controller_changes",
    "apiserver_",
    "kube_apiserver_",
];

/// Series of all pages, with their labels.
struct Series<'p> {
    pages: &'p BTreeMap<&'static str, Page>,
    /// Labels of recording rules.
    recorded: BTreeMap<String, BTreeSet<String>>,
}

impl Series<'_> {
    /// Returns the labels of a series without those of the target.
    fn labels(&self, series: &str) -> Option<BTreeSet<String>> {
        if series == TARGET_METRIC {
            return Some(BTreeSet::new());
        }
        if let Some(labels) = self.recorded.get(series) {
            return Some(labels.clone());
        }
        let found = self.pages.values().filter_map(|page| page.labels(series));
        found.reduce(|all, more| all.into_iter().chain(more).collect())
    }

    /// Returns the faults of an expression.
    fn faults(&self, expression: &str) -> Vec<String> {
        let Names { selectors, groupings } = promql::names(expression);
        let mut faults = Vec::new();
        let mut known: BTreeSet<String> = TARGET_LABELS.map(str::to_owned).into();
        for selector in &selectors {
            let Some(labels) = self.labels(&selector.metric) else {
                faults.push(format!("no component has the series {}", selector.metric));
                continue;
            };
            let is_known =
                |label: &&String| labels.contains(*label) || TARGET_LABELS.contains(&label.as_str());
            let unknown = selector.labels.iter().filter(|label| !is_known(label));
            faults.extend(unknown.map(|label| format!("{} has no label {label}", selector.metric)));
            known.extend(labels);
        }
        let unknown = groupings.difference(&known);
        faults.extend(unknown.map(|label| format!("no series has the label {label}")));
        if selectors.is_empty() {
            faults.push("no metric".to_owned());
        }
        faults
            .into_iter()
            .map(|fault| format!("{fault}: {expression}"))
            .collect()
    }
}

#[test]
fn components_have_the_metrics_of_rules_dashboards_and_documentation() {
    testbed::in_namespace(|| {
        for program in ["nft", "iptables-restore"] {
            if !Command::new(program)
                .arg("--version")
                .output()
                .is_ok_and(|output| output.status.success())
            {
                testbed::skip_inside(&format!("{program} is not installed"));
            }
        }
        let pages = components::pages();
        let mut series = Series {
            pages: &pages,
            recorded: BTreeMap::new(),
        };
        let mut faults = Vec::new();
        let rules = files::rules();
        for rule in &rules {
            if let Some(name) = rule["record"].as_str() {
                let groupings = promql::names(&files::string(&rule["expr"])).groupings;
                series.recorded.insert(name.to_owned(), groupings);
            }
        }
        for rule in &rules {
            faults.extend(series.faults(&files::string(&rule["expr"])));
        }
        for name in files::DASHBOARDS {
            for (title, expression) in files::panel_expressions(&files::dashboard(name)) {
                let of_panel = series.faults(&expression).into_iter();
                faults.extend(of_panel.map(|fault| format!("{name}: {title}: {fault}")));
            }
        }
        faults.extend(faults_of_tables(&pages));
        faults.extend(faults_of_pages(&pages));
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        assert!(!series.faults("sum(kubeproxy_no_such_metric)").is_empty());
        assert!(
            !series
                .faults("coredns_panics_total{no_such_label=\"\"}")
                .is_empty()
        );
    });
}

/// Compares the tables of the documentation with the pages.
fn faults_of_tables(pages: &BTreeMap<&'static str, Page>) -> Vec<String> {
    let mut faults = Vec::new();
    for row in documentation::rows() {
        let family = pages[row.page.as_str()].family(&row.metric);
        let labels = family.and_then(|family| family.labels.as_ref());
        match (row.is_present, family, labels) {
            (false, None, _) => {}
            (true, Some(_), Some(labels)) if *labels == row.labels => {}
            _ => faults.push(format!("{row:?}: the page has {family:?}")),
        }
    }
    faults
}

/// Checks each page by `promtool check metrics`, if it is installed.
fn faults_of_pages(pages: &BTreeMap<&'static str, Page>) -> Vec<String> {
    if !promtool::is_installed("pages_pass_promtool") {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (name, page) in pages {
        let (text, _) = promtool::run(Path::new("/"), &["check", "metrics"], &page.text);
        let complaints = text.lines().filter(|line| !line.is_empty());
        let ours =
            complaints.filter(|line| !UPSTREAM_NAMES.iter().any(|upstream| line.starts_with(upstream)));
        faults.extend(ours.map(|line| format!("{name}: {line}")));
    }
    faults
}
