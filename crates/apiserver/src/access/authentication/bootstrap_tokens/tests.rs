use api::bootstrap_token::{Description, JOINING_GROUP, secret};
use store::{SqliteOptions, SqliteStore, Transaction, Write};

use super::*;

#[tokio::test]
async fn token_is_valid_until_its_expiration() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("store"), SqliteOptions::default()).unwrap();
    let token: Token = "abcdef.0123456789abcdef".parse().unwrap();
    let description = Description {
        expiration: Some("2026-01-01T01:00:00Z".to_owned()),
        groups: vec![JOINING_GROUP.to_owned()],
        ..Description::default()
    };
    let mut object = secret(&token, &description);
    api::configuration::default_secret_on_write(&mut object);
    let kind = kind::find("", "v1", "secrets").unwrap();
    let value = store::Value {
        bytes: serde_json::to_vec(&object).unwrap().into(),
        revision_at: None,
    };
    let key = kind.store_key(NAMESPACE, &token.secret_name());
    let transaction = Transaction {
        expectations: Vec::new(),
        writes: vec![Write::Put(key.into(), value)],
    };
    store.commit(transaction).await.unwrap();
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let before_expiration = at("2026-01-01T00:59:59Z");
    let identity = identify(&store, &token, before_expiration).unwrap();
    assert_eq!(identity.user, "system:bootstrap:abcdef");
    assert_eq!(identity.groups, [GROUP, JOINING_GROUP, AUTHENTICATED]);
    let other = |text: &str| text.parse::<Token>().unwrap();
    let refused = |token: &Token, now| identify(&store, token, now).unwrap_err();
    let id = || "abcdef".to_owned();
    assert_eq!(
        refused(&token, at("2026-01-01T01:00:00Z")),
        Rejection::Expired(id())
    );
    assert_eq!(
        refused(&other("abcdef.0123456789abcdeg"), before_expiration),
        Rejection::Wrong(id())
    );
    let unknown = Rejection::Unknown("xbcdef".to_owned());
    assert_eq!(
        refused(&other("xbcdef.0123456789abcdef"), before_expiration),
        unknown
    );
}
