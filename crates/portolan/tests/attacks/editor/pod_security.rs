//! Pods that violate the Pod Security Standard of their namespace. The expected messages are those of upstream.

use bytes::Bytes;
use client::{APPLY_PATCH, Client, JSON, MERGE_PATCH, STRATEGIC_PATCH};
use http::Method;
use serde_json::{Value, json};

use crate::access;
use crate::support::{Api, portolan, wait_for};

const NAMESPACE: &str = "team";
const PODS: &str = "/api/v1/namespaces/team/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/team/deployments";

/// API server with the labelled namespace `team`, and a client of its editor.
struct Cluster {
    api: Api,
    administrator: Client,
    editor: Client,
}

impl Cluster {
    async fn start(labels: Value) -> Self {
        let api = Api::start();
        let administrator = access::administrator(&api);
        let editor = access::with_certificate(&api, "editor", "");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": labels}});
        must(
            &administrator,
            Method::POST,
            "/api/v1/namespaces",
            JSON,
            &namespace,
        )
        .await;
        let group = "rbac.authorization.k8s.io";
        let binding = json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
            "metadata": {"name": "editor"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "editor"}]});
        let bindings = format!("/apis/{group}/v1/namespaces/{NAMESPACE}/rolebindings");
        must(&administrator, Method::POST, &bindings, JSON, &binding).await;
        Self {
            api,
            administrator,
            editor,
        }
    }

    async fn enforcing(level: &str) -> Self {
        Self::start(json!({"pod-security.kubernetes.io/enforce": level})).await
    }

    /// Expects that a request of the editor is rejected with a message.
    async fn expect_rejection(&self, method: Method, path: &str, content: &str, body: &Value, message: &str) {
        let result = self.editor.request(method, path, content, Some(body)).await;
        let error = result.expect_err("a refusal").to_string();
        assert!(error.contains(message), "{error}");
    }
}

/// Sends a request that must succeed.
async fn must(client: &Client, method: Method, path: &str, content: &str, body: &Value) -> Value {
    let response = client.request(method, path, content, Some(body)).await;
    response.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a Pod that complies with `restricted`.
fn compliant(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": compliant_spec()})
}

fn compliant_spec() -> Value {
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "image": "i", "securityContext":
            {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
    })
}

/// Returns Pods that could take over the node, with the message of the level `baseline`.
fn escapes() -> Vec<(Value, &'static str)> {
    let with = |fields: Value| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "escape"},
            "spec": {"containers": [{"name": "a", "image": "i"}]}});
        for (key, value) in fields.as_object().expect("fields") {
            pod["spec"][key] = value.clone();
        }
        pod
    };
    let container = |context: Value| {
        with(json!({"containers": [{"name": "a", "image": "i", "securityContext": context}]}))
    };
    vec![
        (
            container(json!({"privileged": true})),
            "pods \"escape\" is forbidden: violates PodSecurity \"baseline:latest\": privileged (container \"a\" must \
             not set securityContext.privileged=true)",
        ),
        (
            container(json!({"capabilities": {"add": ["SYS_ADMIN"]}})),
            "non-default capabilities (container \"a\" must not include \"SYS_ADMIN\" in \
             securityContext.capabilities.add)",
        ),
        (
            with(json!({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]})),
            "hostPath volumes (volume \"root\")",
        ),
        (
            with(json!({"hostNetwork": true})),
            "host namespaces (hostNetwork=true)",
        ),
        (with(json!({"hostPID": true})), "host namespaces (hostPID=true)"),
        (
            with(
                json!({"initContainers": [{"name": "i", "image": "i", "securityContext": {"privileged": true}}]}),
            ),
            "privileged (container \"i\" must not set securityContext.privileged=true)",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn baseline_rejects_privileged_pods() {
    let cluster = Cluster::enforcing("baseline").await;
    for (pod, message) in escapes() {
        cluster
            .expect_rejection(Method::POST, PODS, JSON, &pod, message)
            .await;
        let path = format!("{PODS}/escape?fieldManager=e&force=true");
        cluster
            .expect_rejection(Method::PATCH, &path, APPLY_PATCH, &pod, message)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restricted_rejects_root() {
    let cluster = Cluster::enforcing("restricted").await;
    must(&cluster.editor, Method::POST, PODS, JSON, &compliant("compliant")).await;
    let plain = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "image": "i"}]}});
    let message = "pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false \
                 (container \"a\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities \
                 (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or \
                 container \"a\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"a\" must \
                 set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    cluster
        .expect_rejection(Method::POST, PODS, JSON, &plain, message)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn security_context_of_a_pod_cannot_be_loosened() {
    let cluster = Cluster::enforcing("restricted").await;
    let mut pod = must(&cluster.editor, Method::POST, PODS, JSON, &compliant("p")).await;
    let path = format!("{PODS}/p");
    let immutable = "pod updates may not change fields other than";
    let patch = json!({"spec": {"containers": [{"name": "a", "securityContext": {"privileged": true}}]}});
    for content in [STRATEGIC_PATCH, MERGE_PATCH] {
        cluster
            .expect_rejection(Method::PATCH, &path, content, &patch, "spec")
            .await;
    }
    let status = format!("{path}/status");
    must(
        &cluster.administrator,
        Method::PATCH,
        &status,
        STRATEGIC_PATCH,
        &patch,
    )
    .await;
    pod["spec"]["hostNetwork"] = json!(true);
    cluster
        .expect_rejection(Method::PUT, &path, JSON, &pod, immutable)
        .await;
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}});
    cluster
        .expect_rejection(Method::PATCH, &path, STRATEGIC_PATCH, &debug, immutable)
        .await;
    let stored: Value = cluster.editor.get(&path).await.expect("the Pod");
    assert!(stored["spec"].get("hostNetwork").is_none(), "{stored}");
    let context = &stored["spec"]["containers"][0]["securityContext"];
    assert!(context.get("privileged").is_none(), "{stored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn image_update_of_a_pod_that_violates_a_later_policy_is_rejected() {
    let cluster = Cluster::start(json!({})).await;
    let (pod, _) = escapes().remove(0);
    must(&cluster.editor, Method::POST, PODS, JSON, &pod).await;
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    let namespace = format!("/api/v1/namespaces/{NAMESPACE}");
    let body = Bytes::from(label.to_string());
    let response = cluster
        .administrator
        .open(Method::PATCH, &namespace, MERGE_PATCH, body)
        .await
        .expect("a label of the namespace");
    let warnings: Vec<&str> = response
        .headers()
        .get_all("warning")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    assert_eq!(
        warnings,
        [
            r#"299 - "existing pods in namespace \"team\" violate the new PodSecurity enforce level \"baseline:latest\"""#,
            r#"299 - "escape: privileged""#,
        ]
    );
    let path = format!("{PODS}/escape");
    let image = json!({"spec": {"containers": [{"name": "a", "image": "other"}]}});
    let message = "violates PodSecurity \"baseline:latest\": privileged";
    cluster
        .expect_rejection(Method::PATCH, &path, STRATEGIC_PATCH, &image, message)
        .await;
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    must(&cluster.editor, Method::PATCH, &path, MERGE_PATCH, &labels).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn baseline_rejects_privileged_pods_of_deployments() {
    let cluster = Cluster::start(json!({
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/warn": "baseline",
    }))
    .await;
    let kubeconfig = format!("--kubeconfig={}", cluster.api.kubeconfig().display());
    let _controllers = portolan(&["controllers", &kubeconfig, "--metrics-bind-address="]);
    let (pod, _) = escapes().remove(0);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": pod["spec"]},
    }});
    let body = Bytes::from(deployment.to_string());
    let response = cluster
        .editor
        .open(Method::POST, DEPLOYMENTS, JSON, body)
        .await
        .expect("a Deployment");
    let warning = response
        .headers()
        .get("warning")
        .and_then(|value| value.to_str().ok());
    assert_eq!(
        warning,
        Some(
            r#"299 - "would violate PodSecurity \"baseline:latest\": privileged (container \"a\" must not set securityContext.privileged=true)""#
        )
    );
    let runtime = tokio::runtime::Handle::current();
    let failures = || {
        let events = cluster
            .administrator
            .get::<Value>("/api/v1/namespaces/team/events");
        let events = tokio::task::block_in_place(|| runtime.block_on(events)).expect("Events");
        let events = events["items"].as_array().cloned().unwrap_or_default();
        events.into_iter().find(|event| event["reason"] == "FailedCreate")
    };
    wait_for("an Event about the rejected Pod", || failures().is_some());
    let message = failures().expect("an Event")["message"].to_string();
    assert!(message.contains("violates PodSecurity"), "{message}");
    let pods: Value = cluster.editor.get(PODS).await.expect("a list");
    assert_eq!(pods["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_pod_security_labels_are_rejected() {
    let cluster = Cluster::enforcing("baseline").await;
    let namespace = format!("/api/v1/namespaces/{NAMESPACE}");
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "strict"}}});
    let response = cluster
        .administrator
        .request(Method::PATCH, &namespace, MERGE_PATCH, Some(&label))
        .await;
    let error = response.expect_err("a refusal").to_string();
    assert!(
        error.contains(
            "Namespace \"team\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \
             \"strict\": must be one of privileged, baseline, restricted"
        ),
        "{error}"
    );
}
