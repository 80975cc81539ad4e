//! Joining and what comes of it.

use std::net::{IpAddr, SocketAddr};

use http::Method;
use serde_json::{Value, json};

use super::lab::{Lab, caller, echo};

/// Addresses of a Pod, with the port of echo.
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

/// Makes a Service; its addresses with their port.
fn make_service(lab: &Lab, server: &str, name: &str) -> Vec<SocketAddr> {
    let made = lab.ask(
        server,
        Method::POST,
        "/api/v1/namespaces/default/services",
        Some(&service(name)),
    );
    let ips = made["spec"]["clusterIPs"].as_array().expect("addresses");
    let address = |ip: &Value| -> IpAddr { ip.as_str().and_then(|ip| ip.parse().ok()).expect("an address") };
    ips.iter().map(|ip| SocketAddr::new(address(ip), 80)).collect()
}

/// Lets `node-2` join `node-1`, with a new token.
fn join_second(lab: &mut Lab) {
    let server = format!("--server={}", lab.server("node-1"));
    let token = format!("--token={}", lab.token("node-1", &[]));
    lab.join("node-2", &[&server, &token]);
}

/// Runs a Pod on each machine, and on each one that asks the other one's, by its addresses and by its Service's.
fn ask_each_other(lab: &Lab) {
    lab.run_pod("node-1", "node-1", "one", echo());
    lab.run_pod("node-1", "node-2", "two", echo());
    let one = endpoints(&lab.await_pod("node-1", "one", "Running"));
    let two = endpoints(&lab.await_pod("node-1", "two", "Running"));
    assert_eq!((one.len(), two.len()), (2, 2), "both families");
    let from_one = [two, make_service(lab, "node-1", "two")].concat();
    let from_two = [one, make_service(lab, "node-1", "one")].concat();
    lab.run_pod("node-1", "node-1", "asks-two", caller(&from_one));
    lab.run_pod("node-1", "node-2", "asks-one", caller(&from_two));
    lab.await_pod("node-1", "asks-two", "Succeeded");
    lab.await_pod("node-1", "asks-one", "Succeeded");
}

#[test]
fn pods_of_two_machines_reach_each_other() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(2);
        lab.up("node-1", &[]);
        join_second(&mut lab);
        for machine in ["node-1", "node-2"] {
            lab.await_node("node-1", machine, "True");
        }
        ask_each_other(&lab);
        // The log of a Pod is asked of the machine that runs it, which proves to be it.
        lab.wait_for("the log", || {
            let path = "/api/v1/namespaces/default/pods/two/log";
            // It is text, which is no JSON: that an answer came is all that is asked here.
            match lab.try_ask("node-1", Method::GET, path, None) {
                Err(client::ClientError::Decode { .. }) => Ok(true),
                Err(error) => Err(error),
                Ok(_) => Ok(true),
            }
        });
        // What has joined goes on without a token.
        lab.kill("node-2");
        lab.await_node("node-1", "node-2", "Unknown");
        lab.wait_for("the endpoint that leaves", || {
            let slices = lab.try_ask(
                "node-1",
                Method::GET,
                "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dtwo",
                None,
            )?;
            let slices = slices["items"].as_array().cloned().unwrap_or_default();
            let mut all = slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
            Ok(all.all(|endpoint| endpoint["conditions"]["ready"] == false))
        });
        lab.join("node-2", &[]);
        lab.await_node("node-1", "node-2", "True");
        lab.await_pod("node-1", "two", "Running");
    });
}

#[test]
fn packets_are_wrapped_where_a_router_is_in_between() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(2);
        if !lab.has_vxlan() {
            testbed::skip_inside("this kernel has no VXLAN");
        }
        lab.separate();
        lab.up("node-1", &["--network=vxlan"]);
        join_second(&mut lab);
        lab.await_node("node-1", "node-2", "True");
        ask_each_other(&lab);
    });
}

#[test]
fn who_may_not_join_is_told_why() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(2);
        lab.up("node-1", &[]);
        lab.await_node("node-1", "node-1", "True");
        let server = format!("--server={}", lab.server("node-1"));
        let token = lab.token("node-1", &[]);
        let try_to = |flags: &[&str]| {
            let arguments = lab.join_flags("node-2", flags);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            lab.refused("node-2", &arguments)
        };
        let said = try_to(&[]);
        assert!(
            said.contains("--server and --token or --token-file are needed"),
            "{said}"
        );
        let said = try_to(&[&server, "--token=abcdef"]);
        assert!(said.contains("abcdef.0123456789abcdef"), "{said}");
        // The token proves the machine to the server, its hash the server to the machine.
        let (plain, hash) = token.split_once(".sha256:").expect("a hash");
        let said = try_to(&[&server, &format!("--token={plain}")]);
        assert!(said.contains("--ca-hash"), "{said}");
        let other = format!("{plain}.sha256:{}", "0".repeat(hash.len()));
        let said = try_to(&[&server, &format!("--token={other}")]);
        assert!(said.contains("is not the server that the token is for"), "{said}");
        // The name of the server's machine, and one by which clients know the API server.
        for (name, reason) in [
            ("node-1", "a name of the API server"),
            ("kubernetes", "a name of the API server"),
        ] {
            let data_dir = format!("--data-dir={}", lab.data_dir(&format!("as-{name}")).display());
            let arguments = [
                "join",
                &server,
                &data_dir,
                &format!("--token={token}"),
                &format!("--node-name={name}"),
            ];
            let said = lab.refused("node-2", &arguments);
            assert!(said.contains(reason), "{said}");
        }
        let unknown = format!("--token=abcdef.0123456789abcdef.sha256:{hash}");
        let said = try_to(&[&server, &unknown]);
        assert!(said.contains("does not know the token"), "{said}");
        let directory = format!("--data-dir={}", lab.data_dir("node-1").display());
        let id = token.split('.').next().expect("an ID");
        assert!(lab.succeed("node-1", &["token", "list", &directory]).contains(id));
        lab.succeed("node-1", &["token", "revoke", id, &directory]);
        let said = try_to(&[&server, &format!("--token={token}")]);
        assert!(said.contains("does not know the token"), "{said}");
        // One whose time is over is worth nothing, and is removed.
        let short = lab.token("node-1", &["--ttl=1s"]);
        let id = short.split('.').next().expect("an ID").to_owned();
        lab.wait_for("the token's end", || {
            Ok(!lab
                .succeed("node-1", &["token", "list", &directory])
                .contains(&id))
        });
        let said = try_to(&[&server, &format!("--token={short}")]);
        assert!(said.contains("does not know the token"), "{said}");
        let said = lab.refused(
            "node-2",
            &[
                "leave",
                &format!("--data-dir={}", lab.data_dir("node-2").display()),
            ],
        );
        assert!(said.contains("has not joined"), "{said}");
    });
}

#[test]
fn who_leaves_leaves_nothing_behind() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(2);
        lab.up("node-1", &[]);
        join_second(&mut lab);
        lab.await_node("node-1", "node-2", "True");
        lab.run_pod("node-1", "node-2", "two", echo());
        lab.await_pod("node-1", "two", "Running");
        let range = |lab: &Lab| -> ipnet::IpNet {
            let node = lab.get("node-1", "/api/v1/nodes/node-2");
            node["spec"]["podCIDR"]
                .as_str()
                .and_then(|range| range.parse().ok())
                .expect("a range")
        };
        let of_two = range(&lab);
        lab.wait_for("the route", || Ok(has_route(&lab, "node-1", of_two)));
        let data_dir = format!("--data-dir={}", lab.data_dir("node-2").display());
        lab.succeed("node-2", &["leave", &data_dir]);
        lab.await_end("node-2");
        let nodes = lab.get("node-1", "/api/v1/nodes");
        assert_eq!(nodes["items"].as_array().map(Vec::len), Some(1));
        let pods = lab.get("node-1", "/api/v1/namespaces/default/pods");
        assert_eq!(pods["items"].as_array().map(Vec::len), Some(0));
        assert!(!lab.data_dir("node-2").join("node").exists());
        assert!(
            lab.routes("node-2")
                .iter()
                .all(|route| route.protocol != routes::PROTOCOL)
        );
        lab.wait_for("the route's end", || Ok(!has_route(&lab, "node-1", of_two)));
        // It may come again, with a token.
        join_second(&mut lab);
        lab.await_node("node-1", "node-2", "True");
    });
}

#[test]
fn a_removed_machine_has_no_rights_until_it_joins_again() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(2);
        lab.up("node-1", &[]);
        join_second(&mut lab);
        lab.await_node("node-1", "node-2", "True");
        // Its agent serves by another authority than the API server.
        let read = |machine: &str, file: &str| {
            std::fs::read_to_string(lab.data_dir(machine).join(file)).expect("a file")
        };
        lab.wait_for("the serving certificate", || {
            Ok(lab.data_dir("node-2").join("node/agent-serving.pem").exists())
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
        lab.kill("node-2");
        let server = format!("--server={}", lab.server("node-1"));
        let path = "/api/v1/nodes/node-2";
        // Somebody who has a token takes no name of a Node that is there, ready or not.
        let fresh = format!("--data-dir={}", lab.data_dir("thief").display());
        let token = format!("--token={}", lab.token("node-1", &[]));
        let thief = ["join", &server, &fresh, &token, "--node-name=node-2"];
        let said = lab.refused("node-2", &thief);
        assert!(said.contains("a Node named \"node-2\" exists"), "{said}");
        lab.try_ask("node-1", Method::DELETE, path, None)
            .expect("a removed Node");
        let arguments = lab.join_flags("node-2", &[]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = lab.refused("node-2", &arguments);
        assert!(said.contains("its Node was removed"), "{said}");
        join_second(&mut lab);
        lab.await_node("node-1", "node-2", "True");
    });
}

#[test]
fn a_token_lets_one_machine_replace_another_once() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(3);
        lab.up("node-1", &[]);
        join_second(&mut lab);
        lab.await_node("node-1", "node-2", "True");
        lab.kill("node-2");
        let server = format!("--server={}", lab.server("node-1"));
        let file = lab.data_dir("token");
        let token = lab.token("node-1", &["--replace=node-2"]);
        std::fs::write(&file, &token).expect("a file");
        let token = format!("--token-file={}", file.display());
        let mut arguments = lab.join_flags("node-3", &[&server, &token]);
        for argument in &mut arguments {
            if argument == "--node-name=node-3" {
                *argument = "--node-name=node-2".to_owned();
            }
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        lab.start_as("node-3", "node-3", &arguments);
        let replacing = lab.address("node-3").to_string();
        lab.wait_for("the Node on its new machine", || {
            let node = lab.try_ask("node-1", Method::GET, "/api/v1/nodes/node-2", None)?;
            let mut addresses = node["status"]["addresses"].as_array().into_iter().flatten();
            Ok(addresses.any(|address| address["address"] == replacing.as_str()))
        });
        // The token is spent.
        let mut arguments = lab.join_flags("node-2", &[&server, &token]);
        let elsewhere = format!("--data-dir={}", lab.data_dir("once-more").display());
        for argument in &mut arguments {
            if argument.starts_with("--data-dir=") {
                argument.clone_from(&elsewhere);
            }
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = lab.refused("node-2", &arguments);
        assert!(said.contains("a Node named \"node-2\" exists"), "{said}");
    });
}

fn has_route(lab: &Lab, machine: &str, to: ipnet::IpNet) -> bool {
    let routes = lab.routes(machine);
    routes
        .iter()
        .any(|route| route.destination == to && route.protocol == routes::PROTOCOL)
}
