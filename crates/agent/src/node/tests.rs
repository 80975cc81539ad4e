use std::sync::{Arc, Mutex};

use bytes::Bytes;
use client::{Body, Exchange, TransportError};
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;

use super::host::node_info;
use super::lease::microseconds;
use super::status::status;
use super::*;

fn settings() -> Settings {
    let mut settings = Settings::new("node-1".to_owned(), "/nowhere".into());
    settings.pod_cidrs = vec![
        "10.244.1.0/24".parse().unwrap(),
        "fd00:244:1::/64".parse().unwrap(),
    ];
    settings.node_labels = [("topology.kubernetes.io/zone".to_owned(), "a".to_owned())].into();
    settings
}

#[test]
fn object_has_configured_ranges_labels_and_taints() {
    let settings = settings();
    let node = object(&settings, &settings.pod_cidrs);
    assert_eq!(node["spec"]["podCIDR"], "10.244.1.0/24");
    assert_eq!(node["spec"]["podCIDRs"][1], "fd00:244:1::/64");
    assert_eq!(node["metadata"]["labels"]["topology.kubernetes.io/zone"], "a");
    let bare = Settings::new("n".to_owned(), "/nowhere".into());
    assert!(object(&bare, &bare.pod_cidrs).get("spec").is_none());
    let mut tainted = settings;
    tainted.node_taints = vec![crate::NodeTaint {
        key: "node-role.kubernetes.io/control-plane".to_owned(),
        effect: "NoSchedule".to_owned(),
    }];
    let taint = json!([{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]);
    assert_eq!(object(&tainted, &[])["spec"]["taints"], taint);
}

#[test]
fn single_range_replaces_a_missing_list() {
    let node = |spec: Value| {
        serde_json::from_value::<Node>(json!({"metadata": {"name": "n"}, "spec": spec})).unwrap()
    };
    let texts = |spec: Value| {
        ranges(&node(spec))
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(json!({"podCIDR": "10.0.0.0/24"})), ["10.0.0.0/24"]);
    assert_eq!(
        texts(json!({"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]})),
        ["10.0.0.0/24", "fd00::/64"]
    );
    assert!(texts(json!({})).is_empty());
    assert!(texts(json!({"podCIDR": "nonsense"})).is_empty());
}

#[test]
fn ready_node_keeps_its_transition_time() {
    let ips = ["172.30.0.11".parse().unwrap()];
    let status = |was_ready| status(&settings(), &ips, was_ready, Timestamp::UNIX_EPOCH);
    let ready = |status: &Value| status["conditions"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        ready(&status(false))["lastTransitionTime"],
        "1970-01-01T00:00:00Z"
    );
    assert_eq!(ready(&status(true)).get("lastTransitionTime"), None);
    assert_eq!(
        status(true)["addresses"][0],
        json!({"type": "InternalIP", "address": "172.30.0.11"})
    );
    assert_eq!(microseconds(Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00.000000Z");
}

#[test]
fn node_info_identifies_the_host() {
    let root = tempfile::tempdir().unwrap();
    let empty = node_info(root.path());
    assert_eq!(empty["osImage"], "Linux");
    assert_eq!(
        (&empty["machineID"], &empty["systemUUID"]),
        (&json!(""), &json!(""))
    );
    let write = |file: &str, text: &str| {
        let path = root.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "etc/os-release",
        "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 13\"\n",
    );
    write("etc/machine-id", "0123\n");
    write("proc/sys/kernel/random/boot_id", "4567\n");
    let info = node_info(root.path());
    assert_eq!(info["osImage"], "Debian GNU/Linux 13");
    assert_eq!(info["machineID"], "0123");
    assert_eq!(info["bootID"], "4567");
    assert_eq!(info["systemUUID"], "0123");
    assert_ne!(info["kernelVersion"], "");
    write("sys/class/dmi/id/product_uuid", "89AB\n");
    assert_eq!(node_info(root.path())["systemUUID"], "89AB");
}

/// Requests: method and path, and the body.
type Requests = Arc<Mutex<Vec<(String, Value)>>>;

/// Server with a Node or without one. Nodes may not choose their Pod ranges.
fn server(node: Option<Value>) -> (Client, Requests) {
    let requests = Requests::default();
    let recorded = Arc::clone(&requests);
    let exchange: Exchange = Arc::new(move |request: Request<Bytes>| {
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let (code, object) = match (request.method(), &node) {
            (&Method::GET, None) => (404_u16, json!({})),
            (&Method::GET, Some(node)) => (200, node.clone()),
            _ if !body["spec"]["podCIDR"].is_null() => (403, json!({})),
            _ => (200, body.clone()),
        };
        let line = format!("{} {}", request.method(), request.uri().path());
        recorded.lock().unwrap().push((line, body));
        async move {
            let body = Full::new(Bytes::from(object.to_string())).map_err(TransportError::from);
            let response: Result<Response<Body>, _> =
                Response::builder().status(code).body(body.boxed_unsync());
            response.map_err(TransportError::from)
        }
        .boxed()
    });
    (Client::in_process(exchange), requests)
}

/// Registers a Node; returns the requests.
async fn registration(settings: &Settings, node: Option<Value>) -> (Vec<String>, Vec<Value>) {
    let (client, requests) = server(node);
    register(&client, settings, &["172.30.0.11".parse().unwrap()]).await;
    let requests = std::mem::take(&mut *requests.lock().unwrap());
    requests.into_iter().unzip()
}

#[tokio::test]
async fn new_node_is_created_with_its_status() {
    let mut settings = settings();
    settings.pod_cidrs.clear();
    let (lines, bodies) = registration(&settings, None).await;
    assert_eq!(lines, ["GET /api/v1/nodes/node-1", "POST /api/v1/nodes"]);
    let node: Node = serde_json::from_value(bodies[1].clone()).unwrap();
    assert!(node.is_ready());
    let address = json!({"type": "InternalIP", "address": "172.30.0.11"});
    assert_eq!(bodies[1]["status"]["addresses"][0], address);
}

#[tokio::test]
async fn node_with_reserved_ranges_is_updated_without_them() {
    let node = json!({
        "metadata": {"name": "node-1"},
        "spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:244:1::/64"]},
    });
    let (lines, bodies) = registration(&settings(), Some(node)).await;
    let path = "/api/v1/nodes/node-1";
    let expected = [
        format!("GET {path}"),
        format!("PATCH {path}"),
        format!("PATCH {path}/status"),
    ];
    assert_eq!(lines, expected);
    assert_eq!(
        bodies[1]["metadata"]["labels"]["kubernetes.io/hostname"],
        "node-1"
    );
    assert!(bodies[1].get("spec").is_none());
    assert_eq!(bodies[2]["status"]["addresses"][0], json!({"$patch": "replace"}));
}

#[tokio::test]
async fn node_is_registered_without_forbidden_ranges() {
    let (lines, bodies) = registration(&settings(), None).await;
    let attempt = ["GET /api/v1/nodes/node-1", "POST /api/v1/nodes"];
    assert_eq!(lines, [attempt, attempt].concat());
    assert_eq!(bodies[1]["spec"]["podCIDR"], "10.244.1.0/24");
    assert!(bodies[3].get("spec").is_none());
}
