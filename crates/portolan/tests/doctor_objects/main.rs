//! `portolan doctor` with faults that are planted as objects in running API servers: that of Portolan with its
//! controllers, and a cluster of Kubernetes with kube-proxy.

#[path = "../support/cluster.rs"]
mod cluster;
mod coverage;
mod plant;
#[path = "../support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::Command;

use plant::{Fault, Healthy, Server, WorldPlace, read};
use support::{Api, portolan};

/// Environment variable with the kubeconfig of the cluster for [`cluster_has_planted_faults`].
const KUBECONFIG: &str = "DOCTOR_OBJECTS_KUBECONFIG";
/// First three octets of the cluster's network.
const NETWORK: &str = "198.18.23";

/// Namespace of a healthy world.
fn namespace_of(number: usize) -> String {
    format!("healthy-{number}")
}

/// Plants all worlds of a place at once, and examines them.
fn examine(server: &Server, place: WorldPlace) -> Vec<String> {
    let faults: Vec<Fault> = read("faults.yaml");
    let planted = faults
        .iter()
        .filter(|fault| fault.is_in(place) && fault.without.is_none());
    let (rejected, created): (Vec<&Fault>, Vec<&Fault>) = planted.partition(|fault| fault.rejected);
    let healthy: Vec<Healthy> = read("healthy.yaml");
    let healthy: Vec<(usize, Healthy)> = healthy.into_iter().enumerate().collect();
    let healthy: Vec<&(usize, Healthy)> = healthy.iter().filter(|(_, world)| world.is_in(place)).collect();
    for fault in &created {
        server.plant(fault);
    }
    for (number, world) in &healthy {
        server.plant_healthy(&namespace_of(*number), world);
    }
    let lasting: Vec<&Fault> = created
        .into_iter()
        .filter(|fault| !fault.is_undone(place))
        .collect();
    for fault in &lasting {
        server.change(fault);
    }
    let found = lasting.iter().map(|fault| server.expect(fault));
    let of_rejected = rejected.iter().map(|fault| server.expect_rejected(fault));
    let named = healthy.iter().flat_map(|(number, world)| {
        let services = world.services.iter();
        services.map(move |service| (namespace_of(*number), service))
    });
    let none = named.map(|(namespace, service)| server.expect_none(&namespace, service));
    let results = found.chain(of_rejected).chain(none);
    results.filter_map(Result::err).collect()
}

#[test]
fn faults_in_portolan_are_found_first() {
    let api = Api::start();
    let controllers = portolan(&[
        "controllers",
        &format!("--kubeconfig={}", api.kubeconfig().display()),
        "--metrics-bind-address=",
        "--leader-elect=false",
        "--node-monitor-grace-period=1h",
        "--node-startup-grace-period=1h",
    ]);
    let server = Server::connect(WorldPlace::Standalone, &api.kubeconfig(), ["node-a", "node-b"]);
    for number in 0..2 {
        server.create_node(number);
    }
    let mut failures = examine(&server, WorldPlace::Standalone);
    drop(controllers);
    let faults: Vec<Fault> = read("faults.yaml");
    let undone = faults
        .iter()
        .filter(|fault| fault.is_in(WorldPlace::Standalone) && fault.is_undone(WorldPlace::Standalone));
    for fault in undone {
        if fault.without.is_some() {
            server.plant(fault);
        }
        server.change(fault);
        failures.extend(server.expect(fault).err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Starts a cluster of two nodes with kube-proxy, and runs a test of this program in the network of its server.
/// Arguments: the program, and the name of the test.
const RUN: &str = r#"
    set -eu
    mkdir -p /run/netns && mount -t tmpfs namespaces /run/netns
    script=$0
    finish() {
        status=$?
        if [ $status != 0 ]; then "$script" server kubectl get pods -A -o wide || true; fi
        "$script" down
        exit $status
    }
    trap finish EXIT
    "$script" up --nodes 2
    DOCTOR_OBJECTS_KUBECONFIG=$CLUSTER_DIR/admin.conf "$script" server "$1" --exact "$2" --ignored --nocapture
"#;

#[test]
fn faults_in_kubernetes_are_found_first() {
    let Some(script) = cluster::script_or_skip("faults_in_kubernetes_are_found_first", &[]) else {
        return;
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new("unshare")
        .args(["--mount", "--propagation=private", "bash", "-c", RUN])
        .arg(script)
        .arg(std::env::current_exe().expect("this program"))
        .arg("cluster_has_planted_faults")
        .env("CLUSTER_DIR", directory.path())
        .env("CLUSTER_PREFIX", "pd")
        .env("CLUSTER_NET", NETWORK)
        .output()
        .expect("unshare");
    let text = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}", text.concat());
}

/// Plants the worlds in a running cluster.
#[test]
#[ignore = "a part of faults_in_kubernetes_are_found_first"]
fn cluster_has_planted_faults() {
    let kubeconfig = PathBuf::from(std::env::var_os(KUBECONFIG).expect("a kubeconfig"));
    let server = Server::connect(WorldPlace::Cluster, &kubeconfig, ["node1", "node2"]);
    let mut failures = examine(&server, WorldPlace::Cluster);
    for (namespace, service) in [("default", "kubernetes"), ("kube-system", "kube-dns")] {
        failures.extend(server.expect_none(namespace, service).err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
