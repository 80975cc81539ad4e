//! Deployments and ReplicaSets, and their scale subresource.

use http::Method;
use serde_json::{Value, json};

use crate::harness::Api;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const SCALE: &str = "/apis/apps/v1/namespaces/default/deployments/web/scale";

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}},
        },
    })
}

async fn api_with_deployment() -> Api {
    let api = Api::start().await;
    api.post(DEPLOYMENTS, &deployment()).await.expect(201);
    api
}

async fn patch(api: &Api, path: &str, form: &str, patch: &Value) -> crate::harness::Reply {
    let headers = [("content-type", form)];
    api.send(Method::PATCH, path, &headers, patch.to_string().into_bytes())
        .await
}

#[tokio::test]
async fn scale_is_read_and_updated() {
    let api = api_with_deployment().await;
    let mut scale = api.get(SCALE).await.expect(200);
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(scale["spec"], json!({"replicas": 2}));
    assert_eq!(scale["status"], json!({"replicas": 0, "selector": "app=web"}));
    scale["spec"]["replicas"] = json!(5);
    let written = api.put(SCALE, &scale).await.expect(200);
    assert_eq!(
        (&written["kind"], &written["spec"]["replicas"]),
        (&json!("Scale"), &json!(5))
    );
    let web = api.get(WEB).await.expect(200);
    assert_eq!(
        (&web["spec"]["replicas"], &web["metadata"]["generation"]),
        (&json!(5), &json!(2))
    );
    let managers = web["metadata"]["managedFields"]
        .as_array()
        .expect("managed fields");
    let of_scale = managers
        .iter()
        .find(|entry| entry["subresource"] == "scale")
        .expect("the entry of the subresource");
    assert_eq!(of_scale["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    // The version of the first read is outdated.
    let refused = api.put(SCALE, &scale).await.expect(409);
    assert_eq!(refused["reason"], "Conflict");
}

#[tokio::test]
async fn scale_is_patched_and_applied() {
    let api = api_with_deployment().await;
    for form in [
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ] {
        let scale = patch(&api, SCALE, form, &json!({"spec": {"replicas": 3}}))
            .await
            .expect(200);
        assert_eq!(scale["spec"]["replicas"], 3, "{form}");
    }
    let refused = patch(
        &api,
        SCALE,
        "application/merge-patch+json",
        &json!({"spec": {"replicas": -1}}),
    )
    .await;
    let refused = refused.expect(422);
    assert_eq!(
        refused["message"],
        "Scale.autoscaling \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    );
    let applied = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"},
        "spec": {"replicas": 7}});
    let path = format!("{SCALE}?fieldManager=scaler&force=true");
    let scale = patch(&api, &path, "application/apply-patch+yaml", &applied)
        .await
        .expect(200);
    assert_eq!(scale["spec"]["replicas"], 7);
    assert_eq!(
        api.get(WEB).await.expect(200)["spec"]["template"]["spec"]["containers"][0]["image"],
        "x:1"
    );
    let missing = api
        .get("/apis/apps/v1/namespaces/default/deployments/other/scale")
        .await;
    assert_eq!(missing.expect(404)["reason"], "NotFound");
}

#[tokio::test]
async fn status_is_written_through_its_subresource() {
    let api = api_with_deployment().await;
    let status = json!({"spec": {"replicas": 9}, "status": {"replicas": 2, "readyReplicas": 1}});
    let path = format!("{WEB}/status");
    let web = patch(&api, &path, "application/merge-patch+json", &status)
        .await
        .expect(200);
    assert_eq!(
        (&web["spec"]["replicas"], &web["metadata"]["generation"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(web["status"], json!({"replicas": 2, "readyReplicas": 1}));
    let other = json!({"spec": {"paused": true}, "status": {"replicas": 7}});
    let web = patch(&api, WEB, "application/merge-patch+json", &other)
        .await
        .expect(200);
    assert_eq!(
        (&web["status"]["replicas"], &web["metadata"]["generation"]),
        (&json!(2), &json!(2))
    );
}

#[tokio::test]
async fn strategic_patch_replaces_the_strategy_with_retain_keys() {
    let api = api_with_deployment().await;
    let form = "application/strategic-merge-patch+json";
    let recreate = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let web = patch(&api, WEB, form, &recreate).await.expect(200);
    assert_eq!(web["spec"]["strategy"], json!({"type": "Recreate"}));
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x:2"}]}}}});
    let web = patch(&api, WEB, form, &image).await.expect(200);
    assert_eq!(
        web["spec"]["template"]["spec"]["containers"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert_eq!(web["spec"]["template"]["spec"]["containers"][0]["image"], "x:2");
}

#[tokio::test]
async fn invalid_deployments_are_rejected_with_their_fields() {
    let api = api_with_deployment().await;
    let mut other = deployment();
    other["metadata"]["name"] = json!("other");
    other["spec"]["template"]["metadata"]["labels"]["app"] = json!("x");
    let refused = api.post(DEPLOYMENTS, &other).await.expect(422);
    assert_eq!(refused["details"]["group"], "apps");
    assert_eq!(
        refused["details"]["causes"][0]["field"],
        "spec.template.metadata.labels"
    );
    let selector = json!({"spec": {"selector": {"matchLabels": {"tier": "x"}},
        "template": {"metadata": {"labels": {"tier": "x"}}}}});
    let refused = patch(&api, WEB, "application/merge-patch+json", &selector)
        .await
        .expect(422);
    let message = refused["message"].as_str().expect("a status message");
    assert!(
        message.starts_with("Deployment.apps \"web\" is invalid: spec.selector: Invalid value"),
        "{message}"
    );
    assert!(message.ends_with("field is immutable"), "{message}");
}

#[tokio::test]
async fn serves_tables_discovery_and_protobuf() {
    let api = api_with_deployment().await;
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = api.send(Method::GET, DEPLOYMENTS, &table, "").await.expect(200);
    assert_eq!(table["rows"][0]["cells"][1], "0/2");
    let resources = api.get("/apis/apps/v1").await.expect(200);
    let names: Vec<&str> = resources["resources"]
        .as_array()
        .expect("the resource list")
        .iter()
        .filter_map(|resource| resource["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ]
    );
    let binary = [("accept", "application/vnd.kubernetes.protobuf")];
    let open = |body: &[u8], definition| api::protobuf::open(body).unwrap().object(definition).unwrap();
    let web = api.send(Method::GET, WEB, &binary, "").await;
    let web = open(&web.body, "io.k8s.api.apps.v1.Deployment");
    assert_eq!(web["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    let scale = api.send(Method::GET, SCALE, &binary, "").await;
    let scale = open(&scale.body, "io.k8s.api.autoscaling.v1.Scale");
    assert_eq!(scale["spec"]["replicas"], 2);
}
