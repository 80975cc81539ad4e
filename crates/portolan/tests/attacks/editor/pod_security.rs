//! Pods that break out of their namespace's Pod Security Standard: each refusal is upstream's message.

use bytes::Bytes;
use client::{APPLY_PATCH, Client, JSON, MERGE_PATCH, STRATEGIC_PATCH};
use http::Method;
use serde_json::{Value, json};

use crate::access;
use crate::support::{Api, portolan, wait_for};

const NAMESPACE: &str = "team";
const PODS: &str = "/api/v1/namespaces/team/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/team/deployments";

/// A cluster with the namespace `team` under these labels, and the client of its editor.
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

    /// Expects that a request of the editor is refused, in these words.
    async fn refuses(&self, method: Method, path: &str, content: &str, body: &Value, words: &str) {
        let answer = self.editor.request(method, path, content, Some(body)).await;
        let error = answer.expect_err("a refusal").to_string();
        assert!(error.contains(words), "{error}");
    }
}

async fn must(client: &Client, method: Method, path: &str, content: &str, body: &Value) -> Value {
    let answer = client.request(method, path, content, Some(body)).await;
    answer.unwrap_or_else(|error| panic!("{error}"))
}

/// A Pod that complies with `restricted`.
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

/// A Pod that takes the node over, one way each, and what baseline says of it.
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
async fn refuses_pods_that_take_the_node_over() {
    let cluster = Cluster::enforcing("baseline").await;
    for (pod, words) in escapes() {
        cluster.refuses(Method::POST, PODS, JSON, &pod, words).await;
        let path = format!("{PODS}/escape?fieldManager=e&force=true");
        cluster
            .refuses(Method::PATCH, &path, APPLY_PATCH, &pod, words)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_root_under_restricted() {
    let cluster = Cluster::enforcing("restricted").await;
    must(&cluster.editor, Method::POST, PODS, JSON, &compliant("fine")).await;
    let plain = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "image": "i"}]}});
    let words = "pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false \
                 (container \"a\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities \
                 (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or \
                 container \"a\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"a\" must \
                 set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    cluster.refuses(Method::POST, PODS, JSON, &plain, words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_changes_that_loosen_a_pod() {
    let cluster = Cluster::enforcing("restricted").await;
    let mut pod = must(&cluster.editor, Method::POST, PODS, JSON, &compliant("p")).await;
    let path = format!("{PODS}/p");
    let frozen = "pod updates may not change fields other than";
    let patch = json!({"spec": {"containers": [{"name": "a", "securityContext": {"privileged": true}}]}});
    for content in [STRATEGIC_PATCH, MERGE_PATCH] {
        cluster
            .refuses(Method::PATCH, &path, content, &patch, "spec")
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
    cluster.refuses(Method::PUT, &path, JSON, &pod, frozen).await;
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}});
    cluster
        .refuses(Method::PATCH, &path, STRATEGIC_PATCH, &debug, frozen)
        .await;
    let stored: Value = cluster.editor.get(&path).await.expect("the Pod");
    assert!(stored["spec"].get("hostNetwork").is_none(), "{stored}");
    let context = &stored["spec"]["containers"][0]["securityContext"];
    assert!(context.get("privileged").is_none(), "{stored}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_an_image_change_of_a_pod_that_violates_a_later_policy() {
    let cluster = Cluster::start(json!({})).await;
    let (pod, _) = escapes().remove(0);
    must(&cluster.editor, Method::POST, PODS, JSON, &pod).await;
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    let namespace = format!("/api/v1/namespaces/{NAMESPACE}");
    let body = Bytes::from(label.to_string());
    let answer = cluster
        .administrator
        .open(Method::PATCH, &namespace, MERGE_PATCH, body)
        .await
        .expect("a label");
    let warnings: Vec<&str> = answer
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
    let words = "violates PodSecurity \"baseline:latest\": privileged";
    cluster
        .refuses(Method::PATCH, &path, STRATEGIC_PATCH, &image, words)
        .await;
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    must(&cluster.editor, Method::PATCH, &path, MERGE_PATCH, &labels).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_pods_of_a_deployment_that_take_the_node_over() {
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
    let answer = cluster
        .editor
        .open(Method::POST, DEPLOYMENTS, JSON, body)
        .await
        .expect("a Deployment");
    let warning = answer
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
    wait_for("the refusal of a Pod", || failures().is_some());
    let message = failures().expect("an Event")["message"].to_string();
    assert!(message.contains("violates PodSecurity"), "{message}");
    let pods: Value = cluster.editor.get(PODS).await.expect("a list");
    assert_eq!(pods["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_labels_that_nobody_can_read() {
    let cluster = Cluster::enforcing("baseline").await;
    let namespace = format!("/api/v1/namespaces/{NAMESPACE}");
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "strict"}}});
    let answer = cluster
        .administrator
        .request(Method::PATCH, &namespace, MERGE_PATCH, Some(&label))
        .await;
    let error = answer.expect_err("a refusal").to_string();
    assert!(
        error.contains(
            "Namespace \"team\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \
             \"strict\": must be one of privileged, baseline, restricted"
        ),
        "{error}"
    );
}
