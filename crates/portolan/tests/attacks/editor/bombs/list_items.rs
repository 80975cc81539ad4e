//! List items with long keys, which the path of each field below repeats, and items that a patch repeats.

use client::{APPLY_PATCH, JSON, MERGE_PATCH, STRATEGIC_PATCH};
use http::Method;
use serde_json::{Map, Value, json};

use super::Target;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/own";

fn deployment(name: &str, variables: usize) -> Value {
    let variables: Vec<Value> = (0..variables)
        .map(|number| json!({"name": format!("e{number}")}))
        .collect();
    let labels = json!({"app": "own"});
    let containers = json!([{"name": name, "image": "image", "env": variables}]);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "own"},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    })
}

async fn create_deployment(target: &Target, variables: usize) {
    let body = deployment("main", variables).to_string();
    let created = target.code(Method::POST, DEPLOYMENTS, JSON, body).await;
    assert_eq!(created, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_name_of_a_container_is_compared_in_time() {
    let target = Target::start().await;
    create_deployment(&target, 1).await;
    let wide = deployment(&"x".repeat(2_000_000), 30_000).to_string();
    let path = format!("{DEPLOYMENT}?dryRun=All");
    let replaced = target.code(Method::PUT, &path, JSON, wide.clone()).await;
    assert!(matches!(replaced, 413 | 422), "{replaced}");
    let path = format!("{DEPLOYMENT}?dryRun=All&fieldManager=ann&force=true");
    let applied = target.code(Method::PATCH, &path, APPLY_PATCH, wide).await;
    assert!(applied >= 400, "{applied}");
    target.expect_survival().await;
}

/// The editor writes the record of a manager that owns fields of such an item, and applies the item.
#[tokio::test(flavor = "multi_thread")]
async fn conflicts_below_a_long_name_are_bounded() {
    let target = Target::start().await;
    create_deployment(&target, 1).await;
    let (name, count) = ("x".repeat(200_000), 5_000);
    let variables: Map<String, Value> = (0..count)
        .map(|number| {
            let key = format!("k:{{\"name\":\"e{number}\"}}");
            (key, json!({".": {}, "f:name": {}}))
        })
        .collect();
    let container = json!({"f:env": variables});
    let containers = Map::from_iter([(format!("k:{{\"name\":\"{name}\"}}"), container)]);
    let template = json!({"f:spec": {"f:containers": containers}});
    let record = json!([{
        "manager": "other", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
        "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:template": template}},
    }]);
    let patch = json!({"metadata": {"managedFields": record}}).to_string();
    let recorded = target.code(Method::PATCH, DEPLOYMENT, MERGE_PATCH, patch).await;
    assert_eq!(recorded, 200);
    let path = format!("{DEPLOYMENT}?fieldManager=ann");
    let wide = deployment(&name, count).to_string();
    let applied = target.code(Method::PATCH, &path, APPLY_PATCH, wide).await;
    assert!(applied >= 400, "{applied}");
    target.expect_survival().await;
}

/// Each item of the patch is merged into the same container, with the list of its variables.
#[tokio::test(flavor = "multi_thread")]
async fn repeated_items_of_a_strategic_patch_are_rejected() {
    let target = Target::start().await;
    create_deployment(&target, 10_000).await;
    let item = json!({"name": "main", "env": [{"name": "x"}]});
    let containers = vec![item; 20_000];
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}}).to_string();
    let patched = target
        .code(Method::PATCH, DEPLOYMENT, STRATEGIC_PATCH, patch)
        .await;
    assert_eq!(patched, 413);
    target.expect_survival().await;
}
