//! Ingresses and IngressClasses.

use http::Method;
use serde_json::{Value, json};

use crate::harness::Api;

const CLASSES: &str = "/apis/networking.k8s.io/v1/ingressclasses";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
const WEB: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses/web";

fn class(name: &str, is_default: bool) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {"name": name,
                     "annotations": {"ingressclass.kubernetes.io/is-default-class": is_default.to_string()}},
        "spec": {"controller": "portolan.dev/ingress"},
    })
}

fn ingress() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"},
        "spec": {"rules": [{"host": "shop.test", "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}},
        ]}}]},
    })
}

#[tokio::test]
async fn ingress_without_a_class_gets_the_default_one() {
    let api = Api::start().await;
    let created = api.post(INGRESSES, &ingress()).await.expect(201);
    assert!(created["spec"].get("ingressClassName").is_none());
    assert_eq!(created["metadata"]["generation"], 1);
    api.post(CLASSES, &class("other", false)).await.expect(201);
    api.post(CLASSES, &class("edge", true)).await.expect(201);
    let mut second = ingress();
    second["metadata"]["name"] = json!("second");
    let created = api.post(INGRESSES, &second).await.expect(201);
    assert_eq!(created["spec"]["ingressClassName"], "edge");
    let mut annotated = ingress();
    annotated["metadata"] = json!({"name": "third", "annotations": {"kubernetes.io/ingress.class": "nginx"}});
    let created = api.post(INGRESSES, &annotated).await.expect(201);
    assert!(created["spec"].get("ingressClassName").is_none());
}

#[tokio::test]
async fn status_is_written_apart_from_the_spec() {
    let api = Api::start().await;
    let mut written = ingress();
    written["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}});
    let created = api.post(INGRESSES, &written).await.expect(201);
    assert_eq!(created["status"], json!({"loadBalancer": {}}));
    let mut with_status = created.clone();
    with_status["spec"]["rules"][0]["host"] = json!("other.test");
    with_status["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    let updated = api.put(&format!("{WEB}/status"), &with_status).await.expect(200);
    assert_eq!(updated["spec"], created["spec"]);
    assert_eq!(updated["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
    assert_eq!(updated["metadata"]["generation"], 1);
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = api.send(Method::GET, INGRESSES, &table, "").await.expect(200);
    let cells = table["rows"][0]["cells"].as_array().expect("cells");
    assert_eq!(
        cells[..5],
        [
            json!("web"),
            json!("<none>"),
            json!("shop.test"),
            json!("192.0.2.1"),
            json!("80")
        ]
    );
}

#[tokio::test]
async fn invalid_ingress_and_changed_controller_are_rejected() {
    let api = Api::start().await;
    let mut invalid = ingress();
    invalid["spec"]["rules"][0]["http"]["paths"][0]["path"] = json!("shop");
    let refused = api.post(INGRESSES, &invalid).await.expect(422);
    assert_eq!(
        refused["message"],
        "Ingress.networking.k8s.io \"web\" is invalid: spec.rules[0].http.paths[0].path: Invalid value: \"shop\": must be an \
         absolute path"
    );
    let created = api.post(CLASSES, &class("edge", true)).await.expect(201);
    let mut changed = created;
    changed["spec"]["controller"] = json!("example.com/other");
    let refused = api.put(&format!("{CLASSES}/edge"), &changed).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.controller");
}

/// Returns the Ingress `web` of a class with a host.
fn ingress_of(class: &str, host: &str) -> Value {
    let mut ingress = ingress();
    ingress["spec"]["ingressClassName"] = json!(class);
    ingress["spec"]["rules"][0]["host"] = json!(host);
    ingress
}

#[tokio::test]
async fn update_takes_no_host_from_a_younger_ingress_of_another_namespace() {
    const OTHERS: &str = "/apis/networking.k8s.io/v1/namespaces/other/ingresses";
    let api = Api::start().await;
    for name in ["edge", "second"] {
        api.post(CLASSES, &class(name, false)).await.expect(201);
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    api.post("/api/v1/namespaces", &namespace).await.expect(201);
    api.post(INGRESSES, &ingress_of("edge", "own.test"))
        .await
        .expect(201);
    api.post(OTHERS, &ingress_of("edge", "shop.test"))
        .await
        .expect(201);
    let refused = api.put(WEB, &ingress_of("edge", "shop.test")).await.expect(403);
    assert_eq!(
        refused["message"],
        "ingresses.networking.k8s.io \"web\" is forbidden: hosts belong to other namespaces, from whose younger Ingresses \
         this one would take them: shop.test; use other hosts, or delete those Ingresses first"
    );
    // The host is free in another class, and the class must not change then.
    api.put(WEB, &ingress_of("second", "shop.test")).await.expect(200);
    api.put(WEB, &ingress_of("edge", "shop.test")).await.expect(403);
    api.put(WEB, &ingress_of("edge", "own.test")).await.expect(200);
    // The younger Ingress takes no host of the older one, and a new one is the youngest.
    api.put(&format!("{OTHERS}/web"), &ingress_of("edge", "own.test"))
        .await
        .expect(200);
    let mut new = ingress_of("edge", "own.test");
    new["metadata"]["name"] = json!("new");
    api.post(OTHERS, &new).await.expect(201);
}

#[tokio::test]
async fn protobuf_has_the_paths_of_rules() {
    let api = Api::start().await;
    api.post(INGRESSES, &ingress()).await.expect(201);
    let binary = [("accept", "application/vnd.kubernetes.protobuf")];
    let web = api.send(Method::GET, WEB, &binary, "").await;
    let web = api::protobuf::open(&web.body).expect("an envelope");
    let web = web
        .object("io.k8s.api.networking.v1.Ingress")
        .expect("an Ingress");
    assert_eq!(web["spec"]["rules"], ingress()["spec"]["rules"]);
}
