//! Attempts of an announcer, and of a user who may write the status of Services, to take addresses and votes of others.

use api::announcers::{ANNOTATION, Member, NAME, NodeName, Process, PublicKey, Record};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};

use crate::access;
use crate::support::Api;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const CONDITION: &str = "portolan.dev/AddressAssigned";

/// Returns the member entry of a node.
fn member(number: u8) -> Member {
    Member {
        address: ([192, 0, 2, number], 7947).into(),
        process: Some(Process {
            incarnation: u64::from(number),
            public_key: PublicKey([number; 32]),
        }),
    }
}

/// Registers two nodes as announcers. Returns the clients of the administrator and of the first announcer.
async fn two_members(api: &Api) -> (Client, Client) {
    let administrator = access::administrator(api);
    for name in ["one", "two"] {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        create(&administrator, "/api/v1/nodes", &node)
            .await
            .expect("a Node");
    }
    let user = "system:portolan-announcer:one";
    bind(&administrator, user, "system:portolan-announcer").await;
    let mut record = Record::founded_by("one".into(), member(1), "cluster".to_owned());
    record.members.insert("two".into(), member(2));
    create(&administrator, LEASES, &lease(&record))
        .await
        .expect("a Lease");
    let announcer = access::with_certificate(api, user, "system:portolan:announcers");
    (administrator, announcer)
}

/// Binds a ClusterRole to a user.
async fn bind(administrator: &Client, user: &str, role: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("attack-{role}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    create(administrator, path, &binding)
        .await
        .expect("a role binding");
}

fn lease(record: &Record) -> Value {
    let annotation = record.to_json().expect("a record in JSON");
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "kube-system", "name": NAME, "annotations": {ANNOTATION: annotation}},
        "spec": {},
    })
}

async fn create(client: &Client, path: &str, object: &Value) -> Result<Value, ClientError> {
    client.request(Method::POST, path, JSON, Some(object)).await
}

async fn patch(client: &Client, path: &str, body: &Value) -> Result<Value, ClientError> {
    client.request(Method::PATCH, path, MERGE_PATCH, Some(body)).await
}

/// Returns the stored record.
async fn stored(client: &Client) -> Record {
    let lease: Value = client
        .get(&format!("{LEASES}/{NAME}"))
        .await
        .expect("the Lease of the announcers");
    let text = lease["metadata"]["annotations"][ANNOTATION].as_str();
    Record::from_json(text.expect("an annotation with the record")).expect("a valid record")
}

/// Updates metadata of the Lease as the announcer.
async fn write(announcer: &Client, metadata: &Value) -> Result<Value, ClientError> {
    let path = format!("{LEASES}/{NAME}");
    let mut lease: Value = announcer.get(&path).await?;
    for (field, value) in metadata.as_object().expect("an object") {
        lease["metadata"][field] = value.clone();
    }
    announcer.request(Method::PUT, &path, JSON, Some(&lease)).await
}

/// Writes the record as the announcer.
async fn write_record(announcer: &Client, record: &Record) -> Result<Value, ClientError> {
    let annotations = json!({ANNOTATION: record.to_json().expect("a record in JSON")});
    write(announcer, &json!({ "annotations": annotations })).await
}

/// Writes a record as the announcer and returns the error message.
async fn refusal(announcer: &Client, record: &Record) -> String {
    let result = write_record(announcer, record).await;
    result.expect_err("a refusal").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn announcer_cannot_change_entries_of_other_members() {
    let api = Api::start();
    let (_administrator, announcer) = two_members(&api).await;
    let record = stored(&announcer).await;
    let two = NodeName::from("two");

    let changed = record.with(&two, member(9)).expect("a record");
    let error = refusal(&announcer, &changed).await;
    assert!(
        error.contains("cannot change the entry of node \"two\""),
        "{error}"
    );

    let removed = record.without(|name| *name == two).expect("a record");
    let error = refusal(&announcer, &removed).await;
    assert!(
        error.contains("cannot remove node \"two\": its Node exists"),
        "{error}"
    );

    let voted = record.with_tie_breaker(Some("two/0000000000000002"));
    let error = refusal(&announcer, &voted).await;
    assert!(error.contains("tie-breaker of another node"), "{error}");

    let own = record.with(&"one".into(), member(8)).expect("a record");
    write_record(&announcer, &own)
        .await
        .expect("an update of its own entry");
}

#[tokio::test(flavor = "multi_thread")]
async fn announcer_cannot_corrupt_or_delete_the_record() {
    let api = Api::start();
    let (_administrator, announcer) = two_members(&api).await;
    for metadata in [
        json!({"annotations": {ANNOTATION: "junk"}}),
        json!({"annotations": {}}),
        json!({"finalizers": ["attack.example/never"]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "ghost", "uid": "ghost"}]}),
    ] {
        let result = write(&announcer, &metadata).await;
        let error = result.expect_err("a refusal").to_string();
        assert!(error.contains("the announcer of node \"one\""), "{error}");
    }
    let mut record = stored(&announcer).await;
    record.epoch = u64::MAX;
    assert!(refusal(&announcer, &record).await.contains("invalid record"));
    let other = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "kube-system", "name": "portolan-balancer"}, "spec": {},
    });
    let error = create(&announcer, LEASES, &other)
        .await
        .expect_err("a refusal")
        .to_string();
    assert!(
        error.contains("can only write lease kube-system/portolan-announcer"),
        "{error}"
    );
}

/// The right to write the status of Services does not include the assigned addresses, which announcers announce.
#[tokio::test(flavor = "multi_thread")]
async fn service_status_writer_cannot_assign_addresses() {
    let api = Api::start();
    let administrator = access::administrator(&api);
    let user = "mallory";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "service-statuses"},
        "rules": [
            {"apiGroups": [""], "resources": ["services"], "verbs": ["create", "get", "update"]},
            {"apiGroups": [""], "resources": ["services/status"], "verbs": ["patch", "update"]},
        ],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    create(&administrator, path, &role).await.expect("a role");
    bind(&administrator, user, "service-statuses").await;
    let mallory = access::with_certificate(&api, user, "");

    let recorded = |ip: &str| {
        json!({
            "loadBalancer": {"ingress": [{"ip": ip}]},
            "conditions": [{"type": CONDITION, "status": "True", "reason": "Assigned", "message": "",
                            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        })
    };
    let services = "/api/v1/namespaces/default/services";
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}, "status": recorded("192.0.2.1"),
    });
    // The server drops the status of a new Service.
    let created = create(&mallory, services, &service).await.expect("a Service");
    assert_eq!(created["status"]["conditions"], Value::Null);
    let status = format!("{services}/a/status");
    let patch_status = |ip: &str| json!({ "status": recorded(ip) });
    let result = patch(&mallory, &status, &patch_status("192.0.2.1")).await;
    let error = result.expect_err("a refusal").to_string();
    assert!(error.contains("may not record assigned addresses"), "{error}");

    // The recorded address cannot be changed, also not by an update of the Service.
    let assigned = patch(&administrator, &status, &patch_status("192.0.2.2")).await;
    let mut assigned = assigned.expect("a status of the administrator");
    let result = patch(&mallory, &status, &patch_status("192.0.2.1")).await;
    let error = result.expect_err("a refusal").to_string();
    assert!(error.contains("may not record assigned addresses"), "{error}");
    assigned["status"] = recorded("192.0.2.1");
    let updated = mallory
        .request(Method::PUT, &format!("{services}/a"), JSON, Some(&assigned))
        .await
        .expect("an update of the Service");
    assert_eq!(updated["status"]["loadBalancer"]["ingress"][0]["ip"], "192.0.2.2");

    // The condition may be removed; without it announcers do not announce the address.
    let withdrawn = json!({"status": {"conditions": null}});
    patch(&mallory, &status, &withdrawn)
        .await
        .expect("a status without conditions");
}
