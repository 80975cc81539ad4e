use futures_util::FutureExt as _;
use serde_json::json;
use store::{SqliteOptions, SqliteStore, Store, Transaction, Write};

use super::*;

fn identity(user: &str, group: &str) -> Arc<Identity> {
    let certificate = node_certificates::ClientCertificate::at(Timestamp::now().as_second());
    Arc::new(Identity {
        user: user.to_owned(),
        groups: vec![group.to_owned()],
        certificate: Some(certificate),
        ..Identity::default()
    })
}

async fn write(store: &SqliteStore, write: Write) {
    let transaction = Transaction {
        expectations: Vec::new(),
        writes: vec![write],
    };
    store.commit(transaction).await.unwrap();
}

#[tokio::test]
async fn revokes_certificates_of_the_removed_node_only() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store"), SqliteOptions::default()).unwrap();
    let nodes = kind::find("", "v1", "nodes").unwrap();
    for name in ["a", "b"] {
        let value = store::Value {
            bytes: json!({"metadata": {"name": name}}).to_string().into(),
            revision_at: None,
        };
        write(&store, Write::Put(nodes.store_key("", name).into(), value)).await;
    }
    let all = Arc::<NodeConnections>::default();
    let register = |user: &str, group: &str| all.register(&identity(user, group)).unwrap();
    let agent = register("system:node:a", "system:nodes");
    let edge = register("system:portolan-edge:a", "system:portolan:edges");
    let other = register("system:node:b", "system:nodes");
    assert!(all.register(&identity("ann", "ops")).is_none());

    let revocations = [&agent, &edge, &other].map(Registration::revocation);
    let revoked = |revocations: &[Revocation]| -> Vec<bool> {
        let received = revocations.iter();
        let received = received.map(|revocation| revocation.clone().received().now_or_never().is_some());
        received.collect()
    };
    let now = Timestamp::now();
    all.revoke_all(store.index(), now);
    assert_eq!(revoked(&revocations), [false, false, false]);
    let key = nodes.store_key("", "a").into();
    write(&store, Write::Delete { key, last: None }).await;
    all.revoke_node("a", store.index(), now);
    assert_eq!(revoked(&revocations), [true, true, false]);
    drop((agent, edge, other));
    assert!(all.lock().is_empty());
}
