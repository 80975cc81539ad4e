//! Containers of the workloads: arguments, ports, probes and privileges.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use clap::Parser as _;
use serde_json::Value;

use super::{SERVER, VARIANTS, find, objects};
use crate::cli::Cli;

/// Name of a Node in place of the variable NODE_NAME.
const NODE: &str = "node-1";
/// Paths of the health servers, by subcommand. The guide of docs/install.md requests them in a cluster.
const PROBES: [(&str, &str, &str); 8] = [
    ("proxy", "/livez", "10256"),
    ("proxy", "/healthz", "10256"),
    ("dns", "/health", "--health-bind-address"),
    ("dns", "/ready", "--ready-bind-address"),
    ("controllers", "/livez", "--metrics-bind-address"),
    ("controllers", "/readyz", "--metrics-bind-address"),
    ("balancer", "/healthz", "--metrics-bind-address"),
    ("balancer", "/livez", "--metrics-bind-address"),
];

/// Returns the Pods of all workloads of all variants, with the names of the workloads.
fn pods() -> Vec<(String, Value)> {
    let objects = VARIANTS.iter().flat_map(|arguments| objects(arguments));
    objects
        .filter_map(|object| {
            let pod = object["spec"]["template"]["spec"].clone();
            (!pod.is_null()).then(|| (object["metadata"]["name"].to_string(), pod))
        })
        .collect()
}

/// Returns the containers of a Pod.
fn containers(pod: &Value) -> Vec<&Value> {
    let lists = [&pod["initContainers"], &pod["containers"]];
    lists.into_iter().filter_map(Value::as_array).flatten().collect()
}

/// Returns the command line of a container.
fn command_line(container: &Value) -> Vec<String> {
    let lists = [&container["command"], &container["args"]];
    let words = lists.into_iter().filter_map(Value::as_array).flatten();
    words
        .map(|word| word.as_str().expect("a word").replace("$(NODE_NAME)", NODE))
        .collect()
}

/// Returns the value of a flag of a command line.
fn flag<'a>(command_line: &'a [String], name: &str) -> Option<&'a str> {
    let mut values = command_line
        .iter()
        .filter_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    values.next_back()
}

#[test]
fn command_lines_are_valid() {
    let pods = pods();
    assert!(pods.len() > 10, "workloads of all variants: {}", pods.len());
    for (name, pod) in &pods {
        for container in containers(pod) {
            let words = command_line(container);
            assert!(
                !words.iter().any(|word| word.contains("$(")),
                "{name}: undefined variable in {words:?}"
            );
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{name}: {words:?}: {error}");
            }
        }
    }
}

#[test]
fn variables_of_arguments_are_defined() {
    for (name, pod) in pods() {
        for container in containers(&pod) {
            let uses_node_name = container["args"].to_string().contains("$(NODE_NAME)");
            let defines_it = container["env"].to_string().contains("\"NODE_NAME\"");
            assert_eq!(uses_node_name, defines_it, "{name}");
        }
    }
}

#[test]
fn probes_request_paths_that_the_flags_serve() {
    for (name, pod) in pods() {
        for container in pod["containers"].as_array().expect("containers") {
            let words = command_line(container);
            for probe in ["livenessProbe", "readinessProbe"] {
                let request = &container[probe]["httpGet"];
                let path = request["path"]
                    .as_str()
                    .unwrap_or_else(|| panic!("{name} has no {probe}"));
                let (_, _, place) = PROBES
                    .iter()
                    .find(|(command, served, _)| *command == words[1] && *served == path)
                    .unwrap_or_else(|| panic!("{name}: {} does not serve {path}", words[1]));
                let port = match flag(&words, place) {
                    Some(address) => address
                        .parse::<SocketAddr>()
                        .expect("an address")
                        .port()
                        .to_string(),
                    None => (*place).to_owned(),
                };
                assert_eq!(request["port"].to_string(), port, "{name}: {path}");
            }
        }
    }
}

#[test]
fn probes_reach_the_listen_address() {
    for (name, pod) in pods() {
        for container in pod["containers"].as_array().expect("containers") {
            let words = command_line(container);
            for probe in ["livenessProbe", "readinessProbe"] {
                let request = &container[probe]["httpGet"];
                let port = request["port"].to_string();
                let listens_on_loopback = words
                    .iter()
                    .any(|word| word.ends_with(&format!("=127.0.0.1:{port}")));
                let probes_loopback = request["host"] == "127.0.0.1";
                assert!(!listens_on_loopback || probes_loopback, "{name}: port {port}");
                assert!(
                    !probes_loopback || pod["hostNetwork"] == true,
                    "{name}: loopback of the node"
                );
            }
        }
    }
}

#[test]
fn scraped_ports_serve_metrics_beyond_loopback() {
    for arguments in VARIANTS {
        for object in objects(arguments) {
            let template = &object["spec"]["template"];
            let Some(port) = template["metadata"]["annotations"]["prometheus.io/port"].as_str() else {
                continue;
            };
            let words = command_line(&template["spec"]["containers"][0]);
            let address = flag(&words, "--metrics-bind-address").expect("a metrics address");
            let address: SocketAddr = address.parse().expect("an address");
            assert_eq!(address.port().to_string(), port);
            assert!(address.ip().is_unspecified(), "{address}");
        }
    }
}

#[test]
fn ports_of_pods_on_one_node_differ() {
    let objects = objects(&["all", "node-local-dns", SERVER]);
    let mut ports = BTreeSet::new();
    for name in ["portolan-proxy", "portolan-node-local-dns", "portolan-announcer"] {
        let pod = &find(&objects, "DaemonSet", name)["spec"]["template"]["spec"];
        for word in command_line(&pod["containers"][0]) {
            let value = word.split_once('=').map(|(_, value)| value.to_owned());
            if let Some(address) = value.and_then(|value| value.parse::<SocketAddr>().ok()) {
                assert!(
                    ports.insert(address.port()),
                    "{name}: port {} is in use",
                    address.port()
                );
            }
        }
    }
    assert!(ports.len() >= 5, "{ports:?}");
}

#[test]
fn containers_have_few_privileges() {
    for (name, pod) in pods() {
        for container in containers(&pod) {
            let context = &container["securityContext"];
            if context["privileged"] == true {
                let words = command_line(container);
                assert!(
                    words.iter().any(|word| word == "--init-only"),
                    "{name}: {words:?} is privileged"
                );
                continue;
            }
            assert_eq!(context["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(context["capabilities"]["drop"][0], "ALL", "{name}");
            let has_capabilities = context["capabilities"].get("add").is_some();
            let is_on_network_of_node = pod["hostNetwork"] == true;
            assert_eq!(has_capabilities, is_on_network_of_node, "{name}");
            assert_eq!(
                pod["securityContext"]["runAsNonRoot"] == true,
                !is_on_network_of_node,
                "{name}"
            );
        }
        assert_eq!(
            pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault",
            "{name}"
        );
    }
}

/// A Pod on the network of its node cannot wait for a proxy: the proxy itself is one.
#[test]
fn pods_on_the_network_of_nodes_reach_the_api_without_services() {
    for (name, pod) in pods() {
        for container in containers(&pod) {
            let has_server = container["envFrom"][0]["configMapRef"]["name"] == "portolan-server";
            let uses_kubeconfig = command_line(container)
                .iter()
                .any(|word| word.starts_with("--config="));
            let is_behind_service = name.contains("portolan-dns");
            assert!(has_server || uses_kubeconfig || is_behind_service, "{name}");
        }
    }
}

/// Scrape targets for the Prometheus Operator.
const MONITORS: &str = include_str!("../../../../../../deploy/monitoring/monitors.yaml");

#[test]
fn monitors_select_ports_of_the_manifests() {
    let objects = objects(&["all", "node-local-dns", "controllers", SERVER]);
    let monitors: Vec<Value> = serde_saphyr::from_multiple(MONITORS).expect("YAML");
    assert!(!monitors.is_empty());
    for monitor in monitors {
        let selector = monitor["spec"]["selector"]["matchLabels"]
            .as_object()
            .expect("a selector");
        let is_of_pods = monitor["kind"] == "PodMonitor";
        let selected: Vec<&Value> = objects
            .iter()
            .filter(|object| is_of_pods || object["kind"] == "Service")
            .filter(|object| {
                let place = if is_of_pods {
                    &object["spec"]["template"]
                } else {
                    *object
                };
                selector
                    .iter()
                    .all(|(key, value)| place["metadata"]["labels"].get(key) == Some(value))
            })
            .collect();
        assert!(
            !selected.is_empty(),
            "{} selects nothing",
            monitor["metadata"]["name"]
        );
        for object in selected {
            let spec = &object["spec"];
            let place = if is_of_pods {
                &spec["template"]["spec"]["containers"][0]
            } else {
                spec
            };
            let ports = place["ports"].as_array().expect("ports");
            assert!(
                ports.iter().any(|port| port["name"] == "metrics"),
                "{}",
                object["metadata"]["name"]
            );
        }
    }
}
