//! `portolan store`: copy from SQLite to etcd, and restore from a snapshot.

mod support;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use client::{Client, Config, JSON};
use http::Method;
use serde_json::{Value, json};
use support::{Api, etcd};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn store(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_portolan"))
        .arg("store")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary under test")
}

/// Runs a command that must succeed, and returns its standard output.
fn succeed(arguments: &[&str]) -> String {
    let output = store(arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command that must fail, and returns the only line of its standard error.
fn error_line(arguments: &[&str]) -> String {
    let output = store(arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && error.starts_with("portolan: "),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

/// Creates Services with cluster IPs of both families and node ports.
async fn create(client: &Client, prefix: &str) {
    for number in 0..5 {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("{prefix}-{number}")},
            "spec": {"type": "NodePort", "ipFamilyPolicy": "PreferDualStack", "ports": [{"port": 80}]},
        });
        let created = client.request(Method::POST, SERVICES, JSON, Some(&service)).await;
        created.expect("a Service");
    }
}

/// Returns all Services without resourceVersions, and the largest resourceVersion.
async fn services(client: &Client) -> (Vec<Value>, u64) {
    let mut list: Value = client.get(SERVICES).await.expect("a list");
    let revision = |metadata: &mut Value| -> u64 {
        let revision = metadata["resourceVersion"].take();
        revision
            .as_str()
            .and_then(|text| text.parse().ok())
            .expect("a revision")
    };
    let mut newest = revision(&mut list["metadata"]);
    let mut items = list["items"].as_array().expect("items").clone();
    for item in &mut items {
        newest = newest.max(revision(&mut item["metadata"]));
    }
    (items, newest)
}

#[test]
fn cluster_moves_to_etcd_and_back_by_a_snapshot() {
    let Some((etcd, _directory)) = etcd("cluster_moves_to_etcd_and_back_by_a_snapshot") else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client_of = |api: &Api| {
        Client::new(Config::from_kubeconfig(&api.kubeconfig()).expect("a kubeconfig")).expect("a client")
    };
    let mut embedded = Api::start();
    let (before, revision_before) = runtime.block_on(async {
        let client = client_of(&embedded);
        create(&client, "embedded").await;
        services(&client).await
    });
    embedded.kill();
    let data = embedded.directory.path().join("data");
    let data = data.to_str().expect("a path in UTF-8");
    succeed(&["copy", "--from", data, "--to", &etcd.url()]);
    let error = error_line(&["copy", "--from", data, "--to", &etcd.url()]);
    assert!(
        error.contains("not empty") && error.contains("--overwrite"),
        "{error}"
    );

    let shared = Api::start_on_etcd(&etcd);
    let (moved, revision_moved) = runtime.block_on(async {
        let client = client_of(&shared);
        let (moved, revision) = services(&client).await;
        assert_eq!(moved, before);
        assert!(revision > revision_before, "{revision} after {revision_before}");
        create(&client, "shared").await;
        services(&client).await
    });
    let snapshot = shared.directory.path().join("snapshot.db");
    let snapshot_path = snapshot.to_str().expect("a path in UTF-8");
    succeed(&["snapshot", "--from", &etcd.url(), "--to", snapshot_path]);
    for location in [snapshot_path, &etcd.url(), data] {
        assert!(succeed(&["verify", location]).contains("no damage"), "{location}");
    }

    succeed(&["restore", "--from", snapshot_path, "--to", data, "--overwrite"]);
    embedded.run();
    runtime.block_on(async {
        let client = client_of(&embedded);
        let (restored, revision) = services(&client).await;
        assert_eq!(restored, moved);
        assert!(revision > revision_moved, "{revision} after {revision_moved}");
        create(&client, "again").await;
    });
    let error = error_line(&["restore", "--from", snapshot_path, "--to", data, "--overwrite"]);
    assert!(error.contains("in use"), "{error}");
    verify_finds_a_deleted_record(&snapshot);
}

/// Checks that `store verify` reports a missing record, with exit code 1.
fn verify_finds_a_deleted_record(snapshot: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().to_str().expect("a path in UTF-8");
    succeed(&[
        "restore",
        "--from",
        snapshot.to_str().expect("a path in UTF-8"),
        "--to",
        data,
    ]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let options = store::SqliteOptions::default();
    let opened = store::SqliteStore::open(directory.path().join("store"), options).expect("a store");
    runtime.block_on(async {
        use store::Store as _;
        let records = opened
            .index()
            .list("/nodeports/", None, None, None)
            .expect("a list")
            .entries;
        let key = records.first().expect("a record").key.clone();
        let writes = vec![store::Write::Delete { key, last: None }];
        let transaction = store::Transaction {
            expectations: Vec::new(),
            writes,
        };
        opened.commit(transaction).await.expect("a commit");
    });
    drop(opened);
    let output = store(&["verify", data]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("is recorded as free") && text.contains("1 findings"),
        "{text}"
    );
}

#[test]
fn invalid_locations_are_reported_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a path in UTF-8");
    assert!(error_line(&["verify", "/nowhere/at/all"]).contains("nothing at /nowhere"));
    assert!(error_line(&["snapshot", "--from", path, "--to", path]).contains("is a file"));
    assert!(error_line(&["restore", "--from", path, "--to", path]).contains("snapshot"));
    let prefix = [
        "copy",
        "--from",
        path,
        "--to",
        "http://127.0.0.1:1",
        "--etcd-prefix=portolan",
    ];
    assert!(error_line(&prefix).contains("slash"));
}
