//! StatefulSets, DaemonSets, Jobs and ReplicationControllers driven with kubectl, and the eviction of Pods by taints.

use serde_json::{Value, json};

use crate::deployments::{Agents, Kubectl, cluster, pods};
use crate::driver::Driver;
use crate::support::{has, wait_for};

const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const REPLICATION_CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";

fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "portolan.dev/echo:1"}]},
    })
}

/// Returns names and Nodes of the Pods with this label, sorted.
fn placed(cluster: &Driver, app: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let pods = pods(cluster).into_iter();
    let mut placed: Vec<_> = pods
        .filter(|pod| pod["metadata"]["labels"]["app"] == app)
        .map(|pod| (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"])))
        .collect();
    placed.sort();
    placed
}

#[test]
fn kubectl_rolls_out_stateful_sets() {
    if !has("kubectl_rolls_out_stateful_sets", "kubectl", "--help") {
        return;
    }
    let cluster = cluster();
    let _agents = Agents::start(&cluster);
    let kubectl = Kubectl(cluster.api.kubeconfig());
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": template("db"),
        },
    });
    cluster.create(STATEFUL_SETS, &set);
    kubectl.run("rollout status statefulset/db --timeout=60s");
    let names = || {
        placed(&cluster, "db")
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), ["db-0", "db-1"]);
    let pod = cluster
        .get("/api/v1/namespaces/default/pods/db-1")
        .expect("a Pod");
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("db-1"), &json!("db"))
    );
    let table = kubectl.run("get sts");
    assert!(table.contains("READY") && table.contains("2/2"), "{table}");
    kubectl.run("scale statefulset/db --replicas=3");
    kubectl.run("rollout status statefulset/db --timeout=60s");
    kubectl.run("set image statefulset/db c=portolan.dev/echo:2");
    kubectl.run("rollout status statefulset/db --timeout=60s");
    assert_eq!(names(), ["db-0", "db-1", "db-2"]);
    let history = kubectl.run("rollout history statefulset/db");
    assert!(history.contains('2'), "{history}");
    kubectl.run("rollout undo statefulset/db");
    kubectl.run("rollout status statefulset/db --timeout=60s");
    let image = "get pod db-0 -o jsonpath={.spec.containers[0].image}";
    assert_eq!(kubectl.run(image), "portolan.dev/echo:1");
    kubectl.run("delete statefulset db --wait=true");
    wait_for("the Pods of db are deleted", || names().is_empty());
}

#[test]
fn stateful_sets_with_volume_claims_are_refused() {
    if !has(
        "stateful_sets_with_volume_claims_are_refused",
        "kubectl",
        "--help",
    ) {
        return;
    }
    let cluster = cluster();
    let kubectl = Kubectl(cluster.api.kubeconfig());
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template("db"),
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
        },
    });
    let file = kubectl.0.with_file_name("claims.json");
    std::fs::write(&file, set.to_string()).expect("a file");
    let (succeeds, text) = kubectl.outcome(&format!("create -f {}", file.display()));
    let expected = "spec.volumeClaimTemplates: Forbidden: persistent volumes are not served";
    assert!(!succeeds && text.contains(expected), "{text}");
}

#[test]
fn daemon_sets_run_on_each_node() {
    if !has("daemon_sets_run_on_each_node", "kubectl", "--help") {
        return;
    }
    let cluster = cluster();
    let _agents = Agents::start(&cluster);
    let kubectl = Kubectl(cluster.api.kubeconfig());
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log"},
        "spec": {"selector": {"matchLabels": {"app": "log"}}, "template": template("log")},
    });
    cluster.create(DAEMON_SETS, &set);
    kubectl.run("rollout status daemonset/log --timeout=60s");
    let nodes = || {
        placed(&cluster, "log")
            .into_iter()
            .map(|(_, node)| node)
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(nodes(), ["a".to_owned(), "b".to_owned()].into());
    kubectl.run("set image daemonset/log c=portolan.dev/echo:2");
    kubectl.run("rollout status daemonset/log --timeout=60s");
    kubectl.run("taint node b maintenance=now:NoExecute");
    wait_for("the Pod leaves the tainted Node", || {
        nodes() == ["a".to_owned()].into()
    });
    kubectl.run("taint node b maintenance-");
    wait_for("the Pod is back", || nodes().len() == 2);
}

#[test]
fn taints_evict_pods_that_do_not_tolerate_them() {
    if !has("taints_evict_pods_that_do_not_tolerate_them", "kubectl", "--help") {
        return;
    }
    let cluster = cluster();
    let _agents = Agents::start(&cluster);
    let kubectl = Kubectl(cluster.api.kubeconfig());
    kubectl.run("create deployment web --image=portolan.dev/echo:1 --replicas=2");
    kubectl.run("rollout status deployment/web --timeout=60s");
    let tolerations = "get pods -o jsonpath={.items[0].spec.tolerations[*].key}";
    assert_eq!(
        kubectl.run(tolerations),
        "node.kubernetes.io/not-ready node.kubernetes.io/unreachable"
    );
    kubectl.run("taint node a k=v:NoExecute");
    wait_for("all Pods run on the other Node", || {
        let placed = placed(&cluster, "web");
        placed.len() == 2 && placed.iter().all(|(_, node)| node == "b")
    });
    wait_for("an Event names the eviction", || {
        kubectl.run("get events").contains("TaintManagerEviction")
    });
}

#[test]
fn jobs_run_to_completion() {
    if !has("jobs_run_to_completion", "kubectl", "--help") {
        return;
    }
    let cluster = cluster();
    let _agents = Agents::start(&cluster);
    let kubectl = Kubectl(cluster.api.kubeconfig());
    kubectl.run("create job once --image=portolan.dev/echo:1");
    let pod = || {
        pods(&cluster)
            .into_iter()
            .find(|pod| pod["status"]["phase"] == "Running")
    };
    wait_for("a Pod runs", || pod().is_some());
    let pod = pod().expect("a Pod");
    let name = pod["metadata"]["name"].as_str().expect("a name").to_owned();
    let path = format!("/api/v1/namespaces/default/pods/{name}/status");
    cluster.merge(&path, &json!({"status": {"phase": "Succeeded"}}));
    kubectl.run("wait --for=condition=complete job/once --timeout=60s");
    let job = cluster.get(&format!("{JOBS}/once")).expect("a Job");
    assert_eq!(job["status"]["succeeded"], 1);
    let table = kubectl.run("get jobs");
    assert!(table.contains("Complete") && table.contains("1/1"), "{table}");
    kubectl.run("delete job once --wait=true");
    wait_for("the Pod is deleted", || pods(&cluster).is_empty());
    // The Pod of a Job that is deleted while it runs loses its finalizer.
    kubectl.run("create job twice --image=portolan.dev/echo:1");
    wait_for("a Pod runs", || {
        pods(&cluster)
            .iter()
            .any(|pod| pod["status"]["phase"] == "Running")
    });
    kubectl.run("delete job twice --cascade=background");
    wait_for("the running Pod is deleted", || pods(&cluster).is_empty());
}

#[test]
fn replication_controllers_scale() {
    if !has("replication_controllers_scale", "kubectl", "--help") {
        return;
    }
    let cluster = cluster();
    let _agents = Agents::start(&cluster);
    let kubectl = Kubectl(cluster.api.kubeconfig());
    let controller = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
        "spec": {"replicas": 2, "template": template("rc")},
    });
    cluster.create(REPLICATION_CONTROLLERS, &controller);
    wait_for("two Pods", || placed(&cluster, "rc").len() == 2);
    kubectl.run("scale rc/rc --replicas=1");
    wait_for("one Pod", || placed(&cluster, "rc").len() == 1);
    let scale = cluster
        .get(&format!("{REPLICATION_CONTROLLERS}/rc/scale"))
        .expect("a scale");
    assert_eq!(scale["status"]["selector"], "app=rc");
}
