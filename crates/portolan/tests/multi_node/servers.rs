//! Two control-plane nodes on one etcd.

use http::Method;
use serde_json::json;
use testbed::EtcdServer;

use super::test_cluster::{TestCluster, echo_container};

#[test]
fn cluster_survives_the_loss_of_a_server() {
    testbed::in_namespace(|| {
        if !EtcdServer::is_installed() {
            testbed::skip_inside("etcd is not installed");
        }
        let mut cluster = TestCluster::new(3);
        let etcd = format!("--etcd-servers={}", cluster.etcd());
        cluster.up("node-1", &[&etcd]);
        // A server with another cluster CA does not belong to the cluster.
        let data_dir = format!("--data-dir={}", cluster.data_dir("other-ca").display());
        let error = cluster.expect_failure("node-2", &["up", &data_dir, "--node-name=node-2", &etcd]);
        assert!(error.contains("another CA"), "{error}");
        cluster.share_ca("node-1", "node-2");
        cluster.up("node-2", &[&etcd]);
        cluster.wait_for_node("node-1", "node-2", "True");
        let servers = [cluster.server("node-1"), cluster.server("node-2")];
        cluster.wait_for("both servers", || {
            let endpoints = cluster.try_request(
                "node-2",
                Method::GET,
                "/api/v1/namespaces/default/endpoints/kubernetes",
                None,
            )?;
            Ok(endpoints["subsets"][0]["addresses"]
                .as_array()
                .is_some_and(|addresses| addresses.len() == 2))
        });
        let command = cluster.token("node-1", &["--print-join-command"]);
        assert!(servers.iter().all(|server| command.contains(server)), "{command}");
        let token = cluster.token("node-1", &[]);
        cluster.join("node-3", &["--server", &servers.join(","), "--token", &token]);
        cluster.wait_for_node("node-2", "node-3", "True");
        cluster.kill("node-1");
        // The node and the controllers use the other server.
        cluster.wait_for_node("node-2", "node-1", "Unknown");
        cluster.wait_for_node("node-2", "node-3", "True");
        cluster.run_pod("node-2", "node-3", "three", echo_container());
        cluster.wait_for_pod("node-2", "three", "Running");
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "three"},
            "spec": {"selector": {"app": "three"}, "ports": [{"port": 80, "targetPort": 8080}]}});
        cluster.request(
            "node-2",
            Method::POST,
            "/api/v1/namespaces/default/services",
            Some(&service),
        );
        cluster.wait_for("the endpoint", || {
            let endpoints = cluster.try_request(
                "node-2",
                Method::GET,
                "/api/v1/namespaces/default/endpoints/three",
                None,
            )?;
            Ok(endpoints["subsets"][0]["addresses"]
                .as_array()
                .is_some_and(|addresses| addresses.len() == 1))
        });
    });
}
