//! Server-side apply: creation, ownership, conflicts, and the status subresource.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Api, Reply};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(metadata: Value, ports: Value) -> Value {
    let mut object =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}});
    object["metadata"]["name"] = "s".into();
    object
}

async fn apply(api: &Api, query: &str, configuration: &Value) -> Reply {
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{SERVICES}/s?{query}");
    api.send(Method::PATCH, &path, &headers, configuration.to_string())
        .await
}

/// Returns the field managers and their operations, sorted by name.
fn managers(object: &Value) -> Vec<(&str, &str)> {
    let entries = object["metadata"]["managedFields"].as_array();
    let mut managers: Vec<(&str, &str)> = entries
        .into_iter()
        .flatten()
        .map(|entry| {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            (text("manager"), text("operation"))
        })
        .collect();
    managers.sort_unstable();
    managers
}

#[tokio::test]
async fn apply_creates_and_then_changes_only_differences() {
    let api = Api::start().await;
    let configuration = service(json!({"labels": {"a": "1"}}), json!([{"port": 80}]));
    let created = apply(&api, "fieldManager=me", &configuration).await;
    let object = created.expect(201);
    assert_eq!(managers(&object), [("me", "Apply")]);
    assert_eq!(object["spec"]["ports"][0]["targetPort"], 80);
    let repeated = apply(&api, "fieldManager=me", &configuration).await;
    assert_eq!(repeated.expect(200), object);

    let merge = [("content-type", "application/merge-patch+json")];
    let patch = json!({"metadata": {"labels": {"z": "9"}}}).to_string();
    let path = format!("{SERVICES}/s?fieldManager=editor");
    let patched = api.send(Method::PATCH, &path, &merge, patch).await.expect(200);
    assert_eq!(managers(&patched), [("editor", "Update"), ("me", "Apply")]);
    let other = service(json!({}), json!([{"port": 81, "name": "b"}]));
    let refused = apply(&api, "fieldManager=you", &other).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.ports[0].name");

    let object = apply(
        &api,
        "fieldManager=me",
        &service(json!({}), json!([{"port": 80}])),
    )
    .await
    .expect(200);
    assert_eq!(object["metadata"]["labels"], json!({"z": "9"}));
}

#[tokio::test]
async fn fields_of_other_managers_conflict_unless_forced() {
    let api = Api::start().await;
    let mine = service(json!({}), json!([{"port": 80, "targetPort": 1}]));
    api.post(&format!("{SERVICES}?fieldManager=kubectl-create"), &mine)
        .await
        .expect(201);
    let theirs = service(json!({}), json!([{"port": 80, "targetPort": 2}]));
    let refused = apply(&api, "fieldManager=you", &theirs).await.expect(409);
    assert_eq!(refused["reason"], "Conflict");
    assert_eq!(
        refused["details"]["causes"],
        json!([{
            "reason": "FieldManagerConflict",
            "message": "conflict with \"kubectl-create\" using v1",
            "field": ".spec.ports[port=80,protocol=\"TCP\"].targetPort",
        }])
    );
    let object = apply(&api, "fieldManager=you&force=true", &theirs)
        .await
        .expect(200);
    assert_eq!(object["spec"]["ports"][0]["targetPort"], 2);
    assert_eq!(
        managers(&object),
        [("kubectl-create", "Update"), ("you", "Apply")]
    );

    let mut reset = object.clone();
    reset["metadata"]["managedFields"] = json!([]);
    let object = api.put(&format!("{SERVICES}/s"), &reset).await.expect(200);
    assert!(managers(&object).is_empty(), "{object}");
    let refused = apply(&api, "fieldManager=you", &mine).await.expect(409);
    assert_eq!(
        refused["details"]["causes"][0]["message"],
        "conflict with \"before-first-apply\" using v1"
    );
}

#[tokio::test]
async fn writes_record_their_field_manager() {
    let api = Api::start().await;
    let path = format!("{SERVICES}/s");
    let agent = [
        ("content-type", "application/json"),
        ("user-agent", "portal/v1.2 (linux)"),
    ];
    let mut body = service(json!({}), json!([{"port": 80}]));
    body["spec"]["type"] = "LoadBalancer".into();
    let body = body.to_string();
    let created = api.send(Method::POST, SERVICES, &agent, body).await.expect(201);
    let record = &created["metadata"]["managedFields"][0];
    assert_eq!(record["manager"], "portal");
    // Defaults belong to the client's manager; allocated values belong to no manager.
    let spec = &record["fieldsV1"]["f:spec"];
    assert!(
        spec["f:sessionAffinity"].is_object() && spec["f:clusterIP"].is_null(),
        "{spec}"
    );
    let repeated = api.put(&path, &created).await.expect(200);
    assert_eq!(repeated, created);
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let patched = api
        .merge(&format!("{path}/status?fieldManager=lb"), &status)
        .await;
    let patched = patched.expect(200);
    let entries = patched["metadata"]["managedFields"].as_array().unwrap();
    let of_status = entries
        .iter()
        .find(|entry| entry["subresource"] == "status")
        .unwrap();
    assert_eq!(of_status["manager"], "lb");
}

#[tokio::test]
async fn rejects_invalid_apply_configurations() {
    let api = Api::start().await;
    let valid = service(json!({}), json!([{"port": 80}]));
    let without_manager = apply(&api, "", &valid).await.expect(422);
    assert_eq!(without_manager["details"]["causes"][0]["field"], "fieldManager");
    let with_managed_fields = service(json!({"managedFields": [{}]}), json!([]));
    apply(&api, "fieldManager=me", &with_managed_fields)
        .await
        .expect(400);
    let duplicate = service(json!({}), json!([{"port": 80}, {"port": 80}]));
    let untyped = apply(&api, "fieldManager=me", &duplicate).await.expect(500);
    assert_eq!(untyped.get("reason"), None);
    let with_uid = service(json!({"uid": "u"}), json!([{"port": 80}]));
    apply(&api, "fieldManager=me", &with_uid).await.expect(409);
    let dry_run = apply(&api, "fieldManager=me&dryRun=All", &valid).await;
    dry_run.expect(201);
    api.get(&format!("{SERVICES}/s")).await.expect(404);
}

#[tokio::test]
async fn status_is_applied_through_its_subresource() {
    let api = Api::start().await;
    let mut configuration = service(json!({}), json!([{"port": 80}]));
    let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{SERVICES}/s/status?fieldManager=balancer");
    let send = |body: &Value| api.send(Method::PATCH, &path, &headers, body.to_string());
    send(&configuration).await.expect(404);
    configuration["spec"]["type"] = "LoadBalancer".into();
    configuration["status"] = status.clone();
    let object = apply(&api, "fieldManager=me", &configuration).await.expect(201);
    assert_eq!(object["status"], json!({"loadBalancer": {}}));
    configuration["spec"]["ports"][0]["port"] = 81.into();
    let object = send(&configuration).await.expect(200);
    assert_eq!(object["spec"]["ports"][0]["port"], 80);
    assert_eq!(object["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.1");
    assert_eq!(object["spec"]["type"], "LoadBalancer");
    assert_eq!(managers(&object), [("balancer", "Apply"), ("me", "Apply")]);
}

/// The responses of kube-apiserver 1.36.2: defaults are set before the stored spec replaces the given one.
#[tokio::test]
async fn status_gets_the_defaults_of_the_given_type() {
    let api = Api::start().await;
    let mut object = service(json!({}), json!([{"port": 80}]));
    object["spec"]["type"] = "LoadBalancer".into();
    api.post(SERVICES, &object).await.expect(201);
    let path = format!("{SERVICES}/s/status");
    object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    for (given, code) in [("ClusterIP", 422), ("LoadBalancer", 200)] {
        object["spec"] = json!({ "type": given });
        let merge = [("content-type", "application/merge-patch+json")];
        let apply = [("content-type", "application/apply-patch+yaml")];
        for reply in [
            api.put(&path, &object).await,
            api.send(Method::PATCH, &path, &merge, object.to_string()).await,
            api.send(
                Method::PATCH,
                &format!("{path}?fieldManager=me&force=true"),
                &apply,
                object.to_string(),
            )
            .await,
        ] {
            let reply = reply.expect(code);
            if code == 422 {
                let field = "status.loadBalancer.ingress[0].ipMode";
                assert_eq!(reply["details"]["causes"][0]["field"], field);
            } else {
                assert_eq!(reply["status"]["loadBalancer"]["ingress"][0]["ipMode"], "VIP");
            }
        }
    }
    object["spec"] = json!({"type": "ClusterIP", "ports": [{"port": 80}]});
    api.put(&format!("{SERVICES}/s"), &object).await.expect(200);
    object["spec"] = json!({"type": "LoadBalancer"});
    let refused = api.put(&path, &object).await.expect(422);
    assert_eq!(
        refused["details"]["causes"][0]["field"],
        "status.loadBalancer.ingress"
    );
}
