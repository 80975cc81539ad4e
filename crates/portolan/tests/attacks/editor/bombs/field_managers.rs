//! Fields below a list item with a long key, each of which has the key in its path.

use client::{APPLY_PATCH, JSON, MERGE_PATCH};
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

async fn create_deployment(target: &Target) {
    let created = target
        .code(Method::POST, DEPLOYMENTS, JSON, deployment("main", 1).to_string())
        .await;
    assert_eq!(created, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_name_of_a_container_is_compared_in_time() {
    let target = Target::start().await;
    create_deployment(&target).await;
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
    create_deployment(&target).await;
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
