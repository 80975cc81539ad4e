//! Mirror Pods that would give a node access to Secrets and ServiceAccounts of others.

use serde_json::{Value, json};

use super::{Cluster, PODS, expect_refusal, named, pod_on, post};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SECRET: &str = "/api/v1/namespaces/default/secrets/loot";
const NO_RELATION: &str = "no relationship found between node 'one' and this object";

/// Returns a mirror Pod with a spec; its metadata are those that the node may create.
fn mirror(cluster: &Cluster, name: &str, mut spec: Value) -> Value {
    spec["nodeName"] = "one".into();
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c", "image": "i"}]);
    }
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "one", "uid": cluster.node_uid, "controller": true});
    json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
           "metadata": {"name": name, "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}})
}

/// Returns Pod specs with each kind of reference to the Secret `loot`.
fn specs_with_the_secret() -> Vec<Value> {
    let variable = json!({"name": "E", "valueFrom": {"secretKeyRef": {"name": "loot", "key": "k"}}});
    let container = |name: &str, field: &str, value: Value| json!({"name": name, "image": "i", field: value});
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = "v".into();
        json!({"volumes": [volume]})
    };
    vec![
        json!({"containers": [container("c", "env", json!([variable]))]}),
        json!({"containers": [container("c", "envFrom", json!([{"secretRef": {"name": "loot"}}]))]}),
        json!({"initContainers": [container("i", "env", json!([variable]))]}),
        json!({"ephemeralContainers": [container("e", "env", json!([variable]))]}),
        json!({"imagePullSecrets": [{"name": "loot"}]}),
        volume(json!({"secret": {"secretName": "loot"}})),
        volume(json!({"projected": {"sources": [{"secret": {"name": "loot"}}]}})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn mirror_pod_gives_no_access_to_secrets() {
    let cluster = Cluster::start().await;
    let mut secret = named("Secret", "loot");
    secret["stringData"] = json!({"k": "gold"});
    cluster.create(SECRETS, &secret).await;
    let mut accessible = Vec::new();
    for (number, spec) in specs_with_the_secret().into_iter().enumerate() {
        let pod = mirror(&cluster, &format!("m{number}"), spec.clone());
        let created = post(&cluster.node, PODS, &pod).await;
        let read = cluster.node.get::<Value>(SECRET).await;
        if created.is_ok() || read.is_ok() {
            accessible.push(spec);
        } else {
            expect_refusal(created, "a mirror pod may not reference secrets");
            expect_refusal(read, NO_RELATION);
        }
    }
    assert!(
        accessible.is_empty(),
        "specs that give access to the Secret: {accessible:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn mirror_pod_gives_no_access_to_config_maps() {
    let cluster = Cluster::start().await;
    let collection = "/api/v1/namespaces/default/configmaps";
    cluster.create(collection, &named("ConfigMap", "settings")).await;
    let spec = json!({"volumes": [{"name": "v", "configMap": {"name": "settings"}}]});
    let text = "node \"one\" can not create pods that reference configmaps";
    expect_refusal(
        post(&cluster.node, PODS, &mirror(&cluster, "m", spec)).await,
        text,
    );
    let read = cluster.node.get::<Value>(&format!("{collection}/settings")).await;
    expect_refusal(read, NO_RELATION);
}

#[tokio::test(flavor = "multi_thread")]
async fn mirror_pod_gives_no_service_account_token() {
    let cluster = Cluster::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.create(accounts, &named("ServiceAccount", "mighty")).await;
    let pod = mirror(&cluster, "m", json!({"serviceAccountName": "mighty"}));
    let text = "a mirror pod may not reference service accounts";
    expect_refusal(post(&cluster.node, PODS, &pod).await, text);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = post(&cluster.node, &format!("{accounts}/mighty/token"), &request).await;
    expect_refusal(token, NO_RELATION);
}

#[tokio::test(flavor = "multi_thread")]
async fn mirror_pod_needs_its_node_as_owner() {
    let cluster = Cluster::start().await;
    let mut pod = mirror(&cluster, "m", json!({}));
    post(&cluster.node, PODS, &pod).await.expect("a mirror Pod");
    pod["metadata"]["name"] = "n".into();
    pod["metadata"]["ownerReferences"] = json!([]);
    let text = "node \"one\" can only create pods with an owner reference set to itself";
    expect_refusal(post(&cluster.node, PODS, &pod).await, text);
}

#[tokio::test(flavor = "multi_thread")]
async fn node_cannot_turn_other_pods_into_mirror_pods() {
    let cluster = Cluster::start().await;
    cluster.create(PODS, &pod_on("one", "p")).await;
    let patch = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
    let result = super::merge(&cluster.node, &format!("{PODS}/p/status"), &patch).await;
    let error = result.expect_err("a refusal").to_string();
    assert!(error.contains("may not add mirror pod annotation"), "{error}");
}
