//! A cluster with an API server, an assigner, two Nodes, a pool, and speakers.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use client::{Client, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use speaker::{Metrics, Settings};
use tempfile::TempDir;
use testbed::{Cluster, Topology};
use tokio::sync::{oneshot, watch};

use crate::support::{self, Api, create, create_node, request, runtime, spawn_in};

const GROUP: &str = "/apis/portolan.dev/v1alpha1";
/// Addresses of the pool.
pub(crate) const ADDRESSES: [&str; 2] = ["192.0.2.10", "fd00:192::10"];
/// Routes to the addresses.
pub(crate) const ROUTES: [&str; 2] = ["192.0.2.10/32", "fd00:192::10/128"];

/// A cluster with everything but speakers and routers.
pub(crate) struct Fixture {
    pub cluster: Arc<Cluster>,
    pub api: Api,
    pub directory: TempDir,
}

/// A speaker on a thread in the namespace of its node.
pub(crate) struct Speaker {
    pub metrics: Arc<Metrics>,
    end: Option<oneshot::Sender<()>>,
    kill: Sender<()>,
    thread: JoinHandle<()>,
}

impl Fixture {
    pub(crate) fn start() -> Self {
        let topology = Topology::with_nodes(2).expect("so many nodes");
        let cluster = Arc::new(Cluster::start(topology).expect("a cluster"));
        let directory = tempfile::tempdir().expect("a directory");
        let api = support::start_api(&cluster, directory.path());
        for (name, ip) in [("node-1", "172.30.0.11"), ("node-2", "172.30.0.12")] {
            create_node(&cluster, &api.admin, name, ip);
        }
        let fixture = Self {
            cluster,
            api,
            directory,
        };
        fixture.create_own(
            "addresspools",
            "AddressPool",
            "p",
            json!({"addresses": ["192.0.2.0/24", "fd00:192::/64"]}),
        );
        fixture
    }

    /// Creates an object.
    pub(crate) fn create(&self, path: &str, object: &Value) {
        create(&self.cluster, &self.api.admin, path, object);
    }

    /// Creates an object of the group of Portolan.
    pub(crate) fn create_own(&self, plural: &str, kind: &str, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "portolan.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        self.create(&format!("{GROUP}/{plural}"), &object);
    }

    /// Creates a BGPPeer for the router outside of the cluster, with more fields.
    pub(crate) fn create_peer(&self, name: &str, fields: Value) {
        let router = self.router();
        let mut spec = json!({"myASN": 64512, "peerASN": 64513, "peerAddress": router.to_string()});
        for (field, value) in fields.as_object().expect("fields") {
            spec[field] = value.clone();
        }
        self.create_own("bgppeers", "BGPPeer", name, spec);
    }

    /// Address of the router.
    pub(crate) fn router(&self) -> IpAddr {
        self.cluster.topology.outside.address.ipv4.into()
    }

    /// Creates a dual-stack Service with the addresses of the pool, and an endpoint on node-1.
    pub(crate) fn create_service(&self) {
        self.create_service_of_class(None);
    }

    /// Creates the Service with a `loadBalancerClass`.
    pub(crate) fn create_service_of_class(&self, class: Option<&str>) {
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "annotations": {"metallb.io/loadBalancerIPs": ADDRESSES.join(",")}},
            "spec": {"type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80}]},
        });
        if let Some(class) = class {
            service["spec"]["loadBalancerClass"] = json!(class);
        }
        self.create("/api/v1/namespaces/default/services", &service);
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": [{"addresses": ["10.244.1.2"], "nodeName": "node-1", "conditions": {"ready": true}}],
            "ports": [{"port": 80}],
        });
        self.create(
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            &slice,
        );
    }

    /// Creates a Secret with the password of the router, and returns the field of a BGPPeer that names it.
    pub(crate) fn create_password(&self, password: &str) -> Value {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/basic-auth",
            "metadata": {"name": "router"}, "stringData": {"password": password},
        });
        self.create("/api/v1/namespaces/kube-system/secrets", &secret);
        json!({"name": "router"})
    }

    /// Advertises all pools with a community that has an alias, and with a large community.
    pub(crate) fn advertise_with_communities(&self) {
        let communities = json!({"communities": [{"name": "ours", "value": "64512:7"}]});
        self.create_own("communities", "Community", "c", communities);
        let advertisement = json!({"communities": ["ours", "large:64512:1:2"]});
        self.create_own("bgpadvertisements", "BGPAdvertisement", "all", advertisement);
    }

    /// Changes an object.
    pub(crate) fn patch(&self, path: &str, patch: &Value) {
        request(
            &self.cluster,
            &self.api.admin,
            Method::PATCH,
            path,
            MERGE_PATCH,
            Some(patch),
        );
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, path: &str) {
        request(&self.cluster, &self.api.admin, Method::DELETE, path, JSON, None);
    }

    /// Starts the speaker of node-1.
    pub(crate) fn start_speaker(&self) -> Speaker {
        self.start_speaker_with(None)
    }

    /// Starts the speaker of node-1 with the addresses that an edge serves.
    pub(crate) fn start_speaker_with(
        &self,
        served: Option<watch::Receiver<Arc<BTreeSet<IpAddr>>>>,
    ) -> Speaker {
        let metrics = Arc::<Metrics>::default();
        let (end, ended) = oneshot::channel();
        let (kill, killed) = channel();
        let config = self.api.as_user("system:portolan-load-balancer");
        let settings = Settings {
            node_name: "node-1".to_owned(),
            port: 179,
            metallb_namespace: Some("metallb-system".to_owned()),
            ignores_exclude_label: false,
            served,
        };
        let reports = Arc::clone(&metrics);
        let thread = spawn_in(&self.cluster, "node-1", move || {
            runtime().block_on(async {
                let client = Client::new(config).expect("a client");
                let ended = async { drop(ended.await) };
                tokio::select! {
                    outcome = speaker::run(client, settings, reports, ended) => outcome.expect("a speaker"),
                    () = wait(&killed) => {}
                }
            });
        });
        Speaker {
            metrics,
            end: Some(end),
            kill,
            thread,
        }
    }
}

/// Resolves when the speaker is killed.
async fn wait(killed: &Receiver<()>) {
    while killed.try_recv().is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

impl Speaker {
    /// Ends the process as a signal does.
    pub(crate) fn shut_down(mut self) {
        drop(self.end.take());
        self.thread.join().expect("no panic in the speaker");
    }

    /// Ends the process without a shutdown.
    pub(crate) fn kill(self) {
        self.kill.send(()).expect("a running speaker");
        self.thread.join().expect("no panic in the speaker");
    }
}
