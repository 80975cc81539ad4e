//! Deployments driven with kubectl. A thread stands in for the agents: it marks Pods as ready and deletes
//! terminating ones.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::driver::Driver;
use crate::support::{has, wait_for};

const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

/// Thread that marks scheduled Pods as ready and deletes terminating ones, until the value is dropped.
pub(crate) struct Agents {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agents {
    pub(crate) fn start(cluster: &Arc<Driver>) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (cluster, should_stop) = (Arc::clone(cluster), Arc::clone(&is_stopped));
        let thread = std::thread::spawn(move || {
            while !should_stop.load(Ordering::Relaxed) {
                pods(&cluster).iter().for_each(|pod| update_pod(&cluster, pod));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Self {
            is_stopped,
            thread: Some(thread),
        }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the thread of the agents");
        }
    }
}

fn update_pod(cluster: &Driver, pod: &Value) {
    let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().expect("a name"));
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        // Another request may have deleted it.
        cluster.try_delete(&path, &json!({"gracePeriodSeconds": 0}));
    } else if pod["spec"]["nodeName"].is_string() && pod["status"]["phase"] == "Pending" {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
        cluster.try_merge(&format!("{path}/status"), &status);
    }
}

pub(crate) fn pods(cluster: &Driver) -> Vec<Value> {
    let list = cluster.get(PODS).expect("a list");
    list["items"].as_array().expect("items").clone()
}

/// kubectl with a kubeconfig.
pub(crate) struct Kubectl(pub(crate) PathBuf);

impl Kubectl {
    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn run(&self, arguments: &str) -> String {
        let (succeeds, text) = self.outcome(arguments);
        assert!(succeeds, "kubectl {arguments}: {text}");
        text
    }

    pub(crate) fn outcome(&self, arguments: &str) -> (bool, String) {
        let output = Command::new("kubectl")
            .arg(format!("--kubeconfig={}", self.0.display()))
            .args(arguments.split_whitespace())
            .env("HOME", self.0.parent().expect("a directory"))
            .output()
            .expect("kubectl");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), text)
    }
}

/// Starts a cluster of two Nodes.
pub(crate) fn cluster() -> Arc<Driver> {
    let cluster = Driver::start(&["--node-monitor-grace-period=1h", "--node-startup-grace-period=1h"]);
    for name in ["a", "b"] {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        cluster.create("/api/v1/nodes", &node);
        let status = json!({"status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        cluster.merge(&format!("/api/v1/nodes/{name}/status"), &status);
    }
    Arc::new(cluster)
}

#[test]
fn kubectl_rolls_out_deployments() {
    let test = "kubectl_rolls_out_deployments";
    if !has(test, "kubectl", "--help") {
        return;
    }
    let cluster = cluster();
    let _agents = Agents::start(&cluster);
    let kubectl = Kubectl(cluster.api.kubeconfig());
    create_and_scale(&cluster, &kubectl);
    update_and_undo(&cluster, &kubectl);
    pause_and_resume(&cluster, &kubectl);
    delete_with_each_cascade(&cluster, &kubectl);
}

fn create_and_scale(cluster: &Driver, kubectl: &Kubectl) {
    kubectl.run("create deployment web --image=portolan.dev/echo:1 --replicas=2 --port=8080");
    let text = kubectl.run("rollout status deployment/web --timeout=60s");
    assert!(text.contains("successfully rolled out"), "{text}");
    // Each Node has one Pod.
    let nodes: std::collections::BTreeSet<String> = pods(cluster)
        .iter()
        .map(|pod| pod["spec"]["nodeName"].to_string())
        .collect();
    assert_eq!(nodes.len(), 2);
    kubectl.run("expose deployment web --port=80 --target-port=8080");
    kubectl.run("scale deployment/web --replicas=4 --current-replicas=2");
    let (succeeds, text) = kubectl.outcome("scale deployment/web --replicas=9 --current-replicas=2");
    assert!(
        !succeeds && text.contains("Expected replicas to be 2, was 4"),
        "{text}"
    );
    kubectl.run("rollout status deployment/web --timeout=60s");
    let wide = kubectl.run("get deployments -o wide");
    let words: Vec<&str> = wide.split_whitespace().collect();
    assert_eq!(
        words[..8],
        [
            "NAME",
            "READY",
            "UP-TO-DATE",
            "AVAILABLE",
            "AGE",
            "CONTAINERS",
            "IMAGES",
            "SELECTOR"
        ]
    );
    assert_eq!(words[8..12], ["web", "4/4", "4", "4"]);
    assert_eq!(words[13..16], ["echo", "portolan.dev/echo:1", "app=web"]);
    let all = kubectl.run("get all");
    for part in [
        "pod/web-",
        "service/web",
        "deployment.apps/web",
        "replicaset.apps/web-",
    ] {
        assert!(all.contains(part), "{all}");
    }
}

fn update_and_undo(cluster: &Driver, kubectl: &Kubectl) {
    kubectl.run("set image deployment/web echo=portolan.dev/echo:2");
    kubectl.run("rollout status deployment/web --timeout=60s");
    let images = || -> Vec<String> {
        live_pods(cluster)
            .map(|pod| {
                pod["spec"]["containers"][0]["image"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            })
            .collect()
    };
    assert_eq!(images(), ["portolan.dev/echo:2"; 4]);
    let history = kubectl.run("rollout history deployment/web");
    let revisions: Vec<&str> = history
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(revisions[revisions.len() - 2..], ["1", "2"], "{history}");
    kubectl.run("rollout undo deployment/web");
    kubectl.run("rollout status deployment/web --timeout=60s");
    assert_eq!(images(), ["portolan.dev/echo:1"; 4]);
    let described = kubectl.run("describe deployment web");
    for part in [
        "deployment.kubernetes.io/revision: 3",
        "4 desired | 4 updated | 4 total | 4 available | 0 unavailable",
        "NewReplicaSetAvailable",
        "MinimumReplicasAvailable",
        "Scaled up replica set web-",
    ] {
        assert!(described.contains(part), "{part}: {described}");
    }
    kubectl.run("rollout restart deployment/web");
    kubectl.run("rollout status deployment/web --timeout=60s");
    let are_annotated =
        |pod: Value| pod["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].is_string();
    assert_eq!(
        live_pods(cluster).map(are_annotated).collect::<Vec<_>>(),
        [true; 4]
    );
}

/// Returns the Pods that do not terminate.
fn live_pods(cluster: &Driver) -> impl Iterator<Item = Value> + use<> {
    let all = pods(cluster).into_iter();
    all.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
}

fn pause_and_resume(cluster: &Driver, kubectl: &Kubectl) {
    let sets = || {
        cluster.get(REPLICA_SETS).expect("a list")["items"]
            .as_array()
            .map_or(0, Vec::len)
    };
    let before = sets();
    kubectl.run("rollout pause deployment/web");
    kubectl.run("set image deployment/web echo=portolan.dev/echo:3");
    let path = format!("{DEPLOYMENTS}/web");
    cluster.wait_until("the observed pause", &path, |deployment| {
        let deployment = deployment.expect("a Deployment");
        deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
    });
    assert_eq!(sets(), before, "a paused Deployment is not rolled out");
    kubectl.run("rollout resume deployment/web");
    kubectl.run("rollout status deployment/web --timeout=60s");
    assert_eq!(sets(), before + 1);
    let explained = kubectl.run("explain deployment.spec.strategy");
    assert!(explained.contains("rollingUpdate"), "{explained}");
}

fn delete_with_each_cascade(cluster: &Driver, kubectl: &Kubectl) {
    kubectl.run("delete deployment web --cascade=orphan");
    let owners = |list: &str| -> Vec<Value> {
        let items = cluster.get(list).expect("a list")["items"]
            .as_array()
            .expect("items")
            .clone();
        items
            .into_iter()
            .map(|item| item["metadata"]["ownerReferences"].clone())
            .collect()
    };
    wait_for("ReplicaSets without owners", || {
        let owners = owners(REPLICA_SETS);
        !owners.is_empty() && owners.iter().all(Value::is_null)
    });
    // A Deployment with the same selector adopts them with their Pods.
    let uids = || -> Vec<String> {
        pods(cluster)
            .iter()
            .map(|pod| pod["metadata"]["uid"].to_string())
            .collect()
    };
    let before = uids();
    kubectl.run("create deployment web --image=portolan.dev/echo:3 --replicas=4 --port=8080");
    wait_for("adopted ReplicaSets", || {
        !owners(REPLICA_SETS).iter().any(Value::is_null)
    });
    kubectl.run("delete deployment web --cascade=foreground");
    wait_for("deletion of the Pods", || pods(cluster).is_empty());
    assert_eq!(owners(REPLICA_SETS), Vec::<Value>::new());
    assert_eq!(before.len(), 4);
    kubectl.run("create deployment web --image=portolan.dev/echo:3");
    kubectl.run("rollout status deployment/web --timeout=60s");
    kubectl.run("delete deployment web");
    wait_for("deletion of the Pods", || pods(cluster).is_empty());
}

#[test]
fn unschedulable_pod_has_a_reason_and_is_scheduled_later() {
    let cluster = cluster();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                     "spec": {"containers": [{"name": "c", "image": "x"}], "nodeSelector": {"disk": "ssd"}}});
    cluster.create(PODS, &pod);
    let path = format!("{PODS}/p");
    let condition = |pod: Option<&Value>| -> String {
        let conditions = pod.and_then(|pod| pod["status"]["conditions"].as_array().cloned());
        let mut conditions = conditions.into_iter().flatten();
        let scheduled = conditions.find(|condition| condition["type"] == "PodScheduled");
        scheduled.map_or_else(String::new, |condition| {
            condition["message"].as_str().unwrap_or_default().to_owned()
        })
    };
    cluster.wait_until("the reason of the scheduler", &path, |pod| {
        condition(pod).starts_with("0/2 nodes are available: 2 node(s) ")
    });
    cluster.merge(
        "/api/v1/nodes/b",
        &json!({"metadata": {"labels": {"disk": "ssd"}}}),
    );
    cluster.wait_until("an assigned Node", &path, |pod| {
        pod.is_some_and(|pod| pod["spec"]["nodeName"] == "b")
    });
}
