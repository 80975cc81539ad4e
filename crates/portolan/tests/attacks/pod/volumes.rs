//! Volumes whose symbolic links a container replaces. The agent writes and deletes files in them as root.

use http::Method;
use serde_json::json;

use super::{NODE, PODS, attacker};
use crate::test_cluster::TestCluster;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn agent_does_not_follow_links_out_of_a_volume() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(1);
        cluster.up(NODE, &[]);
        cluster.wait_for_node(NODE, NODE, "True");
        let directory = cluster.data_dir(NODE);
        let treasure = directory.parent().expect("a directory").join("treasure");
        std::fs::create_dir(&treasure).expect("a directory");
        let object = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": value}});
        cluster.request(NODE, Method::POST, CONFIG_MAPS, Some(&object("old")));
        let script = format!(
            "ln -sfn {} /mnt/..data; touch /tmp/ready; until grep -q new /mnt/a; do sleep 0.2; done",
            treasure.display()
        );
        let mut main = attacker(&script);
        main["name"] = json!("main");
        main["volumeMounts"] = json!([{"name": "settings", "mountPath": "/mnt"}]);
        main["readinessProbe"] =
            json!({"exec": {"command": ["/bin/bash", "-c", "test -e /tmp/ready"]}, "periodSeconds": 1});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "links"},
            "spec": {"nodeName": NODE, "restartPolicy": "Never", "containers": [main],
                     "volumes": [{"name": "settings", "configMap": {"name": "settings"}}]}});
        cluster.wait_for("the default ServiceAccount", || {
            cluster
                .try_request(NODE, Method::POST, PODS, Some(&pod))
                .map(|_| true)
        });
        cluster.wait_for_pod(NODE, "links", "Running");
        let path = format!("{CONFIG_MAPS}/settings");
        cluster.request(NODE, Method::PATCH, &path, Some(&object("new")));
        // The Pod exits after the agent has updated the volume.
        cluster.wait_for_pod(NODE, "links", "Succeeded");
        assert!(treasure.exists(), "the agent has deleted a directory of the node");
    });
}
