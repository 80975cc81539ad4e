//! AddressPools, a kind of Portolan.

use http::Method;
use serde_json::{Value, json};

use crate::harness::Api;

const POOLS: &str = "/apis/portolan.dev/v1alpha1/addresspools";

fn pool(name: &str, addresses: &[&str]) -> Value {
    json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool",
        "metadata": {"name": name}, "spec": {"addresses": addresses},
    })
}

#[tokio::test]
async fn pools_get_defaults_status_and_table_rows() {
    let api = Api::start().await;
    let created = api.post(POOLS, &pool("p", &["192.0.2.0/24"])).await.expect(201);
    assert_eq!(created["spec"]["autoAssign"], true);
    assert_eq!(created["spec"]["scope"], "External");
    assert_eq!(created["metadata"]["generation"], 1);
    let path = format!("{POOLS}/p");
    let usage = json!([{"family": "IPv4", "total": 256, "assigned": 3}]);
    let patch = json!({"status": {"usage": usage}, "spec": {"priority": 7}});
    let with_usage = api.merge(&format!("{path}/status"), &patch).await.expect(200);
    assert_eq!(with_usage["status"]["usage"], usage);
    assert_eq!(with_usage["spec"]["priority"], 0);
    assert_eq!(with_usage["metadata"]["generation"], 1);
    let changed = json!({"spec": {"priority": 7}, "status": {"usage": []}});
    let changed = api.merge(&path, &changed).await.expect(200);
    assert_eq!(changed["status"]["usage"], usage);
    assert_eq!(changed["metadata"]["generation"], 2);
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = api.send(Method::GET, POOLS, &table, "").await.expect(200);
    assert_eq!(table["rows"][0]["cells"][1], "192.0.2.0/24");
    assert_eq!(table["rows"][0]["cells"][4], "3/256");
    api.delete(&path).await.expect(200);
}

#[tokio::test]
async fn invalid_pools_are_rejected_with_their_fields() {
    let api = Api::start().await;
    let mut invalid = pool("p", &["192.0.2.1/24", "x"]);
    invalid["spec"]["scope"] = json!("Both");
    invalid["spec"]["interfaces"] = json!(["eth0", "no/link"]);
    invalid["spec"]["nodeSelectors"] = json!([{"matchExpressions": [{"key": "zone", "operator": "In"}]}]);
    let refused = api.post(POOLS, &invalid).await.expect(422);
    let causes = refused["details"]["causes"].as_array().expect("status causes");
    let fields: Vec<&str> = causes
        .iter()
        .filter_map(|cause| cause["field"].as_str())
        .collect();
    assert_eq!(
        fields,
        [
            "spec.addresses[0]",
            "spec.addresses[1]",
            "spec.scope",
            "spec.nodeSelectors[0].matchExpressions[0].values",
            "spec.interfaces[1]",
        ]
    );
}

#[tokio::test]
async fn interfaces_and_node_selectors_are_stored_unchanged() {
    let api = Api::start().await;
    let mut placed = pool("p", &["192.0.2.0/24"]);
    let selectors = json!([{"matchLabels": {"role": "edge"}}, {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]);
    placed["spec"]["interfaces"] = json!(["eth1", "bond*"]);
    placed["spec"]["nodeSelectors"] = selectors.clone();
    let created = api.post(POOLS, &placed).await.expect(201);
    assert_eq!(created["spec"]["interfaces"], json!(["eth1", "bond*"]));
    assert_eq!(created["spec"]["nodeSelectors"], selectors);
    let changed = json!({"spec": {"interfaces": null, "nodeSelectors": [selectors[0]]}});
    let changed = api.merge(&format!("{POOLS}/p"), &changed).await.expect(200);
    assert_eq!(changed["spec"].get("interfaces"), None);
    assert_eq!(changed["spec"]["nodeSelectors"], json!([selectors[0]]));
    assert_eq!(changed["metadata"]["generation"], 2);
}

#[tokio::test]
async fn protobuf_is_not_acceptable() {
    let api = Api::start().await;
    let accept = |value| [("accept", value), ("content-type", "application/json")];
    let protobuf = accept("application/vnd.kubernetes.protobuf");
    let body = pool("p", &["192.0.2.0/24"]).to_string();
    let refused = api.send(Method::POST, POOLS, &protobuf, body).await;
    assert_eq!(refused.code, 406);
    // The refused request wrote nothing.
    api.get(&format!("{POOLS}/p")).await.expect(404);
    let watch = format!("{POOLS}?watch=true");
    let stream = accept("application/vnd.kubernetes.protobuf;stream=watch");
    assert_eq!(api.send(Method::GET, &watch, &stream, "").await.code, 406);
}

/// Creates a Service of type LoadBalancer with an assigned address.
async fn assigned_service(api: &Api, name: &str, ip: &str) {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    let services = "/api/v1/namespaces/default/services";
    api.post(services, &service).await.expect(201);
    let condition = json!({"type": "portolan.dev/AddressAssigned", "status": "True", "reason": "Assigned",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": ip}]}, "conditions": [condition]}});
    api.merge(&format!("{services}/{name}/status"), &status)
        .await
        .expect(200);
}

#[tokio::test]
async fn pools_keep_addresses_that_services_have() {
    let api = Api::start().await;
    api.post(POOLS, &pool("p", &["192.0.2.0/24"])).await.expect(201);
    let path = format!("{POOLS}/p");
    assigned_service(&api, "web", "192.0.2.7").await;
    let refused = api.delete(&path).await.expect(403);
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("192.0.2.7 (Service default/web)"), "{message}");
    assert!(
        message.contains("portolan.dev/withdraw-addresses=true"),
        "{message}"
    );
    api.delete(POOLS).await.expect(403);
    let addresses = |addresses: &[&str]| json!({"spec": {"addresses": addresses}});
    api.merge(&path, &addresses(&["192.0.2.128/25"]))
        .await
        .expect(403);
    api.merge(&path, &json!({"spec": {"scope": "Internal"}}))
        .await
        .expect(403);
    // The pool may grow, and lose addresses that are free.
    api.merge(&path, &addresses(&["192.0.2.0/28", "198.51.100.0/24"]))
        .await
        .expect(200);
    api.merge(&path, &json!({"spec": {"priority": 3}}))
        .await
        .expect(200);
    // Another pool with the address takes over.
    api.post(POOLS, &pool("q", &["192.0.2.7/32"])).await.expect(201);
    api.delete(&path).await.expect(200);
    let path = format!("{POOLS}/q");
    api.delete(&path).await.expect(403);
    let permission = json!({"metadata": {"annotations": {"portolan.dev/withdraw-addresses": "true"}}});
    api.merge(&path, &permission).await.expect(200);
    api.delete(&path).await.expect(200);
}

/// Records the pool of a Service, as the assigner does.
async fn record_pool(api: &Api, service: &str, pool: &str) {
    let annotations = json!({"metadata": {"annotations": {"metallb.io/ip-allocated-from-pool": pool}}});
    api.merge(
        &format!("/api/v1/namespaces/default/services/{service}"),
        &annotations,
    )
    .await
    .expect(200);
}

fn internal_pool(name: &str, addresses: &[&str]) -> Value {
    let mut pool = pool(name, addresses);
    pool["spec"]["scope"] = json!("Internal");
    pool
}

#[tokio::test]
async fn pool_of_another_scope_does_not_take_addresses_over() {
    let api = Api::start().await;
    api.post(POOLS, &pool("public", &["192.0.2.0/24"]))
        .await
        .expect(201);
    api.post(POOLS, &internal_pool("private", &["192.0.2.0/28"]))
        .await
        .expect(201);
    assigned_service(&api, "web", "192.0.2.7").await;
    record_pool(&api, "web", "private").await;
    let (public, private) = (format!("{POOLS}/public"), format!("{POOLS}/private"));
    // The Service is internal, so the assigner gives it no address of the external pool.
    let refused = api.delete(&private).await.expect(403);
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("192.0.2.7 (Service default/web)"), "{message}");
    api.merge(&private, &json!({"spec": {"scope": "External"}}))
        .await
        .expect(403);
    // The external pool may lose the address, and change its scope.
    api.merge(&public, &json!({"spec": {"addresses": ["192.0.2.128/25"]}}))
        .await
        .expect(200);
    api.delete(&public).await.expect(200);
    api.post(POOLS, &internal_pool("second", &["192.0.2.7/32"]))
        .await
        .expect(201);
    api.delete(&private).await.expect(200);
}

#[tokio::test]
async fn pool_does_not_exclude_services_that_have_its_addresses() {
    let api = Api::start().await;
    api.post(POOLS, &pool("p", &["192.0.2.0/24"])).await.expect(201);
    assigned_service(&api, "web", "192.0.2.7").await;
    record_pool(&api, "web", "p").await;
    let path = format!("{POOLS}/p");
    for field in ["namespaceSelector", "serviceSelector"] {
        let excludes = json!({"spec": {field: {"matchLabels": {"tier": "other"}}}});
        api.merge(&path, &excludes).await.expect(403);
        let includes =
            json!({"spec": {field: {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}}});
        api.merge(&path, &includes).await.expect(200);
    }
    // A pool for other Services does not take the address over.
    let mut other = pool("other", &["192.0.2.7/32"]);
    other["spec"]["serviceSelector"] = json!({"matchLabels": {"tier": "other"}});
    api.post(POOLS, &other).await.expect(201);
    api.delete(&path).await.expect(403);
    api.delete(&format!("{POOLS}/other")).await.expect(200);
}
