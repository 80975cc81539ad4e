//! Worlds in files: healthy worlds have no finding, and each planted fault is the first finding of its world.
//!
//! `worlds/healthy/NAME.yaml` holds objects as `kubectl get -o yaml` prints them, and observations of nodes. A document with the field
//! `base` stands for the objects of another healthy world. `worlds/faults/*.yaml` holds faults:
//!
//! - `code`: expected code of the first finding
//! - `base`: name of a healthy world
//! - `service`: Service that the user names (`shop/web`); absent for all Services
//! - `node`: node that the user names
//! - `apply`: objects that are merged into those of the base (RFC 7386), or added to them
//! - `delete`: objects that are removed from the base, with `kind`, `namespace` and `name`; without `name` all of the kind
//! - `message`: text that the message of the first finding contains

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use explain::{
    Code, Finding, Options, Scope, Severity, World, documentation, examine, examine_cluster, examine_services,
};
use serde_json::{Value, json};

/// Number of healthy worlds, at least.
const HEALTHY_WORLDS_MIN: usize = 100;

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/worlds")
        .join(folder);
    let entries = fs::read_dir(folder).expect("a folder of worlds");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a readable world");
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Objects of a healthy world, without Lists.
fn base(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/worlds/healthy/{name}.yaml"));
    let flatten = |document: Value| match (document["base"].as_str(), document.get("items")) {
        (Some(other), _) => base(other),
        (None, Some(items)) => items.as_array().cloned().unwrap_or_default(),
        (None, None) => vec![document],
    };
    documents(&path).into_iter().flat_map(flatten).collect()
}

fn world_of(objects: Vec<Value>) -> World {
    let mut builder = World::builder();
    objects.into_iter().for_each(|object| builder.add(object));
    builder.build()
}

fn is_same(object: &Value, other: &Value) -> bool {
    object["kind"] == other["kind"] && object["metadata"]["name"] == other["metadata"]["name"] && {
        let namespace = |object: &Value| {
            object["metadata"]["namespace"]
                .as_str()
                .unwrap_or("default")
                .to_owned()
        };
        object["metadata"].get("namespace").is_none() || namespace(object) == namespace(other)
    }
}

fn is_deleted(object: &Value, deletion: &Value) -> bool {
    let matches = |field: &str, value: &Value| deletion[field].is_null() || deletion[field] == *value;
    matches("kind", &object["kind"])
        && matches("namespace", &object["metadata"]["namespace"])
        && matches("name", &object["metadata"]["name"])
}

/// Objects of the base of a fault, changed by the patch of the fault.
fn planted(fault: &Value) -> Vec<Value> {
    let mut objects = fault["base"].as_str().map(base).unwrap_or_default();
    for deletion in fault["delete"].as_array().into_iter().flatten() {
        let before = objects.len();
        objects.retain(|object| !is_deleted(object, deletion));
        assert!(objects.len() < before, "{deletion} deletes nothing");
    }
    for change in fault["apply"].as_array().into_iter().flatten() {
        match objects.iter_mut().find(|object| is_same(change, object)) {
            Some(object) => json_patch::merge(object, change),
            None => objects.push(change.clone()),
        }
    }
    objects
}

fn findings(fault: &Value) -> Vec<Finding> {
    let scope = match fault["service"].as_str().and_then(|name| name.split_once('/')) {
        Some((namespace, name)) => Scope::Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
        None => Scope::All,
    };
    let options = Options {
        node: fault["node"].as_str().map(str::to_owned),
    };
    examine(&world_of(planted(fault)), &scope, &options)
}

#[test]
fn planted_faults_are_the_first_finding() {
    let mut failures = Vec::new();
    let mut covered = BTreeSet::new();
    for path in files("faults") {
        for fault in documents(&path) {
            let findings = findings(&fault);
            let first = findings.first();
            let code = fault["code"].as_str().expect("a code");
            covered.insert(code.to_owned());
            let message = fault["message"].as_str().unwrap_or_default();
            let is_expected =
                first.is_some_and(|first| first.code.to_string() == code && first.message.contains(message));
            if !is_expected {
                failures.push(format!("{} {code} {message:?}: {findings:#?}", path.display()));
            }
            let incomplete = findings.iter().find(|finding| {
                finding.message.is_empty() || finding.remedy.is_empty() || finding.message.ends_with('.')
            });
            if let Some(finding) = incomplete {
                failures.push(format!("{}: {finding:#?} is incomplete", path.display()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let uncovered: Vec<String> = documentation()
        .map(|entry| entry.code.to_string())
        .filter(|code| !covered.contains(code))
        .collect();
    assert!(uncovered.is_empty(), "no planted fault for {uncovered:?}");
}

#[test]
fn examination_of_a_cluster_includes_its_services() {
    let mut services = 0;
    for fault in files("faults").iter().flat_map(|path| documents(path)) {
        let world = world_of(planted(&fault));
        let found = examine_cluster(&world, &Options::default());
        assert_eq!(found.all, examine(&world, &Scope::All, &Options::default()));
        assert_eq!(found.services, examine_services(&world, &Options::default()));
        services += found.services.len();
    }
    assert!(services > 50, "{services} Services have findings");
}

/// A fault of a node or of the network has consequences that observations show, too.
#[test]
fn consequences_of_observed_faults_are_suppressed() {
    let mut failures = Vec::new();
    for path in files("faults") {
        for fault in documents(&path) {
            let is_observed = planted(&fault)
                .iter()
                .any(|object| object["kind"] == "NodeObservation");
            let mut found = findings(&fault);
            found.retain(|finding| finding.severity != Severity::Info);
            if is_observed && found.len() > 1 {
                failures.push(format!("{} {}: {found:#?}", path.display(), fault["message"]));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn healthy_worlds_have_no_findings() {
    let paths = files("healthy");
    assert!(
        paths.len() >= HEALTHY_WORLDS_MIN,
        "only {} healthy worlds",
        paths.len()
    );
    for path in paths {
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let findings = examine(&world_of(base(name)), &Scope::All, &Options::default());
        assert!(findings.is_empty(), "{name}: {findings:#?}");
    }
}

#[test]
fn evicted_pods_of_a_workload_that_is_scaled_to_zero_are_not_faults() {
    let world = json!({
        "base": "web",
        "delete": [{"kind": "Pod", "namespace": "shop", "name": "web-5d9c7b8f6d-9vwlm"}],
        "apply": [
            {"kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"}, "spec": {"replicas": 0}},
            {"kind": "ReplicaSet", "metadata": {"namespace": "shop", "name": "web-5d9c7b8f6d"}, "spec": {"replicas": 0}},
            {"kind": "Pod", "metadata": {"namespace": "shop", "name": "web-5d9c7b8f6d-2x7kq"},
             "status": {"phase": "Failed", "reason": "Evicted"}},
            {"kind": "EndpointSlice", "metadata": {"namespace": "shop", "name": "web-k8d2r"}, "endpoints": []},
            {"kind": "Endpoints", "metadata": {"namespace": "shop", "name": "web"}, "subsets": []}
        ]
    });
    assert_eq!(findings(&world), []);
    let mut scaled_up = world;
    scaled_up["apply"][0]["spec"]["replicas"] = json!(1);
    let found = findings(&scaled_up);
    assert_eq!(found.first().map(|finding| finding.code), Some(Code(5)));
}

/// Codes about the node that the user names: a local policy, or a node that load balancers leave out.
const CODES_OF_NODES: [Code; 3] = [Code(25), Code(26), Code(35)];
/// Codes of Services that have no Pod on purpose, which are reported to users who name the Services.
const CODES_WITHOUT_PODS: [Code; 2] = [Code(2), Code(5)];
/// Services that charts create and nobody uses, for which such a finding is an error.
const UNUSED_SERVICES: [&str; 2] = ["longhorn-engine-manager", "podinfo-canary"];

/// A Service that works has no finding, not even information, if the user names it and a node.
#[test]
fn healthy_services_have_no_findings_when_named() {
    let mut failures = Vec::new();
    for path in files("healthy") {
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let objects = base(name);
        let of_kind = |kind: &str| {
            let of_kind = objects
                .iter()
                .filter(|object| object["kind"] == kind && object["apiVersion"] == "v1");
            let names = of_kind.map(|object| {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or("default").to_owned();
                (text("namespace"), text("name"))
            });
            names.collect::<Vec<_>>()
        };
        let world = world_of(objects.clone());
        let nodes = of_kind("Node").into_iter().map(|(_, node)| Some(node));
        for node in nodes.chain([None]) {
            for (namespace, name_of_service) in of_kind("Service") {
                let scope = Scope::Service {
                    namespace,
                    name: name_of_service,
                };
                let mut findings = examine(&world, &scope, &Options { node: node.clone() });
                findings.retain(|finding| {
                    let is_of_node = node.is_some() && CODES_OF_NODES.contains(&finding.code);
                    let is_unused = UNUSED_SERVICES.contains(&finding.object.name.as_str());
                    let has_no_pod = (finding.severity == Severity::Info || is_unused)
                        && CODES_WITHOUT_PODS.contains(&finding.code);
                    !is_of_node && !has_no_pod
                });
                if !findings.is_empty() {
                    failures.push(format!("{name}, {scope:?}, {node:?}: {findings:#?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A dump without some kinds yields no findings that need them.
#[test]
fn healthy_worlds_without_a_kind_have_no_findings() {
    for path in files("healthy") {
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let objects = base(name);
        let kinds: BTreeSet<String> = objects
            .iter()
            .filter_map(|object| Some(object["kind"].as_str()?.to_owned()))
            .collect();
        for kind in &kinds {
            let mut rest = objects.clone();
            rest.retain(|object| object["kind"] != kind.as_str());
            let findings = examine(&world_of(rest), &Scope::All, &Options::default());
            assert!(findings.is_empty(), "{name} without {kind}: {findings:#?}");
            let mut only = objects.clone();
            only.retain(|object| object["kind"] == kind.as_str() || object["kind"] == "Service");
            let findings = examine(&world_of(only), &Scope::All, &Options::default());
            assert!(
                findings.is_empty(),
                "{name} with Services and {kind}: {findings:#?}"
            );
        }
    }
}

/// Parts of an observation.
const PARTS: [&str; 13] = [
    "proxies",
    "tables",
    "iptables",
    "firewalls",
    "sysctls",
    "links",
    "routes",
    "neighbours",
    "conntrack",
    "listeners",
    "inspectedPods",
    "probes",
    "bgpSessions",
];

/// An observation without entries shows nothing, so it changes no finding.
#[test]
fn observations_without_entries_change_no_finding() {
    let observation = |value: &Value| {
        let mut tree = json!({"apiVersion": "doctor.portolan.dev/v1", "kind": "NodeObservation", "metadata": {"name": "node-a"}});
        for part in PARTS {
            tree[part] = match part {
                "iptables" | "sysctls" | "conntrack" if value.is_array() => json!({}),
                _ => value.clone(),
            };
        }
        tree
    };
    for path in files("faults") {
        for fault in documents(&path) {
            let mut objects = planted(&fault);
            objects.retain(|object| object["kind"] != "NodeObservation");
            let all = |objects: Vec<Value>| examine(&world_of(objects), &Scope::All, &Options::default());
            let expected = all(objects.clone());
            for value in [json!(null), json!([])] {
                let mut observed = objects.clone();
                observed.push(observation(&value));
                assert_eq!(all(observed), expected, "{} with {value}", path.display());
            }
        }
    }
}

/// Variants of each healthy world with invalid fields.
const INVALID_VARIANTS: u64 = 24;
/// One of so many values is replaced.
const REPLACED_PART: u64 = 16;

/// Replaces values of a tree by values of other types. The choice depends on `state` only.
fn corrupt(tree: &mut Value, state: &mut u64) {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    let random = *state >> 33;
    if random.is_multiple_of(REPLACED_PART) {
        let values = [
            json!(null),
            json!(-1),
            json!("x"),
            json!([{}]),
            json!({"a": [1]}),
            json!(true),
            json!(""),
        ];
        *tree = values[usize::try_from(random / REPLACED_PART % 7).unwrap_or_default()].clone();
        return;
    }
    match tree {
        Value::Array(items) => items.iter_mut().for_each(|item| corrupt(item, state)),
        Value::Object(fields) => fields.values_mut().for_each(|field| corrupt(field, state)),
        _ => {}
    }
}

/// Dumps can contain anything.
#[test]
fn invalid_fields_cause_no_panic() {
    for path in files("healthy") {
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        for variant in 0..INVALID_VARIANTS {
            let mut state = variant;
            let mut objects = base(name);
            for part in [
                "metadata",
                "spec",
                "status",
                "endpoints",
                "ports",
                "subsets",
                "addressType",
                "proxies",
                "tables",
                "iptables",
                "firewalls",
                "sysctls",
                "counters",
                "links",
                "routes",
                "neighbours",
                "conntrack",
                "listeners",
                "inspectedPods",
                "serviceVariables",
                "localPortRange",
                "reservedPorts",
                "bgpSessions",
                "probes",
            ] {
                let parts = objects.iter_mut().filter_map(|object| object.get_mut(part));
                parts.for_each(|value| corrupt(value, &mut state));
            }
            let world = world_of(objects);
            examine(&world, &Scope::All, &Options::default());
            let scope = Scope::Service {
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
            };
            let node = Some("node-a".to_owned());
            examine(&world, &scope, &Options { node });
        }
    }
}

/// Number of Services of the large world.
const MANY_SERVICES: usize = 10_000;
/// Maximum number of objects that the check of a Service with one Pod and one slice reads.
const LOOKUPS_MAX: usize = 200;

#[test]
fn check_of_one_service_reads_few_of_many_objects() {
    let mut builder = World::builder();
    for number in 0..MANY_SERVICES {
        let name = format!("web-{number}");
        let namespace = format!("team-{}", number % 50);
        let at = |network: usize| format!("10.{network}.{}.{}", number / 256, number % 256);
        let (cluster_ip, address) = (at(96), at(244));
        let labels = json!({"app": name, "team": namespace});
        builder.add(json!({"kind": "Service", "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterIP": cluster_ip, "selector": labels, "ports": [{"port": 80, "targetPort": "http"}]}}));
        builder.add(json!({"kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"containers": [{"name": "web", "ports": [{"name": "http", "containerPort": 8080}]}]},
            "status": {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": "True"}]}}));
        builder.add(json!({"kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": name,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
            "ports": [{"name": "", "port": 8080}], "endpoints": [{"addresses": [address]}]}));
    }
    let world = builder.build();
    let scope = Scope::Service {
        namespace: "team-7".to_owned(),
        name: "web-57".to_owned(),
    };
    let findings = examine(&world, &scope, &Options::default());
    assert_eq!(findings, []);
    assert!(world.lookups() <= LOOKUPS_MAX, "{} lookups", world.lookups());
}
