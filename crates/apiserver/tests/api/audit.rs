//! The audit log: events by stage, also of refused requests, with the bodies that the policy selects.

use std::path::{Path, PathBuf};

use apiserver::{Access, AuditLogSettings, AuditMode, AuditPolicy, AuditSettings, BatchSettings};
use http::Method;
use serde_json::{Value, json};

use crate::harness::{Api, config_map, config_maps};

const POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitManagedFields: true\nrules:\n\
    - {level: None, nonResourceURLs: [/metrics]}\n\
    - {level: RequestResponse, resources: [{group: '', resources: [configmaps]}], omitStages: [RequestReceived]}\n\
    - {level: Metadata}\n";

/// Starts a server with the audit policy; returns it with the log's directory and path.
async fn start(mode: AuditMode) -> (Api, tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("audit.log");
    let api = Api::start_with(Access {
        audit: Some(AuditSettings {
            policy: AuditPolicy::read(POLICY).expect("a valid policy"),
            log: AuditLogSettings {
                path: Some(path.clone()),
                max_size_megabytes: 1,
                max_age_days: 0,
                max_backups: 1,
                compresses: false,
            },
            mode,
        }),
        ..Access::default()
    })
    .await;
    (api, directory, path)
}

/// Returns the events whose request URI has the prefix `uri`.
fn events(path: &Path, uri: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the audit log");
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("one JSON event per line"))
        .filter(|event| {
            event["requestURI"]
                .as_str()
                .is_some_and(|found| found.starts_with(uri))
        })
        .collect()
}

#[tokio::test]
async fn records_bodies_users_and_addresses() {
    let (api, _directory, path) = start(AuditMode::BlockingStrict).await;
    let reply = api.post(&config_maps(""), &config_map("a", json!({}))).await;
    reply.expect(201);
    let events = events(&path, &config_maps(""));
    let [event] = events.as_slice() else {
        panic!("{events:#?}")
    };
    assert_eq!(event["kind"], "Event");
    assert_eq!(event["apiVersion"], "audit.k8s.io/v1");
    assert_eq!(event["stage"], "ResponseComplete");
    assert_eq!(event["verb"], "create");
    assert_eq!(
        event["auditID"],
        reply.headers["audit-id"].to_str().expect("an audit ID")
    );
    assert_eq!(event["user"]["username"], "admin");
    assert_eq!(event["sourceIPs"], json!(["127.0.0.1"]));
    assert_eq!(event["objectRef"]["name"], "a");
    assert_eq!(event["objectRef"]["resource"], "configmaps");
    assert_eq!(event["responseStatus"], json!({"metadata": {}, "code": 201}));
    assert_eq!(event["requestObject"]["metadata"]["name"], "a");
    assert!(
        event["responseObject"]["metadata"]["uid"].is_string(),
        "{event:#}"
    );
    assert!(
        event["responseObject"]["metadata"].get("managedFields").is_none(),
        "{event:#}"
    );
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "allow");
    let time = event["stageTimestamp"].as_str().expect("a timestamp");
    assert_eq!(time.len(), "2026-01-31T10:20:30.123456Z".len(), "{time}");
}

#[tokio::test]
async fn records_refused_requests() {
    let (api, _directory, path) = start(AuditMode::Blocking).await;
    let wrong = [("authorization", "Bearer wrong")];
    api.send(Method::GET, "/api/v1/secrets?a", &wrong, "")
        .await
        .expect(401);
    let unauthenticated = events(&path, "/api/v1/secrets?a");
    let [event] = unauthenticated.as_slice() else {
        panic!("{unauthenticated:#?}")
    };
    assert_eq!(event["stage"], "ResponseStarted");
    assert_eq!(event["user"], json!({}));
    assert_eq!(event["responseStatus"]["code"], 401);
    assert_eq!(
        event["responseStatus"]["message"],
        "Authentication failed, attempted: bearer"
    );

    let as_ann = [("impersonate-user", "ann")];
    api.send(Method::GET, "/api/v1/secrets?b", &as_ann, "")
        .await
        .expect(403);
    let events = events(&path, "/api/v1/secrets?b");
    let stages: Vec<&Value> = events.iter().map(|event| &event["stage"]).collect();
    assert_eq!(stages, ["RequestReceived", "ResponseComplete"]);
    assert_eq!(events[1]["user"]["username"], "admin");
    assert_eq!(events[1]["impersonatedUser"]["username"], "ann");
    assert_eq!(
        events[1]["annotations"]["authorization.k8s.io/decision"],
        "forbid"
    );
    assert_eq!(events[1]["responseStatus"]["reason"], "Forbidden");
    assert!(events[1].get("responseObject").is_none());
}

#[tokio::test]
async fn records_start_and_end_of_a_watch() {
    let (api, _directory, path) = start(AuditMode::Batch(BatchSettings::default())).await;
    let uri = format!("{}?watch=true&timeoutSeconds=1", config_maps(""));
    let mut lines = api.watch(&uri).await;
    while lines.next().await.is_some() {}
    drop(lines);
    let _directory_of_server = api.stop().await;
    let deadline = std::time::Instant::now() + crate::harness::TIMEOUT;
    while events(&path, &uri).len() < 2 && std::time::Instant::now() < deadline {
        tokio::task::yield_now().await;
    }
    let events = events(&path, &uri);
    let stages: Vec<&Value> = events.iter().map(|event| &event["stage"]).collect();
    assert_eq!(stages, ["ResponseStarted", "ResponseComplete"]);
    assert!(events.iter().all(|event| event["verb"] == "watch"));
}

#[tokio::test]
async fn annotates_violations_of_pod_security() {
    let (api, _directory, path) = start(AuditMode::Blocking).await;
    let labels = json!({"pod-security.kubernetes.io/audit": "baseline"});
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}});
    api.post("/api/v1/namespaces", &namespace).await.expect(201);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "a", "image": "i", "securityContext": {"privileged": true}}]}});
    let pods = "/api/v1/namespaces/team/pods";
    api.post(pods, &pod).await.expect(201);
    let events = events(&path, pods);
    let annotations = &events.last().expect("an audit event")["annotations"];
    assert_eq!(
        annotations["pod-security.kubernetes.io/enforce-policy"],
        "privileged:latest"
    );
    assert_eq!(
        annotations["pod-security.kubernetes.io/audit-violations"],
        "would violate PodSecurity \"baseline:latest\": privileged (container \"a\" must not set \
         securityContext.privileged=true)"
    );
}

#[tokio::test]
async fn counts_audit_events_by_level() {
    let (api, _directory, _path) = start(AuditMode::Blocking).await;
    api.get(&config_maps("")).await.expect(200);
    let metrics = api.get("/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).expect("UTF-8 text");
    for line in [
        "apiserver_audit_event_total 1",
        "apiserver_audit_error_total{plugin=\"log\"} 0",
        "apiserver_audit_level_total{level=\"None\"} 1",
        "apiserver_audit_level_total{level=\"RequestResponse\"} 1",
        "apiserver_audit_requests_rejected_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing");
    }
}
