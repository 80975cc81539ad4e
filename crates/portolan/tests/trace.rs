//! `portolan trace` as a process, with files and with an API server, and its names compared with the DNS server.

mod support;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use api::object::{EndpointSlice, Service};
use dns::forward::Forwarder;
use dns::records::{Index, Settings};
use dns::server::Responder;
use dns::wire::{Name, kind};
use explain::World;
use explain::trace::{AnswerKind, Request, trace};
use serde_json::{Value, json};
use support::{Api, program};

/// Client of the traces.
const CLIENT: &str = "pod/trace/client";

/// Runs `portolan trace`.
fn run(arguments: &[&str], input: &str) -> Output {
    support::run(&[&["trace"], arguments].concat(), input)
}

fn client() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "trace", "name": "client"},
        "spec": {"nodeName": "node-a", "containers": [{"name": "c"}]}, "status": {"podIP": "10.244.99.9"}})
}

fn objects() -> Vec<Value> {
    vec![
        json!({"kind": "Service", "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"clusterIP": "10.96.0.5", "internalTrafficPolicy": "Cluster", "ports": [{"port": 80, "targetPort": 8080}]}}),
        json!({"kind": "EndpointSlice", "addressType": "IPv4", "ports": [{"name": "", "port": 8080}],
            "metadata": {"namespace": "shop", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": [{"addresses": ["10.244.1.2"], "nodeName": "node-a"}, {"addresses": ["10.244.2.2"], "nodeName": "node-b"}]}),
        client(),
    ]
}

fn text(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("{object}\n")).collect()
}

#[test]
fn json_and_yaml_have_the_endpoints_and_their_chances() {
    let input = text(&objects());
    let arguments = ["tcp://web.shop:80", "--from", CLIENT, "--from-file", "-", "-o"];
    let output = run(&[&arguments[..], &["json"]].concat(), &input);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["verdict"], "reaches");
    let endpoints = found["paths"][0]["endpoints"].as_array().expect("endpoints");
    let chances: Vec<(&str, f64)> = endpoints
        .iter()
        .map(|endpoint| {
            let address = endpoint["address"].as_str().expect("an address");
            (address, endpoint["chance"].as_f64().expect("a number"))
        })
        .collect();
    assert_eq!(chances, [("10.244.1.2", 0.5), ("10.244.2.2", 0.5)]);
    let yaml = run(&[&arguments[..], &["yaml"]].concat(), &input);
    let yaml: Value = serde_saphyr::from_str(&String::from_utf8(yaml.stdout).expect("text")).expect("YAML");
    assert_eq!(yaml, found);
}

#[test]
fn exit_code_is_the_verdict() {
    let mut local = objects();
    local[0]["spec"]["internalTrafficPolicy"] = json!("Local");
    local[1]["endpoints"][0]["nodeName"] = json!("node-b");
    let code = |arguments: &[&str], objects: &[Value]| {
        let arguments = [arguments, &["--from-file", "-"]].concat();
        run(&arguments, &text(objects)).status.code()
    };
    let from = ["--from", CLIENT];
    let with = |url| [&[url][..], &from].concat();
    assert_eq!(code(&with("http://web.shop/"), &objects()), Some(0));
    assert_eq!(code(&with("http://web.shop/"), &local), Some(1));
    assert_eq!(code(&with("http://web/"), &objects()), Some(1));
    assert_eq!(
        code(&["http://web.shop/", "--from", "pod/shop/nope"], &objects()),
        Some(2)
    );
    assert_eq!(code(&["http://web.shop/"], &objects()), Some(2));
    assert_eq!(code(&with("web.shop"), &objects()), Some(2));
    let absent = run(
        &[
            "http://web.shop/",
            "--from",
            CLIENT,
            "--from-file",
            "/does/not/exist",
        ],
        "",
    );
    assert_eq!(absent.status.code(), Some(2));
}

#[test]
fn text_shows_how_nodes_decide_differently() {
    let mut objects = objects();
    objects[0]["spec"]["internalTrafficPolicy"] = json!("Local");
    for name in ["node-a", "node-b", "node-c"] {
        objects.push(json!({"kind": "Node", "metadata": {"name": name}}));
    }
    let arguments = [
        "tcp://10.96.0.5:80",
        "--from",
        CLIENT,
        "--from-file",
        "-",
        "--all-nodes",
    ];
    let output = run(&arguments, &text(&objects));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = String::from_utf8(output.stdout).expect("text");
    let first = "tcp://10.96.0.5:80 from Pod trace/client on node node-a: dropped: internalTrafficPolicy of Service \
        shop/web is Local, and no usable endpoint is on this node";
    assert_eq!(shown.lines().next(), Some(first));
    for node in ["node-a", "node-b", "node-c"] {
        assert!(shown.contains(&format!("decided by node {node}")), "{shown}");
    }
}

#[test]
fn api_server_is_read() {
    let api = Api::start();
    let kubeconfig = api.kubeconfig().display().to_string();
    let arguments = [
        "https://kubernetes.default.svc.cluster.local./",
        "--from",
        "203.0.113.9",
        "--kubeconfig",
        &kubeconfig,
        "-o",
        "json",
    ];
    let output = run(&arguments, "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["verdict"], "no name");
    assert_eq!(found["name"]["resolver"]["nameServers"], "outside");
}

fn healthy_worlds() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../explain/tests/worlds/healthy");
    let entries = std::fs::read_dir(folder).expect("healthy worlds");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Objects of a file, without Lists, each with its namespace.
fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a world");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    let flatten = |document: Value| match document["items"].as_array() {
        Some(items) => items.clone(),
        None => vec![document],
    };
    let mut objects: Vec<Value> = documents.into_iter().flat_map(flatten).collect();
    for object in &mut objects {
        let is_namespaced = object["kind"] == "Service" || object["kind"] == "EndpointSlice";
        if is_namespaced && object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = json!("default");
        }
    }
    objects
}

/// The DNS server with the objects.
fn server(objects: &[Value]) -> Responder {
    let index = Index::new(Settings::of(Name::from_text("cluster.local").expect("a name")));
    for object in objects {
        let name = &object["metadata"]["name"];
        match object["kind"].as_str() {
            Some("Service") => {
                let service: Service = serde_json::from_value(object.clone()).expect("a Service");
                index.apply_service(&service).expect("applied");
            }
            Some("EndpointSlice") => {
                let slice: EndpointSlice = serde_json::from_value(object.clone()).expect("a slice");
                index.apply_slice(&slice).expect("applied");
            }
            Some("Namespace") => index
                .apply_namespace(name.as_str().expect("a name"))
                .expect("applied"),
            _ => {}
        }
    }
    index.set_synced();
    Responder::new(Arc::new(index), Forwarder::to(Vec::new()))
}

/// Addresses of a name in the answers of the DNS server, true if the name exists, and true if it is an alias.
fn answer(server: &Responder, name: &str) -> (BTreeSet<IpAddr>, bool, bool) {
    let mut addresses = BTreeSet::new();
    let (mut exists, mut is_alias) = (false, false);
    for kind in [kind::A, kind::AAAA] {
        let text = dns::explain(server, &Name::from_text(name).expect("a name"), kind, None);
        exists |= text.contains("answer: NOERROR");
        for record in text.lines().skip_while(|line| !line.starts_with("answer:")) {
            match record.split_whitespace().collect::<Vec<_>>().as_slice() {
                [_, _, "A" | "AAAA", address] => {
                    addresses.insert(address.parse().expect("an address"));
                }
                [_, _, "CNAME", _] => is_alias = true,
                _ => {}
            }
        }
    }
    (addresses, exists, is_alias)
}

/// Names that the objects define, and names that they do not define.
fn names(objects: &[Value]) -> BTreeSet<String> {
    let zone = "cluster.local";
    let mut names: BTreeSet<String> = [
        zone,
        "svc.cluster.local",
        "a.b.c.d.e.svc.cluster.local",
        "x.y.cluster.local",
    ]
    .map(str::to_owned)
    .into();
    for object in objects {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        match text("/kind") {
            "Service" => {
                let base = format!("{name}.{namespace}.svc.{zone}");
                for port in object["spec"]["ports"].as_array().into_iter().flatten() {
                    for protocol in ["tcp", "udp"] {
                        let port = port["name"].as_str().unwrap_or("none");
                        names.insert(format!("_{port}._{protocol}.{base}"));
                    }
                }
                names.insert(format!("_._.{base}"));
                names.insert(format!("nope.{base}"));
                names.insert(format!("x{base}"));
                names.insert(format!("{namespace}.svc.{zone}"));
                names.insert(format!("{namespace}.pod.{zone}"));
                names.insert(format!("10-1-2-3.{namespace}.pod.{zone}"));
                names.insert(base);
            }
            "EndpointSlice" => {
                let service = object["metadata"]["labels"]["kubernetes.io/service-name"]
                    .as_str()
                    .unwrap_or("none");
                for endpoint in object["endpoints"].as_array().into_iter().flatten() {
                    let address = endpoint["addresses"][0].as_str().unwrap_or_default();
                    let labels = [
                        address.replace(['.', ':'], "-"),
                        endpoint["hostname"].as_str().unwrap_or("none").to_owned(),
                    ];
                    names.extend(labels.map(|label| format!("{label}.{service}.{namespace}.svc.{zone}")));
                }
            }
            _ => {}
        }
    }
    names
}

/// A Service of a manifest has no cluster IP yet; a trace assumes one.
fn is_manifest(object: &Value) -> bool {
    let spec = &object["spec"];
    object["kind"] == "Service" && spec["type"] != "ExternalName" && spec["clusterIP"].is_null()
}

#[test]
fn names_have_the_answers_of_the_dns_server() {
    let mut compared = 0;
    for path in healthy_worlds() {
        let mut objects = read(&path);
        objects.retain(|object| !is_manifest(object));
        if !objects.iter().any(|object| object["kind"] == "EndpointSlice") {
            continue;
        }
        if !objects.iter().any(|object| object["kind"] == "Namespace") {
            let namespaces = objects
                .iter()
                .filter_map(|object| object["metadata"]["namespace"].as_str());
            let namespaces: BTreeSet<String> = namespaces.map(str::to_owned).collect();
            objects.extend(
                namespaces
                    .iter()
                    .map(|name| json!({"kind": "Namespace", "metadata": {"name": name}})),
            );
        }
        let server = server(&objects);
        let mut builder = World::builder();
        objects.iter().for_each(|object| builder.add(object.clone()));
        builder.add(client());
        let world = builder.build();
        for name in names(&objects) {
            let url = format!("tcp://{name}.:80");
            let request = Request::new(url.parse().expect("a URL"), CLIENT.parse().expect("a client"));
            let found = trace(&world, &request)
                .expect("a trace")
                .name
                .expect("a resolution");
            let stated = &found.tried[0];
            let (addresses, exists, is_alias) = answer(&server, &name);
            let expected = match (addresses.is_empty(), is_alias, exists) {
                (false, ..) => AnswerKind::Addresses,
                (true, true, _) => AnswerKind::Alias,
                (true, false, true) => AnswerKind::NoAddress,
                (true, false, false) => AnswerKind::NoName,
            };
            let place = format!("{}: {name}", path.display());
            assert_eq!(stated.kind, expected, "{place}");
            assert_eq!(
                stated.addresses.iter().copied().collect::<BTreeSet<_>>(),
                addresses,
                "{place}"
            );
            compared += 1;
        }
    }
    assert!(compared >= 500, "only {compared} names");
}

/// Fenced blocks of the documentation that run as tests: info string and text.
fn examples() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/trace.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let text = lines.by_ref().take_while(|line| !line.starts_with("```"));
        let text: String = text.map(|line| format!("{line}\n")).collect();
        if info.contains("TRACE") {
            blocks.push((info.to_owned(), text));
        }
    }
    blocks
}

#[test]
fn examples_of_the_page_print_what_it_shows() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut printed = None;
    let mut compared = 0;
    for (info, text) in examples() {
        let words: Vec<&str> = info.split_whitespace().collect();
        match words.as_slice() {
            ["yaml", "TRACE"] => {
                std::fs::write(directory.path().join("objects.yaml"), text).expect("a writable file");
            }
            ["sh", "TRACE", code] => {
                let command = text.replacen("portolan", "\"$PORTOLAN\"", 1);
                let mut shell = Command::new("sh");
                shell.args(["-c", &command]).current_dir(&directory);
                shell.env("PORTOLAN", program());
                let output = shell.output().expect("a shell");
                let expected: i32 = code.parse().expect("an exit code");
                assert_eq!(output.status.code(), Some(expected), "{text}{output:?}");
                printed = Some(String::from_utf8(output.stdout).expect("text"));
            }
            ["text", "TRACE"] => {
                let printed = printed.take().expect("a command before its output");
                assert_eq!(
                    printed, text,
                    "docs/trace.md shows another output than\n{printed}"
                );
                compared += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(compared >= 3, "only {compared} examples");
}
