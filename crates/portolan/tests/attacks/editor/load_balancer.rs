//! Load-balancer and external IPs that bypass client restrictions or belong to others.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use client::{Client, ClientError, Config, JSON};
use http::Method;
use serde_json::{Value, json};
use testbed::{Cluster, RUN_DIRECTORY, Topology, in_namespace};

use crate::access;
use crate::support::{Api, Component, portolan, program, wait_for};

/// Timeout of one connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Returns a runtime for the requests of a test.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Creates an object.
fn create(client: &Client, path: &str, object: Value) -> Result<Value, ClientError> {
    runtime().block_on(client.request(Method::POST, path, JSON, Some(&object)))
}

fn get(client: &Client, path: &str) -> Value {
    runtime().block_on(client.get(path)).expect("an object")
}

/// Waits for the condition that the assigner sets, and returns it.
fn assignment(client: &Client, service: &str) -> Value {
    let path = format!("{SERVICES}/{service}");
    let find_condition = || {
        let service = get(client, &path);
        let conditions = service["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions
            .into_iter()
            .find(|condition| condition["type"] == "portolan.dev/AddressAssigned")
    };
    wait_for("the condition of the assigner", || find_condition().is_some());
    find_condition().expect("a condition")
}

#[test]
fn unsupported_client_restrictions_withhold_the_address() {
    let api = Api::start();
    let administrator = access::administrator(&api);
    let kubeconfig = format!("--kubeconfig={}", api.kubeconfig().display());
    let arguments = [
        "balancer",
        &kubeconfig,
        "--leader-elect=false",
        "--metrics-bind-address=",
    ];
    let _balancer = portolan(&arguments);
    let pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "p"},
        "spec": {"addresses": ["192.0.2.0/28"]},
    });
    create(&administrator, "/apis/portolan.dev/v1alpha1/addresspools", pool).expect("an AddressPool");
    let service = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": annotations},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        })
    };
    create(&administrator, SERVICES, service("plain", json!({}))).expect("a Service");
    assert_eq!(assignment(&administrator, "plain")["status"], "True");
    for (name, annotation, value) in [
        (
            "ranges",
            "service.beta.kubernetes.io/load-balancer-source-ranges",
            "192.0.2.0/24",
        ),
        (
            "typo",
            "service.beta.kubernetes.io/azure-allowed-ip-ranges",
            "192.0.2.0/240",
        ),
        (
            "tags",
            "service.beta.kubernetes.io/azure-allowed-service-tags",
            "AzureCloud",
        ),
        (
            "deny",
            "service.beta.kubernetes.io/do-loadbalancer-deny-rules",
            "ip:192.0.2.7",
        ),
        (
            "groups",
            "service.beta.kubernetes.io/aws-load-balancer-security-groups",
            "sg-53fae93f",
        ),
    ] {
        create(
            &administrator,
            SERVICES,
            service(name, json!({ annotation: value })),
        )
        .expect("a Service");
        let condition = assignment(&administrator, name);
        assert_eq!(condition["status"], "False", "{name}: all clients may connect");
        let message = condition["message"]
            .as_str()
            .expect("the message of the condition");
        assert!(message.contains(annotation), "{message}");
        let service = get(&administrator, &format!("{SERVICES}/{name}"));
        assert_eq!(service["status"]["loadBalancer"], json!({}), "{name}");
    }
}

#[test]
fn up_rejects_services_with_external_ips() {
    in_namespace(|| {
        let cluster = Cluster::start(Topology::with_nodes(1).expect("a topology")).expect("a cluster");
        let address = SocketAddr::from((cluster.topology.nodes[0].member.address.ipv4, 6443));
        let kubeconfig = Path::new(RUN_DIRECTORY).join("admin.conf");
        let mut command = Command::new(program());
        command
            .arg("up")
            .arg(format!("--listen={address}"))
            .arg(format!("--data-dir={RUN_DIRECTORY}/up"))
            .arg(format!("--write-kubeconfig={}", kubeconfig.display()))
            .arg("--log-level=error")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let _up: Component = cluster
            .spawn("node-1", &mut command)
            .expect("the binary under test")
            .into();
        let plane = cluster.control_plane().expect("a control plane");
        let connects = || TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok();
        wait_for("the API server", || {
            kubeconfig.exists() && plane.enter(connects).expect("a namespace")
        });
        let create_with = |external_ip: &str| {
            let service = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": "resolver"},
                "spec": {"ports": [{"port": 53, "protocol": "UDP"}], "externalIPs": [external_ip]},
            });
            let client = Config::from_kubeconfig(&kubeconfig).map(Client::new);
            let client = client.expect("a kubeconfig").expect("a client");
            create(&client, SERVICES, service)
        };
        let result = plane.enter(|| create_with("8.8.8.8")).expect("a namespace");
        let error = result.expect_err("a Service that receives the traffic of all nodes to 8.8.8.8");
        assert_eq!(error.code(), Some(403));
        assert!(error.to_string().contains("external IPs"), "{error}");
    });
}
