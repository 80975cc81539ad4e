//! Request limits and external IPs.

use apiserver::{Access, AdmissionPlugin, RequestLimits};
use http::Method;
use serde_json::{Value, json};

use crate::harness::{ANN_TOKEN, Api, config_maps};

/// Returns the request counters of `/metrics` with this status code.
async fn counted(api: &Api, code: u16) -> Vec<String> {
    let metrics = api.get("/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    let code = format!("code=\"{code}\"");
    text.lines()
        .filter(|line| line.starts_with("apiserver_request_total{") && line.contains(&code))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn throttled_requests_get_retry_after() {
    let api = Api::start_with(Access {
        request_limits: RequestLimits {
            per_user_per_second: 1,
            ..RequestLimits::default()
        },
        ..Access::default()
    })
    .await;
    let mut codes = Vec::new();
    let token = format!("Bearer {ANN_TOKEN}");
    let as_ann = [("authorization", token.as_str())];
    for _ in 0..20 {
        let reply = api.send(Method::GET, &config_maps(""), &as_ann, "").await;
        codes.push(reply.code.as_u16());
        if reply.code == 429 {
            assert_eq!(reply.headers["retry-after"], "1");
            let status = reply.json();
            assert_eq!(status["reason"], "TooManyRequests");
            assert_eq!(status["details"]["retryAfterSeconds"], 1);
        }
    }
    // The first requests pass the limit and are forbidden; later ones are throttled.
    assert_eq!(codes[0], 403, "{codes:?}");
    assert!(codes.contains(&429), "{codes:?}");
    // Other users are not throttled.
    api.get(&config_maps("")).await.expect(200);
    for code in [403, 429] {
        let lines = counted(&api, code).await;
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].contains("resource=\"configmaps\"") && lines[0].contains("verb=\"LIST\""),
            "{lines:?}"
        );
    }
}

#[tokio::test]
async fn impersonation_does_not_evade_limits() {
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";
    let api = Api::start_with(Access {
        request_limits: RequestLimits {
            per_user_per_second: 1,
            ..RequestLimits::default()
        },
        ..Access::default()
    })
    .await;
    let rule = json!({"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]});
    let role = json!({"metadata": {"name": "r"}, "rules": [rule]});
    api.post(&format!("{ROLES}/clusterroles"), &role)
        .await
        .expect(201);
    let binding = json!({"metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "User", "name": "ann"}]});
    api.post(&format!("{ROLES}/clusterrolebindings"), &binding)
        .await
        .expect(201);
    let token = format!("Bearer {ANN_TOKEN}");
    let mut codes = Vec::new();
    for number in 0..20 {
        let user = format!("system:serviceaccount:default:robot-{number}");
        let headers = [
            ("authorization", token.as_str()),
            ("impersonate-user", user.as_str()),
        ];
        let reply = api.send(Method::GET, &config_maps(""), &headers, "").await;
        codes.push(reply.code.as_u16());
    }
    assert!(codes.contains(&429), "{codes:?}");
}

#[tokio::test]
async fn requests_without_an_identity_are_counted() {
    let api = Api::start().await;
    let wrong = [("authorization", "Bearer wrong")];
    let reply = api.send(Method::POST, &config_maps(""), &wrong, "{}").await;
    assert_eq!(reply.code, 401);
    let lines = counted(&api, 401).await;
    assert!(
        lines.len() == 1 && lines[0].contains("verb=\"POST\"") && lines[0].ends_with(" 1"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn external_ips_can_be_denied() {
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let mut access = Access::default();
    let service = |addresses: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
               "spec": {"ports": [{"port": 80}], "externalIPs": addresses}})
    };
    // Existing external IPs stay.
    let api = Api::start().await;
    api.post(SERVICES, &service(json!(["192.0.2.1", "192.0.2.2"])))
        .await
        .expect(201);
    access
        .admission_plugins
        .insert(AdmissionPlugin::DenyServiceExternalIps);
    let api = Api::restart_with(api, access).await;
    let path = format!("{SERVICES}/s");
    api.merge(&path, &json!({"spec": {"externalIPs": ["192.0.2.2"]}}))
        .await
        .expect(200);
    let refused = api
        .merge(
            &path,
            &json!({"spec": {"externalIPs": ["192.0.2.2", "192.0.2.3"]}}),
        )
        .await
        .expect(403);
    assert_eq!(
        refused["message"],
        "services \"s\" is forbidden: Use of external IPs is denied by admission control"
    );
    api.delete(&path).await.expect(200);
    api.post(SERVICES, &service(json!(["192.0.2.1"])))
        .await
        .expect(403);
    api.post(SERVICES, &service(json!([]))).await.expect(201);
}

#[tokio::test]
async fn rejects_bodies_with_too_many_values() {
    let api = Api::start().await;
    api.post(&config_maps(""), &json!({"metadata": {"name": "a"}}))
        .await
        .expect(201);
    let values = format!("[{}0]", "{},".repeat(api::decode::VALUES_MAX));
    let patch = format!(r#"{{"data":{values}}}"#);
    let config_map = format!(r#"{{"metadata":{{"name":"b","finalizers":{values}}}}}"#);
    let apply = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","data":{values}}}"#);
    let owned = format!("{}?fieldManager=me&force=true", config_maps("a"));
    for (method, path, media_type, body) in [
        (
            Method::PATCH,
            config_maps("a"),
            "application/merge-patch+json",
            patch.clone(),
        ),
        (
            Method::PATCH,
            config_maps("a"),
            "application/strategic-merge-patch+json",
            patch,
        ),
        (
            Method::PATCH,
            config_maps("a"),
            "application/json-patch+json",
            values,
        ),
        (Method::PATCH, owned, "application/apply-patch+yaml", apply),
    ] {
        let headers = [("content-type", media_type)];
        let refused = api.send(method, &path, &headers, body).await.expect(413);
        assert_eq!(refused["reason"], "RequestEntityTooLarge", "{media_type}");
    }
    let headers = [("content-type", "application/json")];
    let created = api
        .send(Method::POST, &config_maps(""), &headers, config_map)
        .await;
    // Numbers are invalid finalizers, and the first one is reported before the limit is reached.
    assert_eq!(created.code, 400);
}
