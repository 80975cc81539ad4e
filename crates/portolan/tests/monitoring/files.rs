//! Files in `deploy/monitoring`.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

/// Dashboards, without their suffix.
pub(crate) const DASHBOARDS: [&str; 4] = ["proxy", "dns", "controllers", "load-balancer"];

/// An alert of `rules.yaml`.
pub(crate) struct Alert {
    pub name: String,
    pub value: Value,
}

/// Returns the path of a file in `deploy/monitoring`.
pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/monitoring")
        .join(name)
}

/// Returns the text of a file in `deploy/monitoring`.
pub(crate) fn text(name: &str) -> String {
    let path = path(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Parses a file with one YAML document.
pub(crate) fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Parses the documents of a YAML file.
pub(crate) fn documents(name: &str) -> Vec<Value> {
    let text = text(name);
    let documents = text.split("\n---\n").map(serde_saphyr::from_str);
    documents
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Parses a dashboard.
pub(crate) fn dashboard(name: &str) -> Value {
    let file = format!("dashboards/{name}.json");
    serde_json::from_str(&text(&file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns the rules of `rules.yaml`.
pub(crate) fn rules() -> Vec<Value> {
    let rules = yaml("rules.yaml");
    list(&rules["groups"])
        .iter()
        .flat_map(|group| list(&group["rules"]).to_vec())
        .collect()
}

/// Returns the alerts of `rules.yaml`.
pub(crate) fn alerts() -> Vec<Alert> {
    let alerts = rules().into_iter().filter_map(|value| {
        let name = value["alert"].as_str()?.to_owned();
        Some(Alert { name, value })
    });
    alerts.collect()
}

/// Returns an expression of each panel of a dashboard, with the panel's title.
pub(crate) fn panel_expressions(dashboard: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for panel in list(&dashboard["panels"]) {
        for target in panel["targets"].as_array().into_iter().flatten() {
            found.push((string(&panel["title"]), string(&target["expr"])));
        }
    }
    found
}

/// Returns a list that must exist.
pub(crate) fn list(value: &Value) -> &[Value] {
    value
        .as_array()
        .unwrap_or_else(|| panic!("expected a list, found {value}"))
}

/// Returns a string that must exist.
pub(crate) fn string(value: &Value) -> String {
    let text = value
        .as_str()
        .unwrap_or_else(|| panic!("expected a string, found {value}"));
    text.to_owned()
}
