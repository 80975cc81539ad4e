//! PodSecurity: exemptions, modes and metrics. `crates/portolan/tests` has attacks on it.

use api::pod_security::Configuration;
use apiserver::{Access, AdmissionConfiguration};
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::harness::{Api, Reply};

const PODS: &str = "/api/v1/namespaces/team/pods";

async fn start(configuration: Value) -> Api {
    let mut file =
        json!({"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"});
    for (key, value) in configuration.as_object().expect("an object") {
        file[key] = value.clone();
    }
    Api::start_with(Access {
        admission_configuration: AdmissionConfiguration {
            pod_security: Configuration::read(file).expect("a valid configuration"),
        },
        ..Access::default()
    })
    .await
}

async fn namespace(api: &Api, labels: Value) {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}});
    api.post("/api/v1/namespaces", &namespace).await.expect(201);
}

fn privileged(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [
        {"name": "a", "image": "i", "securityContext": {"privileged": true}}]}})
}

fn warnings(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all("warning").iter();
    values.filter_map(|value| value.to_str().ok()).collect()
}

/// Creates a Pod as a user of `system:masters`.
async fn create_as(api: &Api, user: &str, pod: &Value) -> Reply {
    let headers = [
        ("content-type", "application/json"),
        ("impersonate-user", user),
        ("impersonate-group", "system:masters"),
    ];
    api.send(Method::POST, PODS, &headers, pod.to_string()).await
}

async fn metrics(api: &Api) -> Vec<String> {
    let text = api.get("/metrics").await;
    let text = String::from_utf8(text.body.to_vec()).expect("UTF-8 text");
    text.lines()
        .filter(|line| line.starts_with("pod_security_"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn applies_defaults_and_exempts_users_and_runtime_classes() {
    let api = start(json!({
        "defaults": {"enforce": "baseline"},
        "exemptions": {"usernames": ["exempt"], "runtimeClasses": ["sandboxed"]},
    }))
    .await;
    namespace(&api, json!({})).await;
    create_as(&api, "somebody", &privileged("a")).await.expect(403);
    create_as(&api, "exempt", &privileged("b")).await.expect(201);
    let mut sandboxed = privileged("c");
    sandboxed["spec"]["runtimeClassName"] = json!("sandboxed");
    create_as(&api, "somebody", &sandboxed).await.expect(201);
    let labels = "request_operation=\"create\",resource=\"pod\",subresource=\"\"";
    assert_eq!(
        metrics(&api).await,
        [
            format!(
                "pod_security_evaluations_total{{decision=\"deny\",mode=\"enforce\",policy_level=\"baseline\",\
                 policy_version=\"latest\",{labels}}} 1"
            ),
            format!("pod_security_exemptions_total{{{labels}}} 2"),
        ]
    );
}

#[tokio::test]
async fn warns_about_violations_without_refusing_them() {
    let api = start(json!({})).await;
    namespace(&api, json!({"pod-security.kubernetes.io/warn": "baseline"})).await;
    let reply = create_as(&api, "somebody", &privileged("a")).await;
    let warning = r#"299 - "would violate PodSecurity \"baseline:latest\": privileged (container \"a\" must not set securityContext.privileged=true)""#;
    assert_eq!(
        (reply.code.as_u16(), warnings(&reply.headers)),
        (201, vec![warning])
    );
    let replica_set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r"}, "spec": {
        "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": privileged("x")["spec"]}}});
    let reply = api
        .post("/apis/apps/v1/namespaces/team/replicasets", &replica_set)
        .await;
    assert_eq!(
        (reply.code.as_u16(), warnings(&reply.headers)),
        (201, vec![warning])
    );
    let scale = json!({"spec": {"replicas": 1}});
    let reply = api
        .merge("/apis/apps/v1/namespaces/team/replicasets/r/scale", &scale)
        .await;
    assert_eq!(
        (reply.code.as_u16(), warnings(&reply.headers)),
        (200, Vec::<&str>::new())
    );
}

#[tokio::test]
async fn enforces_the_strictest_level_if_labels_are_invalid() {
    let api = start(json!({"exemptions": {"namespaces": ["other"]}})).await;
    namespace(&api, json!({})).await;
    // Invalid labels that an older server accepted.
    let key = "/namespaces/team";
    let entry = store::Store::index(&*api.store).get(key).expect("the Namespace");
    let mut object: Value = serde_json::from_slice(&entry.value).expect("JSON");
    object["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = json!("strict");
    let (bytes, revision_at) = api::encode::encode(&object);
    let value = store::Value {
        bytes: bytes.into(),
        revision_at: Some(revision_at),
    };
    let transaction = store::Transaction {
        expectations: Vec::new(),
        writes: vec![store::Write::Put(key.into(), value)],
    };
    store::Store::commit(&*api.store, transaction)
        .await
        .expect("a commit");
    let reply = create_as(&api, "somebody", &privileged("a")).await.expect(403);
    let message = reply["message"].as_str().expect("a status message").to_owned();
    assert!(
        message.contains("violates PodSecurity \"restricted:latest\""),
        "{message}"
    );
    let errors = metrics(&api).await;
    assert!(
        errors.contains(
            &"pod_security_errors_total{fatal=\"false\",request_operation=\"create\",resource=\"pod\",subresource=\"\"} 1"
                .to_owned()
        ),
        "{errors:?}"
    );
    // Other changes of the Namespace are accepted in spite of invalid labels.
    api.merge(
        "/api/v1/namespaces/team",
        &json!({"metadata": {"labels": {"a": "b"}}}),
    )
    .await
    .expect(200);
}
