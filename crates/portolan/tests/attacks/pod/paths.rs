//! Paths in a Pod that root of the node opens or creates.

use http::Method;
use serde_json::{Value, json};

use super::{NODE, PODS, attacker};
use crate::test_cluster::TestCluster;

/// Returns a Pod without privileges.
fn pod(name: &str, mut container: Value) -> Value {
    container["name"] = json!("main");
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"nodeName": NODE, "restartPolicy": "Never", "containers": [container],
                 "volumes": [{"name": "own", "emptyDir": {}}]}})
}

/// `/proc/1` is the sandbox of the Pod, which has the files of the node.
#[test]
fn mount_paths_create_no_files_on_the_node() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(1);
        cluster.up(NODE, &[]);
        cluster.wait_for_node(NODE, NODE, "True");
        let data = cluster.data_dir(NODE);
        let directory = data.parent().expect("a directory");
        let made = |name: &str| directory.join(name);
        let of_sandbox = |name: &str| format!("/proc/1/root{}", made(name).display());
        let mut volume = attacker("true");
        volume["volumeMounts"] = json!([{"name": "own", "mountPath": of_sandbox("volume")}]);
        let mut message = attacker("true");
        message["terminationMessagePath"] = json!(of_sandbox("message"));
        let containers = [("volume", volume), ("message", message)];
        for (name, container) in &containers {
            let pod = pod(name, container.clone());
            cluster.wait_for("the default ServiceAccount", || {
                cluster
                    .try_request(NODE, Method::POST, PODS, Some(&pod))
                    .map(|_| true)
            });
        }
        for (name, _) in &containers {
            cluster.wait_until("a container that does not start", |cluster| {
                let status = cluster.get(NODE, &format!("{PODS}/{name}"))["status"].clone();
                assert_ne!(
                    status["phase"], "Succeeded",
                    "the container {name} starts: {status}"
                );
                let reason = &status["containerStatuses"][0]["state"]["waiting"]["reason"];
                (reason == "RunContainerError" || status["phase"] == "Failed").then_some(())
            });
            assert!(!made(name).exists(), "the agent has created {name} on the node");
        }
    });
}
