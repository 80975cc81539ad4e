//! Lists as long as a body allows, where each item could be compared with all others: an answer comes before the client gives up.

use http::Method;
use serde_json::{Value, json};

use super::{BODY_BYTES_MAX, OBJECTS, Target};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

/// Expects an answer of one of these codes to a new object, before the client gives up.
async fn expect_answer(target: &Target, collection: &str, object: &Value, codes: &[u16]) {
    let body = object.to_string();
    assert!(body.len() < BODY_BYTES_MAX, "{} bytes", body.len());
    let path = format!("{collection}?dryRun=All");
    let code = target.code(Method::POST, &path, client::JSON, body).await;
    assert!(codes.contains(&code), "{code}");
    target.expect_survival().await;
}

fn owners(count: usize, more: &Value) -> Value {
    let owner = |number: usize| {
        let mut owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": number.to_string()});
        for (field, value) in more.as_object().expect("fields") {
            owner[field] = value.clone();
        }
        owner
    };
    let owners: Vec<Value> = (0..count).map(owner).collect();
    json!({"metadata": {"name": "owned", "ownerReferences": owners}})
}

#[tokio::test(flavor = "multi_thread")]
async fn many_owners_hold_nobody_up() {
    let target = Target::start().await;
    let object = owners(40_000, &json!({}));
    expect_answer(&target, OBJECTS, &object, &[200, 413]).await;
}

/// Each fault repeats the whole list.
#[tokio::test(flavor = "multi_thread")]
async fn many_controllers_yield_few_faults() {
    let target = Target::start().await;
    let object = owners(30_000, &json!({"controller": true}));
    expect_answer(&target, OBJECTS, &object, &[413, 422]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_verbs_of_a_role_hold_nobody_up() {
    let target = Target::start().await;
    let binding = json!({"metadata": {"name": "admin"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]});
    let bound = target
        .administrator
        .request(Method::POST, BINDINGS, client::JSON, Some(&binding))
        .await;
    bound.expect("a role");
    let verbs: Vec<String> = (0..100_000).map(|number| format!("v{number}")).collect();
    let role = json!({"metadata": {"name": "wide"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]});
    expect_answer(&target, ROLES, &role, &[403]).await;
}

/// All ports of all protocols, under one name or many.
#[tokio::test(flavor = "multi_thread")]
async fn many_ports_of_a_service_hold_nobody_up() {
    let target = Target::start().await;
    let services = "/api/v1/namespaces/default/services";
    let port = |number: usize| json!({"name": format!("p{number}"), "port": 1 + number});
    let distinct: Vec<Value> = (0..60_000).map(port).collect();
    let same = vec![json!({"name": "p", "port": 1}); 60_000];
    for ports in [distinct, same] {
        let service = json!({"metadata": {"name": "wide"}, "spec": {"ports": ports}});
        expect_answer(&target, services, &service, &[200, 413, 422]).await;
    }
}
