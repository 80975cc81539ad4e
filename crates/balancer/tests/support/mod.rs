//! Helpers of tests in network namespaces: threads in a namespace, and an API server with an assigner on the
//! control plane.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use apiserver::{Access, NODE_PORTS_DEFAULT, Server};
use client::{Client, Config, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use store::{SqliteOptions, SqliteStore};
use testbed::Cluster;

/// Timeout of every wait; only a failing test reaches it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// User of the assigner.
const ASSIGNER: &str = "system:portolan-balancer";

/// Access to the API server.
pub(crate) struct Api {
    /// Client configuration of the administrator.
    pub admin: Config,
    pki: PathBuf,
}

impl Api {
    /// Client configuration of a user.
    pub(crate) fn as_user(&self, user: &str) -> Config {
        let issued = apiserver::pki::client(&self.pki, user, user, "").expect("client certificate");
        Config {
            server: self.admin.server.clone(),
            certificate_authority: issued.authority.into_bytes(),
            client_certificate: Some((issued.pair.certificate.into_bytes(), issued.pair.key.into_bytes())),
            ..Config::default()
        }
    }
}

/// Starts an API server with its data in a directory. It stops when it is dropped.
pub(crate) async fn serve_api(directory: &Path, listen: SocketAddr, advertised: IpAddr) -> (Server, Api) {
    let store = SqliteStore::open(directory.join("store"), SqliteOptions::default()).expect("store");
    let config = apiserver::Config {
        listen,
        kubeconfig: Some(directory.join("admin.conf")),
        token_auth_file: None,
        data_dir: directory.to_owned(),
        node_name: "control-plane".to_owned(),
        advertise_address: Some(advertised),
        service_cidrs: ["10.96.0.0/16", "fd00:10:96::/112"]
            .map(|range| range.parse().expect("CIDR"))
            .to_vec(),
        node_ports: NODE_PORTS_DEFAULT,
        cluster_domain: "cluster.local".to_owned(),
        kubernetes_service: apiserver::KubernetesService::default(),
        access: Access::default(),
        encryption: None,
    };
    let server = Server::start(config, Arc::new(store)).await.expect("API server");
    let api = Api {
        admin: Config::from_kubeconfig(&directory.join("admin.conf")).expect("kubeconfig"),
        pki: directory.join("pki"),
    };
    (server, api)
}

/// Creates a runtime for the current thread.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime")
}

/// Runs `work` on a thread in the namespace of a member.
pub(crate) fn spawn_in(
    cluster: &Arc<Cluster>,
    member: &str,
    work: impl FnOnce() + Send + 'static,
) -> thread::JoinHandle<()> {
    let (cluster, member) = (Arc::clone(cluster), member.to_owned());
    thread::spawn(move || {
        let member = cluster.member(&member).expect("member");
        member.enter(work).expect("namespace of the member");
    })
}

/// Starts an API server on the control plane, and an assigner for nodes with edges.
pub(crate) fn start_api(cluster: &Arc<Cluster>, directory: &Path) -> Api {
    let path = directory.to_owned();
    let ip = IpAddr::from(cluster.topology.control_plane.address.ipv4);
    let (sender, receiver) = channel();
    spawn_in(cluster, "control-plane", move || {
        runtime().block_on(async {
            let (_server, api) = serve_api(&path, (ip, 0).into(), ip).await;
            let assigner = Client::new(api.as_user(ASSIGNER)).expect("API client");
            sender.send(api).expect("receiver");
            let options = balancer::Options {
                has_edges: true,
                ..balancer::Options::default()
            };
            balancer::run(assigner, options, std::future::pending()).await;
        });
    });
    receiver.recv_timeout(TIMEOUT).expect("API server")
}

/// Sends a request to the API from the namespace of the control plane.
pub(crate) fn request(
    cluster: &Cluster,
    config: &Config,
    method: Method,
    path: &str,
    kind: &str,
    body: Option<&Value>,
) -> Value {
    let control_plane = cluster.control_plane().expect("control plane");
    let send = || {
        runtime().block_on(async {
            let client = Client::new(config.clone()).expect("API client");
            client.request(method, path, kind, body).await.expect(path)
        })
    };
    control_plane.enter(send).expect("namespace of the member")
}

/// Creates an object.
pub(crate) fn create(cluster: &Cluster, admin: &Config, path: &str, object: &Value) {
    request(cluster, admin, Method::POST, path, JSON, Some(object));
}

/// Creates a Node with its InternalIP.
pub(crate) fn create_node(cluster: &Cluster, admin: &Config, name: &str, internal_ip: &str) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    create(cluster, admin, "/api/v1/nodes", &node);
    let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": internal_ip}]}});
    let path = format!("/api/v1/nodes/{name}/status");
    request(cluster, admin, Method::PATCH, &path, MERGE_PATCH, Some(&status));
}

/// Creates an AddressPool with one address.
pub(crate) fn create_pool(cluster: &Cluster, admin: &Config, address: impl std::fmt::Display) {
    let pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "p"},
        "spec": {"addresses": [format!("{address}-{address}")]},
    });
    create(cluster, admin, "/apis/portolan.dev/v1alpha1/addresspools", &pool);
}
