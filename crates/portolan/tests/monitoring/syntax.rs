//! Rules, dashboards and scrape configuration by themselves.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::{files, promtool};

#[test]
fn rules_and_their_tests_pass_promtool() {
    if !promtool::is_installed("rules_and_their_tests_pass_promtool") {
        return;
    }
    let directory = files::path("");
    let (text, is_valid) = promtool::run(&directory, &["check", "rules", "rules.yaml"], "");
    assert!(is_valid, "{text}");
    let (text, is_passed) = promtool::run(&directory, &["test", "rules", "rules-test.yaml"], "");
    assert!(is_passed, "{text}");
}

#[test]
fn expressions_of_dashboards_pass_promtool() {
    if !promtool::is_installed("expressions_of_dashboards_pass_promtool") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    for name in files::DASHBOARDS {
        let expressions = files::panel_expressions(&files::dashboard(name));
        assert!(
            expressions.len() > 15,
            "{name}: {} expressions",
            expressions.len()
        );
        let rules: Vec<Value> = expressions
            .iter()
            .enumerate()
            .map(|(number, (_, expression))| {
                let expression = expression.replace("$__rate_interval", "5m");
                json!({"record": format!("panel:{number}"), "expr": expression})
            })
            .collect();
        let groups = json!({"groups": [{"name": name, "rules": rules}]});
        // JSON is YAML.
        fs::write(directory.path().join("rules.yaml"), groups.to_string()).expect("a file");
        let (text, is_valid) = promtool::run(directory.path(), &["check", "rules", "rules.yaml"], "");
        assert!(is_valid, "{name}: {text}");
    }
}

/// Debian's build of `promtool` does not support discovery in Kubernetes, so the test replaces it.
#[test]
fn scrape_configuration_passes_promtool() {
    if !promtool::is_installed("scrape_configuration_passes_promtool") {
        return;
    }
    let mut configuration = files::yaml("scrape-config.yaml");
    for job in configuration["scrape_configs"].as_array_mut().expect("jobs") {
        let job = job.as_object_mut().expect("a job");
        job.remove("kubernetes_sd_configs").expect("discovery");
        job.insert("static_configs".to_owned(), json!([{"targets": ["192.0.2.1:1"]}]));
    }
    let directory = tempfile::tempdir().expect("a directory");
    fs::copy(files::path("rules.yaml"), directory.path().join("rules.yaml")).expect("a copy");
    fs::write(
        directory.path().join("prometheus.yaml"),
        configuration.to_string(),
    )
    .expect("a file");
    let (text, is_valid) = promtool::run(directory.path(), &["check", "config", "prometheus.yaml"], "");
    assert!(is_valid, "{text}");
}

#[test]
fn objects_of_the_operator_have_the_same_rules_and_jobs() {
    let object = files::yaml("prometheusrule.yaml");
    assert_eq!(object["kind"], "PrometheusRule");
    assert_eq!(object["spec"]["groups"], files::yaml("rules.yaml")["groups"]);

    let configuration = files::yaml("scrape-config.yaml");
    let mut jobs = BTreeSet::new();
    for job in files::list(&configuration["scrape_configs"]) {
        let relabelings = files::list(&job["relabel_configs"]);
        let kept = relabelings.iter().find(|relabeling| {
            let label = files::string(&relabeling["source_labels"][0]);
            relabeling["action"] == "keep" && !label.ends_with("_port_name")
        });
        let value = files::string(&kept.expect("a selector")["regex"]);
        let is_per_node = relabelings
            .iter()
            .any(|relabeling| relabeling["target_label"] == "instance");
        let honors_labels = job["honor_labels"] == true;
        jobs.insert((files::string(&job["job_name"]), value, is_per_node, honors_labels));
    }
    let mut monitored = BTreeSet::new();
    for monitor in files::documents("monitors.yaml") {
        let labels = monitor["spec"]["selector"]["matchLabels"]
            .as_object()
            .expect("labels");
        let (_, value) = labels.iter().next().expect("a label");
        let endpoints = match monitor["kind"].as_str() {
            Some("PodMonitor") => &monitor["spec"]["podMetricsEndpoints"],
            _ => &monitor["spec"]["endpoints"],
        };
        let endpoint = &files::list(endpoints)[0];
        assert_eq!(endpoint["port"], "metrics");
        let replaced = |target: &str| {
            let mut relabelings = endpoint["relabelings"].as_array().into_iter().flatten();
            relabelings.find(|relabeling| relabeling["targetLabel"] == target)
        };
        let job = replaced("job").map_or_else(
            // The job is the value of the label, which the selector requires.
            || {
                assert!(labels.contains_key(&files::string(&monitor["spec"]["jobLabel"])));
                files::string(value)
            },
            |relabeling| files::string(&relabeling["replacement"]),
        );
        let honors_labels = endpoint["honorLabels"] == true;
        monitored.insert((
            job,
            files::string(value),
            replaced("instance").is_some(),
            honors_labels,
        ));
    }
    assert_eq!(jobs.len(), 5);
    assert_eq!(monitored, jobs);
}

#[test]
fn alerts_have_texts_a_test_and_a_row_in_the_documentation() {
    let documentation = fs::read_to_string(files::path("../../docs/monitoring.md")).expect("a page");
    let tests = files::text("rules-test.yaml");
    let alerts = files::alerts();
    let mut rows = 0;
    for alert in &alerts {
        let texts = &alert.value["annotations"];
        for text in ["summary", "description", "runbook"] {
            assert!(
                texts[text].as_str().is_some_and(|text| text.len() > 10),
                "{}: {text}",
                alert.name
            );
        }
        let severity = files::string(&alert.value["labels"]["severity"]);
        assert!(
            ["critical", "warning", "info"].contains(&severity.as_str()),
            "{severity}"
        );
        assert!(
            tests.contains(&alert.name),
            "rules-test.yaml does not expect {}",
            alert.name
        );
        let duration = alert.value["for"].as_str().unwrap_or("–");
        let summary = files::string(&texts["summary"]);
        let row = format!("| `{}` | {severity} | {duration} | {summary} |", alert.name);
        assert!(documentation.lines().any(|line| line == row), "no row {row}");
        rows += 1;
    }
    let documented = documentation
        .lines()
        .filter(|line| line.starts_with("| `Portolan"));
    assert_eq!(documented.count(), rows);
    assert!(rows > 30, "{rows} alerts");
}

#[test]
fn runbooks_that_refer_to_another_alert_name_an_existing_one() {
    let names: BTreeSet<String> = files::alerts().into_iter().map(|alert| alert.name).collect();
    let mut references = 0;
    for alert in files::alerts() {
        let runbook = files::string(&alert.value["annotations"]["runbook"]);
        let words = runbook.split(|character: char| !character.is_ascii_alphanumeric());
        for word in words.filter(|word| word.starts_with("Portolan") && word.len() > "Portolan".len()) {
            assert!(names.contains(word), "{}: {word}", alert.name);
            references += 1;
        }
    }
    assert!(references > 5, "{references} references");
}

#[test]
fn dashboards_are_consistent() {
    let mut uids = BTreeSet::new();
    for name in files::DASHBOARDS {
        let dashboard = files::dashboard(name);
        assert!(uids.insert(files::string(&dashboard["uid"])), "{name}");
        let variables: BTreeSet<String> = files::list(&dashboard["templating"]["list"])
            .iter()
            .map(|variable| files::string(&variable["name"]))
            .collect();
        assert!(variables.contains("datasource"), "{name}");
        let mut ids = BTreeSet::new();
        let mut cells = BTreeSet::new();
        for panel in files::list(&dashboard["panels"]) {
            let title = files::string(&panel["title"]);
            assert!(
                ids.insert(panel["id"].as_u64()),
                "{name}: two panels have the id of {title}"
            );
            let at = |field: &str| panel["gridPos"][field].as_u64().expect("a number");
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(
                        x < 24 && cells.insert((x, y)),
                        "{name}: {title} covers another panel"
                    );
                }
            }
            let is_row = panel["type"] == "row";
            let targets = panel["targets"].as_array().map_or(0, Vec::len);
            assert_eq!(is_row, targets == 0, "{name}: {title}");
            assert!(
                is_row || panel["datasource"]["uid"] == "${datasource}",
                "{name}: {title}"
            );
        }
        for (title, expression) in files::panel_expressions(&dashboard) {
            for part in expression.split('$').skip(1) {
                let variable: String = part
                    .chars()
                    .take_while(|character| character.is_ascii_alphanumeric() || *character == '_')
                    .collect();
                let is_known = variable == "__rate_interval" || variables.contains(&variable);
                assert!(is_known, "{name}: {title}: ${variable}");
            }
        }
    }
}
