//! `portolan store`: a cluster moves from the embedded store to etcd and back by a snapshot.

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
        .expect("the binary under test starts")
}

/// What a command says that ends well.
fn done(arguments: &[&str]) -> String {
    let output = store(arguments);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The line that a command ends with that does not.
fn refused(arguments: &[&str]) -> String {
    let output = store(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.starts_with("portolan: "),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// Creates a Service of each kind of allocation.
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

/// All Services, without their revisions, and the largest of these and of the list.
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
fn a_cluster_moves_to_etcd_and_comes_back_from_a_snapshot() {
    let Some((etcd, _directory)) = etcd("a_cluster_moves_to_etcd") else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client_of = |api: &Api| {
        Client::new(Config::from_kubeconfig(&api.kubeconfig()).expect("a kubeconfig")).expect("a client")
    };
    let mut embedded = Api::start();
    let (before, seen) = runtime.block_on(async {
        let client = client_of(&embedded);
        create(&client, "embedded").await;
        services(&client).await
    });
    embedded.kill();
    let data = embedded.directory.path().join("data");
    let data = data.to_str().expect("a path");
    done(&["copy", "--from", data, "--to", &etcd.url()]);
    let said = refused(&["copy", "--from", data, "--to", &etcd.url()]);
    assert!(
        said.contains("not empty") && said.contains("--overwrite"),
        "{said}"
    );

    let shared = Api::start_on_etcd(&etcd);
    let (moved, since) = runtime.block_on(async {
        let client = client_of(&shared);
        let (moved, revision) = services(&client).await;
        assert_eq!(moved, before);
        assert!(revision > seen, "{revision} after {seen}");
        create(&client, "shared").await;
        services(&client).await
    });
    let snapshot = shared.directory.path().join("snapshot.db");
    let snapshot_path = snapshot.to_str().expect("a path");
    done(&["snapshot", "--from", &etcd.url(), "--to", snapshot_path]);
    for place in [snapshot_path, &etcd.url(), data] {
        assert!(done(&["verify", place]).contains("no damage"), "{place}");
    }

    done(&["restore", "--from", snapshot_path, "--to", data, "--overwrite"]);
    embedded.run();
    runtime.block_on(async {
        let client = client_of(&embedded);
        let (restored, revision) = services(&client).await;
        assert_eq!(restored, moved);
        assert!(revision > since, "{revision} after {since}");
        create(&client, "again").await;
    });
    let said = refused(&["restore", "--from", snapshot_path, "--to", data, "--overwrite"]);
    assert!(said.contains("in use"), "{said}");
    contradictions_are_found(&snapshot);
}

/// A record that is missing is told, with exit code 1.
fn contradictions_are_found(snapshot: &Path) {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().to_str().expect("a path");
    done(&[
        "restore",
        "--from",
        snapshot.to_str().expect("a path"),
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
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("is recorded as free") && said.contains("1 findings"),
        "{said}"
    );
}

#[test]
fn places_that_cannot_be_used_are_said_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a path");
    assert!(refused(&["verify", "/nowhere/at/all"]).contains("nothing at /nowhere"));
    assert!(refused(&["snapshot", "--from", path, "--to", path]).contains("is a file"));
    assert!(refused(&["restore", "--from", path, "--to", path]).contains("snapshot"));
    let prefix = [
        "copy",
        "--from",
        path,
        "--to",
        "http://127.0.0.1:1",
        "--etcd-prefix=portolan",
    ];
    assert!(refused(&prefix).contains("slash"));
}
