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
async fn cuts_what_lasts_of_a_removed_node_alone() {
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

    let cuts = [&agent, &edge, &other].map(Registered::cut);
    let happened = |cuts: &[Cut]| -> Vec<bool> {
        let now = cuts
            .iter()
            .map(|cut| cut.clone().happened().now_or_never().is_some());
        now.collect()
    };
    let now = Timestamp::now();
    all.cut_all(store.index(), now);
    assert_eq!(happened(&cuts), [false, false, false]);
    let key = nodes.store_key("", "a").into();
    write(&store, Write::Delete { key, last: None }).await;
    all.cut_of("a", store.index(), now);
    assert_eq!(happened(&cuts), [true, true, false]);
    drop((agent, edge, other));
    assert!(all.lock().is_empty());
}
