//! Test cluster: an API server, an agent, and helpers for requests.

use std::error::Error;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use agent::images::image_table::ImageTable;
use agent::settings::{NodeImageStore, ServerSettings};
use agent::{Settings, StaticPods};
use bytes::Bytes;
use client::{CertificateFiles, Client, Config, JSON};
use http::Method;
use images::{ImageStore, StoreSettings};
use serde_json::{Value, json};
use store::{SqliteOptions, SqliteStore, Store};

use crate::Outcome;

/// Hidden subcommand that runs the agent.
pub(crate) const AGENT_SUBCOMMAND: &str = "run-agent";
pub(crate) const NODE: &str = "node-1";
/// Directory of the image store.
pub(crate) const IMAGES: &str = "images";
/// Address of the agent. The enclosure has no other listener there.
pub(crate) const AGENT_ADDRESS: &str = "127.0.0.1:10250";
/// Limit of processes in one container.
pub(crate) const PIDS_MAX: u64 = 64;
/// Pod range of the node, as an administrator chooses it.
const POD_CIDR: &str = "10.244.1.0/24";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
/// Lines of the agent's log in a failure message.
const LOG_END_LINES: usize = 20;

pub(crate) struct Cluster {
    directory: tempfile::TempDir,
    _server: apiserver::Server,
    pub client: Client,
    agent: Option<Child>,
}

impl Cluster {
    /// Starts the API server and the agent.
    pub(crate) async fn start() -> Result<Self, Box<dyn Error>> {
        let directory = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
        let path = |name: &str| directory.path().join(name);
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path("store"), SqliteOptions::default())?);
        let config = apiserver::Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: path("api"),
            node_name: NODE.to_owned(),
            advertise_address: None,
            kubernetes_service: apiserver::KubernetesService::default(),
            service_cidrs: vec!["10.96.0.0/16".parse()?],
            node_ports: apiserver::NODE_PORTS_DEFAULT,
            token_auth_file: None,
            kubeconfig: Some(path("admin.conf")),
            cluster_domain: "cluster.local".to_owned(),
            access: apiserver::Access::default(),
            encryption: None,
        };
        let server = apiserver::Server::start(config, store).await?;
        let issued = apiserver::pki::client(
            &path("api").join("pki"),
            "node",
            &format!("system:node:{NODE}"),
            "system:nodes",
        )?;
        let url = apiserver::kubeconfig::server_url(server.address());
        apiserver::kubeconfig::write_for(&path("node.conf"), &url, "node", &issued)?;
        apiserver::pki::node_serving(&path("api").join("pki"), NODE, &["127.0.0.1".parse()?])?;
        let client = Client::new(Config::from_kubeconfig(&path("admin.conf"))?)?;
        let spec = json!({"podCIDR": POD_CIDR, "podCIDRs": [POD_CIDR]});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "spec": spec});
        client
            .request(Method::POST, "/api/v1/nodes", JSON, Some(&node))
            .await?;
        fs::create_dir(path("manifests"))?;
        let mut cluster = Self {
            directory,
            _server: server,
            client,
            agent: None,
        };
        cluster.start_agent()?;
        Ok(cluster)
    }

    /// Path of a file or directory that Pods and tests share.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts the agent, which adopts the Pods of an earlier one.
    pub(crate) fn start_agent(&mut self) -> Outcome {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("agent.log"))?;
        let child = Command::new("/proc/self/exe")
            .arg(AGENT_SUBCOMMAND)
            .arg(self.directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.agent = Some(child);
        Ok(())
    }

    /// Kills the agent as a crash would.
    pub(crate) fn kill_agent(&mut self) -> Outcome {
        if let Some(mut agent) = self.agent.take() {
            agent.kill()?;
            agent.wait()?;
        }
        Ok(())
    }

    /// Mounts the directory that Pods and tests share, at the same path.
    pub(crate) fn share(&self, spec: &mut Value) {
        let path = self.directory.path();
        let mount = json!({"name": "shared", "mountPath": path});
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                append(&mut container["volumeMounts"], mount.clone());
            }
        }
        append(
            &mut spec["volumes"],
            json!({"name": "shared", "hostPath": {"path": path}}),
        );
    }

    /// Creates a Pod on the node.
    pub(crate) async fn create_pod(&self, name: &str, mut spec: Value) -> Outcome {
        spec["nodeName"] = NODE.into();
        self.share(&mut spec);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec});
        self.create(PODS, &pod).await
    }

    /// Creates an object.
    pub(crate) async fn create(&self, collection: &str, object: &Value) -> Outcome {
        self.client
            .request(Method::POST, collection, JSON, Some(object))
            .await?;
        Ok(())
    }

    /// Requests the deletion of a Pod.
    pub(crate) async fn delete_pod(&self, name: &str) -> Outcome {
        let path = format!("{PODS}/{name}");
        self.client.request(Method::DELETE, &path, JSON, None).await?;
        Ok(())
    }

    /// Waits until a Pod meets a condition, and returns it.
    pub(crate) async fn wait_for_pod(
        &self,
        name: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> Result<Value, Box<dyn Error>> {
        let path = format!("{PODS}/{name}");
        loop {
            let pod: Value = self.client.get(&path).await?;
            if condition(&pod) {
                return Ok(pod);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the Pod no longer exists.
    pub(crate) async fn wait_until_gone(&self, name: &str) -> Outcome {
        loop {
            match self.client.get::<Value>(&format!("{PODS}/{name}")).await {
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Returns the log of a Pod, or the error of the API server.
    pub(crate) async fn log(&self, pod: &str, query: &str) -> Result<String, Box<dyn Error>> {
        let path = format!("{PODS}/{pod}/log?{query}");
        let bytes = self.client.send(Method::GET, &path, JSON, Bytes::new()).await?;
        Ok(String::from_utf8(bytes.to_vec())?)
    }

    /// Waits for an Event of that reason about a Pod, and returns its message.
    pub(crate) async fn event(&self, pod: &str, reason: &str) -> Result<String, Box<dyn Error>> {
        loop {
            let events: Value = self.client.get("/api/v1/namespaces/default/events").await?;
            let mut all = events["items"].as_array().into_iter().flatten();
            let found = all.find(|event| event["involvedObject"]["name"] == pod && event["reason"] == reason);
            if let Some(event) = found {
                return Ok(event["message"].as_str().unwrap_or_default().to_owned());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Last lines of the agent's log.
    pub(crate) fn log_end(&self) -> String {
        let text = fs::read_to_string(self.path("agent.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_END_LINES)..].join("\n")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.kill_agent() {
            eprintln!("agent not killed: {error}");
        }
    }
}

/// Runs the agent until it is killed.
pub(crate) fn run_agent(arguments: &[String]) -> Outcome {
    let directory = arguments.first().ok_or("run-agent DIRECTORY")?;
    let directory = Path::new(directory);
    let mut settings = Settings::new(NODE.to_owned(), directory.join("agent"));
    settings.node_ips = vec!["127.0.0.1".parse()?];
    settings.pod_cidrs = vec![POD_CIDR.parse()?];
    settings.images = ImageTable {
        images: [("shell".to_owned(), vec!["/bin/sh".to_owned(), "-c".to_owned()])].into(),
    };
    let images = directory.join(IMAGES);
    settings.image_store = Some(NodeImageStore {
        store: ImageStore::open(&images, StoreSettings::default())?,
        directory: images,
    });
    settings.pids_max = PIDS_MAX;
    settings.static_pods = Some(StaticPods {
        path: directory.join("manifests"),
        scan_interval: Duration::from_millis(100),
    });
    let path = |name: &str| directory.join("api/pki").join(name);
    settings.server = Some(ServerSettings {
        listen: AGENT_ADDRESS.parse()?,
        certificate: Arc::new(CertificateFiles::new(
            path(&format!("serving-{NODE}.crt")),
            path(&format!("serving-{NODE}.key")),
        )),
        client_authority: fs::read(path("ca.crt"))?,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = Client::new(Config::from_kubeconfig(&directory.join("node.conf"))?)?;
        agent::run(client, settings, std::future::pending()).await?;
        Ok(())
    })
}

fn append(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    }
}

/// Container that runs a script, with further fields.
pub(crate) fn container(name: &str, script: &str, fields: Value) -> Value {
    let mut container = json!({"name": name, "image": "shell", "args": [script]});
    for (field, value) in fields.as_object().into_iter().flatten() {
        container[field] = value.clone();
    }
    container
}

/// Status of a condition; "" if the Pod has none.
pub(crate) fn condition<'a>(pod: &'a Value, kind: &str) -> &'a str {
    let mut all = pod["status"]["conditions"].as_array().into_iter().flatten();
    let found = all.find(|condition| condition["type"] == kind);
    found
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or_default()
}

/// Returns true if the Pod is ready.
pub(crate) fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready") == "True"
}

pub(crate) fn check(condition: bool, failure: impl std::fmt::Display) -> Outcome {
    if condition {
        Ok(())
    } else {
        Err(failure.to_string().into())
    }
}
