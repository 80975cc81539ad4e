use clap::Parser;
use explain::Code;
use serde_json::Value;

use super::*;

#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    flags: Flags,
}

fn flags(arguments: &[&str]) -> Flags {
    let line = [&["node"], arguments].concat();
    CommandLine::try_parse_from(line).expect("flags").flags
}

#[test]
fn probes_are_off_by_default() {
    assert_eq!(flags(&[]).probe, None);
    assert_eq!(flags(&["--probe"]).probe, Some(true));
    assert_eq!(
        flags(&["service", "shop/web", "--probe=false"]).probe,
        Some(false)
    );
}

#[test]
fn findings_about_other_nodes_are_left_out() {
    let finding = |kind: &str, name: &str| -> Finding {
        let tree = serde_json::json!({"kind": kind, "name": name, "namespace": ""});
        Finding {
            code: "PTL-0039".parse::<Code>().expect("a code"),
            severity: explain::Severity::Error,
            object: explain::ObjectName {
                kind: tree["kind"].as_str().unwrap_or_default().to_owned(),
                namespace: String::new(),
                name: tree["name"].as_str().unwrap_or_default().to_owned(),
            },
            field: String::new(),
            message: String::new(),
            remedy: String::new(),
            evidence: Vec::new(),
        }
    };
    assert!(concerns_this_node(&finding("Node", "node-a"), "node-a"));
    assert!(concerns_this_node(&finding("Service", "web"), "node-a"));
    assert!(!concerns_this_node(&finding("Node", "node-b"), "node-a"));
}

#[test]
fn host_is_observed_without_objects() {
    let cluster = Cluster::default();
    let request = Request {
        node_name: "node-a",
        cluster: &cluster,
        clock_offset_seconds: None,
        probes: true,
        source_pod: None,
        read_again: None,
    };
    let (observation, _) = observe(&request);
    assert_eq!(observation.metadata.name, "node-a");
    assert!(observation.links.is_some() && observation.sysctls.is_some());
    assert!(observation.listeners.is_some() && observation.counters.is_some());
    assert_eq!(observation.probes, Some(Vec::new()));
    let file = tempfile::NamedTempFile::new().expect("a file");
    record(file.path(), &observation).expect("a written observation");
    let text = std::fs::read_to_string(file.path()).expect("a text");
    let read: Value = serde_json::from_str(&text).expect("JSON");
    let again: NodeObservation = serde_json::from_value(read).expect("an observation");
    assert_eq!(again, observation);
}
