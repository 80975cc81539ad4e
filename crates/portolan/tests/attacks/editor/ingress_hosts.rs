//! Hosts of Ingresses that another namespace owns.

use client::{APPLY_PATCH, Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};

use crate::access;
use crate::support::Api;

const GROUP: &str = "/apis/networking.k8s.io/v1";
/// Ingress of the editor.
const OLD: &str = "/apis/networking.k8s.io/v1/namespaces/attacker/ingresses/old";

fn ingress(name: &str, host: &str) -> Value {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name},
        "spec": {"ingressClassName": "edge", "rules": [{"host": host, "http": {"paths": paths}}]},
    })
}

async fn create(client: &Client, collection: &str, object: &Value) {
    let created = client.request(Method::POST, collection, JSON, Some(object));
    created.await.expect("an object");
}

fn expect_refusal(result: Result<Value, ClientError>) {
    let error = result.expect_err("a refusal");
    assert_eq!(error.code(), Some(403), "{error}");
    assert!(error.to_string().contains("shop.test"), "{error}");
}

/// Of two Ingresses that name a host, the older one decides about it. The editor creates one in time, and names the host
/// later.
#[tokio::test(flavor = "multi_thread")]
async fn older_ingress_does_not_take_the_host_of_another_namespace() {
    let api = Api::start();
    let administrator = access::administrator(&api);
    let class = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "edge"},
        "spec": {"controller": "portolan.dev/ingress"},
    });
    create(&administrator, &format!("{GROUP}/ingressclasses"), &class).await;
    for name in ["attacker", "shop"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(&administrator, "/api/v1/namespaces", &namespace).await;
    }
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "editor"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "editor"}],
    });
    let bindings = format!("/apis/{group}/v1/namespaces/attacker/rolebindings");
    create(&administrator, &bindings, &binding).await;
    let editor = access::with_certificate(&api, "editor", "");
    let own = format!("{GROUP}/namespaces/attacker/ingresses");
    create(&editor, &own, &ingress("old", "attacker.test")).await;
    let of_shop = format!("{GROUP}/namespaces/shop/ingresses");
    create(&administrator, &of_shop, &ingress("web", "shop.test")).await;
    let taking = ingress("old", "shop.test");
    let replaced = editor.request(Method::PUT, OLD, JSON, Some(&taking)).await;
    expect_refusal(replaced);
    let merged = editor
        .request(
            Method::PATCH,
            OLD,
            MERGE_PATCH,
            Some(&json!({"spec": taking["spec"]})),
        )
        .await;
    expect_refusal(merged);
    let apply = format!("{OLD}?fieldManager=editor&force=true");
    let applied = editor
        .request(Method::PATCH, &apply, APPLY_PATCH, Some(&taking))
        .await;
    expect_refusal(applied);
    // Other changes stay possible.
    let others = ingress("old", "other.test");
    let replaced = editor.request(Method::PUT, OLD, JSON, Some(&others)).await;
    replaced.expect("an updated Ingress");
}
