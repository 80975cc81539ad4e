//! Join, join tokens, node removal and replacement.

use std::net::{IpAddr, SocketAddr};

use http::Method;
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, connecting_container, echo_container};

/// Returns the addresses of a Pod with the port of `portolan.dev/echo`.
fn endpoints(pod: &Value) -> Vec<SocketAddr> {
    let ips = pod["status"]["podIPs"].as_array().expect("addresses");
    let address = |ip: &Value| -> IpAddr {
        ip["ip"]
            .as_str()
            .and_then(|ip| ip.parse().ok())
            .expect("an address")
    };
    ips.iter().map(|ip| SocketAddr::new(address(ip), 8080)).collect()
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
           "spec": {"selector": {"app": name}, "ipFamilyPolicy": "RequireDualStack",
                    "ports": [{"port": 80, "targetPort": 8080}]}})
}

/// Creates a Service and returns its cluster IPs with the port.
fn create_service(cluster: &TestCluster, server: &str, name: &str) -> Vec<SocketAddr> {
    let created = cluster.request(
        server,
        Method::POST,
        "/api/v1/namespaces/default/services",
        Some(&service(name)),
    );
    let ips = created["spec"]["clusterIPs"].as_array().expect("addresses");
    let address = |ip: &Value| -> IpAddr { ip.as_str().and_then(|ip| ip.parse().ok()).expect("an address") };
    ips.iter().map(|ip| SocketAddr::new(address(ip), 80)).collect()
}

/// Joins `node-2` with a new token.
fn join_second(cluster: &mut TestCluster) {
    let server = format!("--server={}", cluster.server("node-1"));
    let token = format!("--token={}", cluster.token("node-1", &[]));
    cluster.join("node-2", &[&server, &token]);
}

/// Runs a Pod on each node, and Pods that connect to the Pod of the other node by its addresses and its Service.
fn connect_pods_across_nodes(cluster: &TestCluster) {
    cluster.run_pod("node-1", "node-1", "one", echo_container());
    cluster.run_pod("node-1", "node-2", "two", echo_container());
    let one = endpoints(&cluster.wait_for_pod("node-1", "one", "Running"));
    let two = endpoints(&cluster.wait_for_pod("node-1", "two", "Running"));
    assert_eq!(
        (one.len(), two.len()),
        (2, 2),
        "Pods have addresses of both families"
    );
    let from_one = [two, create_service(cluster, "node-1", "two")].concat();
    let from_two = [one, create_service(cluster, "node-1", "one")].concat();
    cluster.run_pod(
        "node-1",
        "node-1",
        "connects-to-two",
        connecting_container(&from_one),
    );
    cluster.run_pod(
        "node-1",
        "node-2",
        "connects-to-one",
        connecting_container(&from_two),
    );
    cluster.wait_for_pod("node-1", "connects-to-two", "Succeeded");
    cluster.wait_for_pod("node-1", "connects-to-one", "Succeeded");
}

#[test]
fn pods_pod_range_nodes_reach_each_other() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        cluster.up("node-1", &[]);
        join_second(&mut cluster);
        for node in ["node-1", "node-2"] {
            cluster.wait_for_node("node-1", node, "True");
        }
        connect_pods_across_nodes(&cluster);
        // The API server requests the log from the agent of the node and verifies its certificate.
        cluster.wait_for("the log of a Pod", || {
            let path = "/api/v1/namespaces/default/pods/two/log";
            // The log is not JSON; any response is sufficient.
            match cluster.try_request("node-1", Method::GET, path, None) {
                Err(client::ClientError::Decode { .. }) => Ok(true),
                Err(error) => Err(error),
                Ok(_) => Ok(true),
            }
        });
        // A joined node restarts without a token.
        cluster.kill("node-2");
        cluster.wait_for_node("node-1", "node-2", "Unknown");
        cluster.wait_for("an endpoint that is not ready", || {
            let slices = cluster.try_request(
                "node-1",
                Method::GET,
                "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dtwo",
                None,
            )?;
            let slices = slices["items"].as_array().cloned().unwrap_or_default();
            let mut all = slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
            Ok(all.all(|endpoint| endpoint["conditions"]["ready"] == false))
        });
        cluster.join("node-2", &[]);
        cluster.wait_for_node("node-1", "node-2", "True");
        cluster.wait_for_pod("node-1", "two", "Running");
    });
}

#[test]
fn nodes_behind_a_router_use_vxlan() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        if !cluster.has_vxlan() {
            testbed::skip_inside("this kernel has no VXLAN");
        }
        cluster.insert_router();
        cluster.up("node-1", &["--network=vxlan"]);
        join_second(&mut cluster);
        cluster.wait_for_node("node-1", "node-2", "True");
        connect_pods_across_nodes(&cluster);
    });
}

#[test]
fn join_reports_the_reason_of_a_refusal() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        cluster.up("node-1", &[]);
        cluster.wait_for_node("node-1", "node-1", "True");
        let server = format!("--server={}", cluster.server("node-1"));
        let token = cluster.token("node-1", &[]);
        let join_error = |flags: &[&str]| {
            let arguments = cluster.join_flags("node-2", flags);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            cluster.expect_failure("node-2", &arguments)
        };
        let error = join_error(&[]);
        assert!(
            error.contains("--server and --token or --token-file are needed"),
            "{error}"
        );
        let error = join_error(&[&server, "--token=abcdef"]);
        assert!(error.contains("abcdef.0123456789abcdef"), "{error}");
        // The token authenticates the node, the hash authenticates the server.
        let (plain, hash) = token.split_once(".sha256:").expect("a CA hash");
        let error = join_error(&[&server, &format!("--token={plain}")]);
        assert!(error.contains("--ca-hash"), "{error}");
        let other = format!("{plain}.sha256:{}", "0".repeat(hash.len()));
        let error = join_error(&[&server, &format!("--token={other}")]);
        assert!(
            error.contains("is not the server that the token is for"),
            "{error}"
        );
        // `node-1` is the node of the server; `kubernetes` is a DNS name of the API server.
        for (name, reason) in [
            ("node-1", "a name of the API server"),
            ("kubernetes", "a name of the API server"),
        ] {
            let data_dir = format!("--data-dir={}", cluster.data_dir(&format!("as-{name}")).display());
            let arguments = [
                "join",
                &server,
                &data_dir,
                &format!("--token={token}"),
                &format!("--node-name={name}"),
            ];
            let error = cluster.expect_failure("node-2", &arguments);
            assert!(error.contains(reason), "{error}");
        }
        let unknown = format!("--token=abcdef.0123456789abcdef.sha256:{hash}");
        let error = join_error(&[&server, &unknown]);
        assert!(error.contains("does not know the token"), "{error}");
        let directory = format!("--data-dir={}", cluster.data_dir("node-1").display());
        let id = token.split('.').next().expect("a token ID");
        assert!(
            cluster
                .succeed("node-1", &["token", "list", &directory])
                .contains(id)
        );
        cluster.succeed("node-1", &["token", "revoke", id, &directory]);
        let error = join_error(&[&server, &format!("--token={token}")]);
        assert!(error.contains("does not know the token"), "{error}");
        // An expired token is invalid and is deleted.
        let short = cluster.token("node-1", &["--ttl=1s"]);
        let id = short.split('.').next().expect("a token ID").to_owned();
        cluster.wait_for("deletion of the expired token", || {
            Ok(!cluster
                .succeed("node-1", &["token", "list", &directory])
                .contains(&id))
        });
        let error = join_error(&[&server, &format!("--token={short}")]);
        assert!(error.contains("does not know the token"), "{error}");
        let error = cluster.expect_failure(
            "node-2",
            &[
                "leave",
                &format!("--data-dir={}", cluster.data_dir("node-2").display()),
            ],
        );
        assert!(error.contains("has not joined"), "{error}");
    });
}

#[test]
fn leave_removes_the_state_of_a_node() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        cluster.up("node-1", &[]);
        join_second(&mut cluster);
        cluster.wait_for_node("node-1", "node-2", "True");
        cluster.run_pod("node-1", "node-2", "two", echo_container());
        cluster.wait_for_pod("node-1", "two", "Running");
        let range = |cluster: &TestCluster| -> ipnet::IpNet {
            let node = cluster.get("node-1", "/api/v1/nodes/node-2");
            node["spec"]["podCIDR"]
                .as_str()
                .and_then(|range| range.parse().ok())
                .expect("a Pod CIDR")
        };
        let pod_range = range(&cluster);
        cluster.wait_for("the route to the node", || {
            Ok(has_route(&cluster, "node-1", pod_range))
        });
        let data_dir = format!("--data-dir={}", cluster.data_dir("node-2").display());
        // A joined host has no right to single checks of the API server.
        cluster.succeed("node-2", &["status", "--wait=60s", &data_dir]);
        cluster.succeed("node-2", &["leave", &data_dir]);
        cluster.wait_for_exit("node-2");
        let nodes = cluster.get("node-1", "/api/v1/nodes");
        assert_eq!(nodes["items"].as_array().map(Vec::len), Some(1));
        let pods = cluster.get("node-1", "/api/v1/namespaces/default/pods");
        assert_eq!(pods["items"].as_array().map(Vec::len), Some(0));
        assert!(!cluster.data_dir("node-2").join("node").exists());
        assert!(
            cluster
                .routes("node-2")
                .iter()
                .all(|route| route.protocol != routes::PROTOCOL)
        );
        cluster.wait_for("removal of the route", || {
            Ok(!has_route(&cluster, "node-1", pod_range))
        });
        // The node joins again with a token.
        join_second(&mut cluster);
        cluster.wait_for_node("node-1", "node-2", "True");
    });
}

#[test]
fn removed_node_has_no_rights_until_it_joins_again() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        cluster.up("node-1", &[]);
        join_second(&mut cluster);
        cluster.wait_for_node("node-1", "node-2", "True");
        // Another CA signs the serving certificates of agents than that of the API server.
        let read = |node: &str, file: &str| {
            std::fs::read_to_string(cluster.data_dir(node).join(file)).expect("a file")
        };
        cluster.wait_for("the serving certificate", || {
            Ok(cluster.data_dir("node-2").join("node/agent-serving.pem").exists())
        });
        let serving = read("node-2", "node/agent-serving.pem");
        assert!(!apiserver::pki::is_signed_by(
            &serving,
            &read("node-1", "pki/ca.crt")
        ));
        assert!(apiserver::pki::is_signed_by(
            &serving,
            &read("node-1", "pki/kubelet-serving-ca.crt")
        ));
        cluster.kill("node-2");
        let server = format!("--server={}", cluster.server("node-1"));
        let path = "/api/v1/nodes/node-2";
        // A token does not give the name of an existing Node, ready or not.
        let empty = format!("--data-dir={}", cluster.data_dir("thief").display());
        let token = format!("--token={}", cluster.token("node-1", &[]));
        let thief = ["join", &server, &empty, &token, "--node-name=node-2"];
        let error = cluster.expect_failure("node-2", &thief);
        assert!(error.contains("a Node named \"node-2\" exists"), "{error}");
        cluster
            .try_request("node-1", Method::DELETE, path, None)
            .expect("a deleted Node");
        let arguments = cluster.join_flags("node-2", &[]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let error = cluster.expect_failure("node-2", &arguments);
        assert!(error.contains("its Node was removed"), "{error}");
        join_second(&mut cluster);
        cluster.wait_for_node("node-1", "node-2", "True");
    });
}

#[test]
fn replacement_token_is_valid_once() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(3);
        cluster.up("node-1", &[]);
        join_second(&mut cluster);
        cluster.wait_for_node("node-1", "node-2", "True");
        cluster.kill("node-2");
        let server = format!("--server={}", cluster.server("node-1"));
        let file = cluster.data_dir("token");
        let token = cluster.token("node-1", &["--replace=node-2"]);
        std::fs::write(&file, &token).expect("a file");
        let token = format!("--token-file={}", file.display());
        let mut arguments = cluster.join_flags("node-3", &[&server, &token]);
        for argument in &mut arguments {
            if argument == "--node-name=node-3" {
                *argument = "--node-name=node-2".to_owned();
            }
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        cluster.start_as("node-3", "node-3", &arguments);
        let replacing = cluster.address("node-3").to_string();
        cluster.wait_for("the addresses of the new host", || {
            let node = cluster.try_request("node-1", Method::GET, "/api/v1/nodes/node-2", None)?;
            let mut addresses = node["status"]["addresses"].as_array().into_iter().flatten();
            Ok(addresses.any(|address| address["address"] == replacing.as_str()))
        });
        // The token is used up.
        let mut arguments = cluster.join_flags("node-2", &[&server, &token]);
        let elsewhere = format!("--data-dir={}", cluster.data_dir("once-more").display());
        for argument in &mut arguments {
            if argument.starts_with("--data-dir=") {
                argument.clone_from(&elsewhere);
            }
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let error = cluster.expect_failure("node-2", &arguments);
        assert!(error.contains("a Node named \"node-2\" exists"), "{error}");
    });
}

fn has_route(cluster: &TestCluster, node: &str, to: ipnet::IpNet) -> bool {
    let routes = cluster.routes(node);
    routes
        .iter()
        .any(|route| route.destination == to && route.protocol == routes::PROTOCOL)
}
