use serde_json::{Value, json};
use store::{SqliteOptions, SqliteStore, Store, Transaction, Write};

use super::*;

const HOUR: i64 = 3_600;
const YEAR: i64 = 365 * 24 * HOUR;
const NOW: i64 = 1_800_000_000;

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn identity(user: &str, group: &str, signed_at_seconds: i64, is_issued_by_administrator: bool) -> Identity {
    Identity {
        user: user.to_owned(),
        groups: vec![group.to_owned()],
        certificate: Some(ClientCertificate {
            signed_at_seconds,
            expires_at_seconds: NOW + YEAR,
            is_issued_by_administrator,
            incarnation: None,
        }),
        ..Identity::default()
    }
}

fn store(directory: &std::path::Path) -> SqliteStore {
    SqliteStore::open(directory.join("store"), SqliteOptions::default()).unwrap()
}

async fn put_node(store: &SqliteStore, annotations: Value) {
    put(
        store,
        &json!({"name": "n1", "uid": "u1", "annotations": annotations}),
    )
    .await;
}

async fn put(store: &SqliteStore, metadata: &Value) {
    let node = json!({"metadata": metadata});
    let value = store::Value {
        bytes: serde_json::to_vec(&node).unwrap().into(),
        revision_at: None,
    };
    let key = kind::find("", "v1", "nodes").unwrap().store_key("", "n1");
    let transaction = Transaction {
        expectations: Vec::new(),
        writes: vec![Write::Put(key.into(), value)],
    };
    store.commit(transaction).await.unwrap();
}

#[tokio::test]
async fn certificates_are_invalid_without_their_node() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let check = |identity: &Identity, now: i64| check(identity, store.index(), time(now));
    let agent = identity("system:node:n1", "system:nodes", NOW, false);
    let edge = identity("system:portolan-edge:n1", "system:portolan:edges", NOW, false);
    let by_administrator = identity("system:node:n1", "system:nodes", NOW, true);
    let person = identity("ann", "ops", NOW, false);
    for rejected in [&agent, &edge] {
        assert!(matches!(check(rejected, NOW), Err(Rejection::NoNode(_))));
    }
    check(&by_administrator, NOW + HOUR).unwrap();
    assert!(check(&by_administrator, NOW + HOUR + 1).is_err());
    check(&person, NOW).unwrap();
    put_node(&store, json!({})).await;
    for accepted in [&agent, &edge, &by_administrator] {
        check(accepted, NOW + 24 * HOUR).unwrap();
    }
}

#[tokio::test]
async fn certificates_are_invalid_while_the_collector_removes_their_node() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let agent = identity("system:node:n1", "system:nodes", NOW, false);
    let mut metadata = json!({"name": "n1", "uid": "u1", "finalizers": ["foregroundDeletion"]});
    put(&store, &metadata).await;
    check(&agent, store.index(), time(NOW)).unwrap();
    metadata["deletionTimestamp"] = json!(time(NOW).to_string());
    put(&store, &metadata).await;
    let checked = check(&agent, store.index(), time(NOW));
    assert!(matches!(checked, Err(Rejection::NoNode(_))));
    // A controller drains the Node, which needs the agent.
    metadata["finalizers"] = json!(["foregroundDeletion", "example.com/drain"]);
    put(&store, &metadata).await;
    check(&agent, store.index(), time(NOW)).unwrap();
}

#[tokio::test]
async fn certificates_from_before_a_join_stay_invalid() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    put_node(&store, json!({CERTIFICATES_SINCE: time(NOW).to_string()})).await;
    let check = |at, by_administrator| {
        let identity = identity("system:node:n1", "system:nodes", at, by_administrator);
        check(&identity, store.index(), time(NOW + HOUR))
    };
    check(NOW, false).unwrap();
    check(NOW + HOUR, false).unwrap();
    for by_administrator in [false, true] {
        assert!(matches!(
            check(NOW - HOUR, by_administrator),
            Err(Rejection::TooOld { .. })
        ));
    }
    put_node(&store, json!({CERTIFICATES_SINCE: "some day"})).await;
    assert!(check(NOW, false).is_err());
}

#[tokio::test]
async fn certificates_are_invalid_after_their_expiration() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    put_node(&store, json!({})).await;
    let agent = identity("system:node:n1", "system:nodes", NOW, false);
    let person = identity("ann", "ops", NOW, false);
    for holder in [&agent, &person] {
        check(holder, store.index(), time(NOW + YEAR)).unwrap();
        let result = check(holder, store.index(), time(NOW + YEAR + 1));
        assert!(matches!(result, Err(Rejection::Expired)));
    }
}

#[tokio::test]
async fn certificates_of_earlier_incarnations_are_invalid_in_the_same_second() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let with_incarnation = |uid: &str, joined_by: &str| {
        let mut holder = identity("system:node:n1", "system:nodes", NOW, false);
        let certificate = holder.certificate.as_mut().unwrap();
        certificate.incarnation = Some(Incarnation::new(uid, joined_by));
        check(&holder, store.index(), time(NOW))
    };
    let without_incarnation = |is_issued_by_administrator, at| {
        let holder = identity("system:node:n1", "system:nodes", at, is_issued_by_administrator);
        check(&holder, store.index(), time(NOW))
    };
    // The node joined with an earlier version and has renewed its certificate since.
    put_node(&store, json!({})).await;
    with_incarnation("u1", "").unwrap();
    without_incarnation(false, NOW).unwrap();
    for (uid, joined_by) in [("u0", ""), ("u1", "r1")] {
        assert!(matches!(
            with_incarnation(uid, joined_by),
            Err(Rejection::OtherIncarnation(_))
        ));
    }
    // Another node joins under the name.
    let since = time(NOW).to_string();
    put_node(&store, json!({CERTIFICATES_SINCE: since, INCARNATION: "r1"})).await;
    with_incarnation("u1", "r1").unwrap();
    for (uid, joined_by) in [("u0", "r1"), ("u1", ""), ("u1", "r0")] {
        assert!(matches!(
            with_incarnation(uid, joined_by),
            Err(Rejection::OtherIncarnation(_))
        ));
    }
    assert!(matches!(
        without_incarnation(false, NOW),
        Err(Rejection::OtherIncarnation(_))
    ));
    without_incarnation(true, NOW).unwrap();
    assert!(matches!(
        without_incarnation(true, NOW - 1),
        Err(Rejection::TooOld { .. })
    ));
}
