//! Two instances of the controllers, with separate credentials and the default roles: failover and release of
//! the lease.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use serde_json::{Value, json};

use crate::driver::Driver;
use crate::support::{Component, free_tcp_port, portolan, wait_for};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/portolan-controllers";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SECOND_USER: &str = "controllers-of-the-second-host";
const ROLES: [&str; 4] = [
    "system:kube-controller-manager",
    "system:controller:endpoint-controller",
    "system:controller:endpointslice-controller",
    "system:controller:endpointslicemirroring-controller",
];

/// Instance of the controllers, with the address of its metrics.
struct Instance {
    process: Component,
    status: SocketAddr,
}

impl Instance {
    fn start(cluster: &Driver, user: &str) -> Self {
        let directory = cluster.api.directory.path();
        let output = Command::new(env!("CARGO_BIN_EXE_portolan"))
            .arg("kubeconfig")
            .arg(format!("--data-dir={}", directory.join("data").display()))
            .arg(format!("--server={}", cluster.api.server))
            .arg(format!("--client-name={user}"))
            .output()
            .expect("the binary under test");
        assert!(output.status.success(), "{output:?}");
        let kubeconfig = directory.join(user);
        std::fs::write(&kubeconfig, output.stdout).expect("a kubeconfig");
        let status = SocketAddr::from(([127, 0, 0, 1], free_tcp_port()));
        let process = portolan(&[
            "controllers",
            &format!("--kubeconfig={}", kubeconfig.display()),
            &format!("--metrics-bind-address={status}"),
            "--controllers=endpointslice-controller,endpoints-controller,endpointslice-mirroring-controller",
            "--leader-elect-lease-duration=4s",
            "--leader-elect-renew-deadline=3s",
            "--leader-elect-retry-period=1s",
        ]);
        wait_for("the status server", || TcpStream::connect(status).is_ok());
        Self { process, status }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.status).expect("the status server");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.status
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        response
    }

    fn has_metric(&self, line: &str) -> bool {
        self.get("/metrics").lines().any(|candidate| candidate == line)
    }

    fn is_leader(&self) -> bool {
        self.has_metric("leader_election_master_status{name=\"portolan-controllers\"} 1")
    }
}

/// Starts an API server with a Service, its Pod, and the roles of a second user.
fn cluster() -> Driver {
    let cluster = Driver::without_controllers();
    for role in ROLES {
        cluster.create(
            BINDINGS,
            &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("second:{role}")},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SECOND_USER}]}),
        );
    }
    cluster.create(
        "/api/v1/nodes",
        &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}),
    );
    cluster.create(
        "/api/v1/namespaces/default/services",
        &json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
                "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}}),
    );
    cluster.create(
        PODS,
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "x"}},
                "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "none"}]}}),
    );
    cluster
}

fn set_ready(cluster: &Driver, ready: bool) {
    let status = if ready { "True" } else { "False" };
    cluster.merge(
        &format!("{PODS}/p/status"),
        &json!({"status": {"phase": "Running", "podIPs": [{"ip": "10.1.2.3"}], "podIP": "10.1.2.3",
            "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}),
    );
}

fn wait_for_slice(cluster: &Driver, ready: bool) {
    cluster.wait_until("an updated slice", SLICES, |list| {
        let slices = list.and_then(|list| list["items"].as_array());
        let is_of_service = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "s";
        let slice = slices.into_iter().flatten().find(is_of_service);
        slice.is_some_and(|slice| slice["endpoints"][0]["conditions"]["ready"] == ready)
    });
}

fn holder(cluster: &Driver) -> String {
    let lease = cluster.get(LEASE).unwrap_or_default();
    lease["spec"]["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn standby_takes_over_after_a_crash_and_releases_the_lease_at_shutdown() {
    let cluster = cluster();
    let first = Instance::start(&cluster, "system:kube-controller-manager");
    wait_for("a leader", || first.is_leader());
    let holder_before = holder(&cluster);
    let second = Instance::start(&cluster, SECOND_USER);
    set_ready(&cluster, true);
    wait_for_slice(&cluster, true);
    assert!(!second.is_leader() && second.get("/readyz").starts_with("HTTP/1.1 200"));
    assert!(first.has_metric("endpoint_slice_controller_endpoints_desired 1"));
    assert!(second.has_metric("endpoint_slice_controller_endpoints_desired 0"));
    // Dropping the process kills it.
    drop(first.process);
    set_ready(&cluster, false);
    wait_for_slice(&cluster, false);
    assert!(second.is_leader());
    assert_ne!(holder(&cluster), holder_before);
    assert!(second.process.stop().success());
    assert_eq!(holder(&cluster), "", "the lease is released");
    let third = Instance::start(&cluster, "system:kube-controller-manager");
    wait_for("a new leader", || third.is_leader());
    set_ready(&cluster, true);
    wait_for_slice(&cluster, true);
}
