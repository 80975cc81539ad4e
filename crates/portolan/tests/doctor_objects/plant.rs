//! Planted worlds: objects in a namespace of their own, and the findings of the doctor about them.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use client::{Client, ClientError, Config, JSON, MERGE_PATCH};
use explain::Kind;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::run;

/// Time until controllers and kubelets have done their work.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two examinations.
const PERIOD: Duration = Duration::from_millis(200);
/// Image of containers that name none, and its arguments: a server for HTTP on port 8080.
const IMAGE: &str = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";
const ARGUMENTS: [&str; 2] = ["netexec", "--http-port=8080"];

/// Place of the worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorldPlace {
    /// Portolan's API server and controllers, without nodes. The test writes the status of Pods.
    Standalone,
    /// A cluster of Kubernetes.
    Cluster,
}

/// World with a fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    pub code: String,
    #[serde(default = "web")]
    pub service: String,
    pub node: Option<String>,
    only: Option<String>,
    objects: Vec<Value>,
    #[serde(default)]
    later: Vec<Value>,
    #[serde(default)]
    deletes: bool,
    addresses: Option<u32>,
    pub without: Option<String>,
    #[serde(default)]
    pub rejected: bool,
}

/// World without faults.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Healthy {
    pub services: Vec<String>,
    only: Option<String>,
    objects: Vec<Value>,
}

impl Healthy {
    /// Returns true if the world exists in a place.
    pub(crate) fn is_in(&self, place: WorldPlace) -> bool {
        is_in(self.only.as_deref(), place)
    }
}

fn is_in(only: Option<&str>, place: WorldPlace) -> bool {
    let name = match place {
        WorldPlace::Standalone => "standalone",
        WorldPlace::Cluster => "cluster",
    };
    only.is_none_or(|only| only == name)
}

fn web() -> String {
    "web".to_owned()
}

impl Fault {
    /// Returns true if the fault exists in a place.
    pub(crate) fn is_in(&self, place: WorldPlace) -> bool {
        is_in(self.only.as_deref(), place)
    }

    /// Returns true if controllers of the place would undo the fault.
    pub(crate) fn is_undone(&self, place: WorldPlace) -> bool {
        self.without.is_some() || place == WorldPlace::Standalone && !self.later.is_empty()
    }

    /// Namespace of the fault.
    pub(crate) fn namespace(&self) -> String {
        self.code.to_lowercase()
    }
}

/// Server in which worlds are planted.
pub(crate) struct Server {
    place: WorldPlace,
    kubeconfig: String,
    runtime: Runtime,
    client: Client,
    /// Names of two Nodes.
    nodes: [String; 2],
    pods: std::cell::Cell<u16>,
}

impl Server {
    pub(crate) fn connect(place: WorldPlace, kubeconfig: &Path, nodes: [&str; 2]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let config = Config::from_kubeconfig(kubeconfig).expect("a kubeconfig");
        let client = runtime.block_on(async { Client::new(config).expect("a client") });
        Self {
            place,
            kubeconfig: kubeconfig.display().to_string(),
            runtime,
            client,
            nodes: nodes.map(str::to_owned),
            pods: std::cell::Cell::new(0),
        }
    }

    /// Sends a request.
    pub(crate) fn call(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> Result<Value, ClientError> {
        let request = self.client.request(method, path, kind, Some(body));
        self.runtime.block_on(request)
    }

    fn create(&self, path: &str, body: &Value) {
        let created = self.call(Method::POST, path, JSON, body);
        created.unwrap_or_else(|error| panic!("{error} for {path} {body}"));
    }

    fn merge(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.call(Method::PATCH, path, MERGE_PATCH, body)
    }

    /// Creates a Node without a kubelet.
    pub(crate) fn create_node(&self, number: usize) {
        let name = &self.nodes[number];
        let range = format!("10.244.{}.0/24", number + 1);
        let labels = json!({"topology.kubernetes.io/zone": format!("zone-{}", number + 1)});
        let address = format!("192.168.0.{}", 11 + number);
        self.create_object(
            "",
            &json!({"kind": "Node", "metadata": {"name": name, "labels": labels},
                "spec": {"podCIDR": range, "podCIDRs": [range]},
                "status": {"addresses": [{"type": "InternalIP", "address": address}],
                    "conditions": [{"type": "Ready", "status": "True"}]}}),
        );
    }

    /// Creates the objects of a world.
    pub(crate) fn plant(&self, fault: &Fault) {
        let namespace = fault.namespace();
        self.plant_objects(&namespace, &fault.objects);
        if let Some(number) = fault.addresses {
            let address =
                |number: u32| json!({"ip": std::net::Ipv4Addr::from(0x0a_c8_00_01 + number).to_string()});
            let addresses: Vec<Value> = (0..number).map(address).collect();
            let subsets = json!([{"addresses": addresses, "ports": [{"port": 8080, "protocol": "TCP"}]}]);
            let name = json!({"name": fault.service});
            self.create_object(
                &namespace,
                &json!({"kind": "Endpoints", "metadata": name, "subsets": subsets}),
            );
        }
        for change in &fault.later {
            let path = self.path_of(&namespace, change);
            self.wait("an object of a controller", || self.exists(&path));
        }
        if fault.deletes {
            let path = format!("/api/v1/namespaces/{namespace}/services/{}", fault.service);
            self.call(Method::DELETE, &path, JSON, &json!({}))
                .expect("a deletion");
        }
    }

    /// Changes the objects of controllers when these have written them.
    pub(crate) fn change(&self, fault: &Fault) {
        for change in &fault.later {
            let settled = self.expect_none(&fault.namespace(), &fault.service);
            settled.unwrap_or_else(|findings| panic!("findings before the fault: {findings}"));
            let path = self.path_of(&fault.namespace(), change);
            let changed = self.merge(&path, change);
            changed.unwrap_or_else(|error| panic!("{error} for {path} {change}"));
        }
    }

    fn exists(&self, path: &str) -> bool {
        self.runtime.block_on(self.client.get::<Value>(path)).is_ok()
    }

    /// Creates objects in a new namespace.
    fn plant_objects(&self, namespace: &str, objects: &[Value]) {
        self.create(
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        );
        if self.place == WorldPlace::Cluster {
            let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
            self.wait("the default ServiceAccount", || self.exists(&account));
        }
        for object in objects {
            self.create_object(namespace, &self.completed(namespace, object));
        }
    }

    pub(crate) fn plant_healthy(&self, namespace: &str, world: &Healthy) {
        self.plant_objects(namespace, &world.objects);
    }

    /// Replaces names, and completes containers.
    pub(crate) fn completed(&self, namespace: &str, object: &Value) -> Value {
        let text = object.to_string();
        let text = text.replace("$NS", namespace);
        let text = text.replace("$A", &self.nodes[0]).replace("$B", &self.nodes[1]);
        let mut object: Value = serde_json::from_str(&text).expect("JSON");
        for pointer in ["/spec/containers", "/spec/template/spec/containers"] {
            let containers = object.pointer_mut(pointer).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                if container["image"].is_null() {
                    container["image"] = IMAGE.into();
                    container["args"] = json!(ARGUMENTS);
                }
            }
        }
        object
    }

    fn path_of(&self, namespace: &str, object: &Value) -> String {
        let name = object["metadata"]["name"].as_str().expect("a name");
        format!("{}/{name}", collection(namespace, object))
    }

    /// Creates an object, and writes its status.
    fn create_object(&self, namespace: &str, object: &Value) {
        let mut created = object.clone();
        if created["apiVersion"].is_null() {
            created["apiVersion"] = "v1".into();
        }
        let is_pod = object["kind"] == "Pod";
        if is_pod && self.place == WorldPlace::Standalone && created["spec"]["nodeName"].is_null() {
            created["spec"]["nodeName"] = self.nodes[usize::from(self.pods.get()) % 2].as_str().into();
        }
        let status = created.as_object_mut().and_then(|fields| fields.remove("status"));
        let path = collection(namespace, object);
        self.create(&path, &created);
        let by_kubelet = is_pod && self.place == WorldPlace::Cluster;
        let default = is_pod.then(|| self.running(&created));
        if let Some(status) = status.or(default).filter(|_| !by_kubelet) {
            let path = format!("{}/status", self.path_of(namespace, object));
            let written = self.merge(&path, &json!({"status": status}));
            written.unwrap_or_else(|error| panic!("{error} for {path} {status}"));
        }
    }

    /// Status that a kubelet writes for a Pod that is ready.
    fn running(&self, pod: &Value) -> Value {
        let number = self.pods.get() + 1;
        self.pods.set(number);
        let node = if pod["spec"]["nodeName"] == self.nodes[0].as_str() {
            1
        } else {
            2
        };
        let address = format!("10.244.{node}.{}", 40 + number);
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        let statuses: Vec<Value> = containers
            .map(|container| {
                json!({"name": container["name"], "ready": true, "restartCount": 0, "image": container["image"],
                    "imageID": "", "state": running})
            })
            .collect();
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "containerStatuses": statuses,
            "conditions": [condition("Ready"), condition("ContainersReady"), condition("PodScheduled")]})
    }

    fn wait(&self, subject: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        while !holds() {
            assert!(
                Instant::now() < deadline,
                "expected {subject} within {SETTLE_TIMEOUT:?}"
            );
            std::thread::sleep(PERIOD);
        }
    }

    /// Runs the doctor about a Service. Returns the findings.
    pub(crate) fn doctor(&self, namespace: &str, service: &str, node: Option<&str>) -> Vec<Value> {
        let node = node.map(|node| self.completed(namespace, &json!(node)));
        let node = node.as_ref().and_then(Value::as_str);
        let service = format!("{namespace}/{service}");
        let mut arguments = vec![
            "doctor",
            "service",
            &service,
            "--kubeconfig",
            &self.kubeconfig,
            "-o",
            "json",
        ];
        arguments.extend(node.iter().flat_map(|node| ["--node", node]));
        findings(&arguments, "")
    }

    /// Examines until the first finding has a code, and otherwise returns the difference.
    pub(crate) fn expect(&self, fault: &Fault) -> Result<(), String> {
        let namespace = fault.namespace();
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let findings = self.doctor(&namespace, &fault.service, fault.node.as_deref());
            if findings.first().is_some_and(|first| first["code"] == *fault.code) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("{}: {}", fault.code, json!(findings)));
            }
            std::thread::sleep(PERIOD);
        }
    }

    /// Examines until there are no findings besides information.
    pub(crate) fn expect_none(&self, namespace: &str, service: &str) -> Result<(), String> {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let mut findings = self.doctor(namespace, service, None);
            findings.retain(|finding| finding["severity"] != "info");
            if findings.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("{namespace}/{service}: {}", json!(findings)));
            }
            std::thread::sleep(PERIOD);
        }
    }

    /// Checks that the server rejects the last object of a world, and that the doctor finds the fault in the manifest.
    pub(crate) fn expect_rejected(&self, fault: &Fault) -> Result<(), String> {
        let namespace = fault.namespace();
        let (last, others) = fault.objects.split_last().expect("objects");
        self.plant_objects(&namespace, others);
        let last = self.completed(&namespace, last);
        let rejected = self.call(Method::POST, &collection(&namespace, &last), JSON, &last);
        if rejected.is_ok() {
            return Err(format!("{}: the server accepts {last}", fault.code));
        }
        let input: String = fault
            .objects
            .iter()
            .map(|object| self.completed(&namespace, object).to_string() + "\n")
            .collect();
        let found = findings(&["doctor", "--from-file", "-", "-o", "json"], &input);
        let is_first = found.first().is_some_and(|first| first["code"] == *fault.code);
        is_first
            .then_some(())
            .ok_or_else(|| format!("{}: {}", fault.code, json!(found)))
    }
}

/// Path of the objects of a kind.
fn collection(namespace: &str, object: &Value) -> String {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let kind =
        Kind::named(text("kind"), text("apiVersion")).unwrap_or_else(|| panic!("the kind of {object}"));
    let path = kind.collection();
    if !kind.is_namespaced() {
        return path;
    }
    let (group, plural) = path.rsplit_once('/').expect("a path");
    format!("{group}/namespaces/{namespace}/{plural}")
}

fn findings(arguments: &[&str], input: &str) -> Vec<Value> {
    let output = run(arguments, input);
    let report: HashMap<String, Vec<Value>> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    report.get("findings").cloned().unwrap_or_default()
}

/// Reads a file of worlds.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(name: &str) -> Vec<T> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor_objects");
    let text = std::fs::read_to_string(folder.join(name)).expect("worlds");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}
