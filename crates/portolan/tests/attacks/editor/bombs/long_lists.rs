//! Lists as long as the body limit allows, whose validation could take quadratic time: the response must
//! arrive before the timeout of the client.

use http::Method;
use serde_json::{Value, json};

use super::{BODY_BYTES_MAX, OBJECTS, Target};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

/// Creates an object and expects one of the status codes before the timeout of the client.
async fn expect_code(target: &Target, collection: &str, object: &Value, codes: &[u16]) {
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
        for (field, value) in more.as_object().expect("an object") {
            owner[field] = value.clone();
        }
        owner
    };
    let owners: Vec<Value> = (0..count).map(owner).collect();
    json!({"metadata": {"name": "owned", "ownerReferences": owners}})
}

#[tokio::test(flavor = "multi_thread")]
async fn many_owner_references_are_validated_in_time() {
    let target = Target::start().await;
    let object = owners(40_000, &json!({}));
    expect_code(&target, OBJECTS, &object, &[200, 413]).await;
}

/// Each validation error would repeat the complete list.
#[tokio::test(flavor = "multi_thread")]
async fn many_controller_references_have_a_bounded_error() {
    let target = Target::start().await;
    let object = owners(30_000, &json!({"controller": true}));
    expect_code(&target, OBJECTS, &object, &[413, 422]).await;
}

/// Makes the editor an administrator of its namespace.
async fn bind_admin(target: &Target) {
    let binding = json!({"metadata": {"name": "admin"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]});
    let bound = target
        .administrator
        .request(Method::POST, BINDINGS, client::JSON, Some(&binding))
        .await;
    bound.expect("a role binding");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_verbs_of_a_role_are_checked_in_time() {
    let target = Target::start().await;
    bind_admin(&target).await;
    let verbs: Vec<String> = (0..100_000).map(|number| format!("v{number}")).collect();
    let role = json!({"metadata": {"name": "wide"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]});
    expect_code(&target, ROLES, &role, &[403]).await;
}

/// Each right of the role, of which there are 20,000, would have its own copy of the group.
#[tokio::test(flavor = "multi_thread")]
async fn long_group_of_a_role_is_not_copied_for_each_right() {
    let target = Target::start().await;
    bind_admin(&target).await;
    let resources: Vec<String> = (0..20_000).map(|number| format!("r{number}")).collect();
    let role = json!({"metadata": {"name": "wide"},
        "rules": [{"apiGroups": ["x".repeat(200_000)], "resources": resources, "verbs": ["get"]}]});
    expect_code(&target, ROLES, &role, &[403]).await;
}

/// 60,000 ports with distinct names, and with the same name.
#[tokio::test(flavor = "multi_thread")]
async fn many_ports_of_a_service_are_validated_in_time() {
    let target = Target::start().await;
    let services = "/api/v1/namespaces/default/services";
    let port = |number: usize| json!({"name": format!("p{number}"), "port": 1 + number});
    let distinct: Vec<Value> = (0..60_000).map(port).collect();
    let same = vec![json!({"name": "p", "port": 1}); 60_000];
    for ports in [distinct, same] {
        let service = json!({"metadata": {"name": "wide"}, "spec": {"ports": ports}});
        expect_code(&target, services, &service, &[200, 413, 422]).await;
    }
}
