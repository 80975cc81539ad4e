use std::collections::BTreeSet;

use serde_json::json;
use store::{SqliteOptions, SqliteStore, Store, Transaction, Write};

use super::*;
use crate::access::authorization::{AuthorizationMode, Authorizer};
use crate::registry::admission::{Admission, AdmissionConfiguration};
use crate::registry::service::{AllocatorSettings, Allocators};
use crate::shutdown::Shutdown;

fn resources(directory: &std::path::Path) -> Resources {
    let store = SqliteStore::open(directory, SqliteOptions::default()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let settings = AllocatorSettings {
        cluster_ip_ranges: vec!["10.96.0.0/16".parse().unwrap()],
        node_port_range: 30_000..=32_767,
    };
    let authorizer = Authorizer::new(vec![AuthorizationMode::AlwaysDeny], store.clone());
    Resources {
        services: Allocators::new(store.index(), settings).unwrap(),
        store,
        admission: Admission::new(
            BTreeSet::new(),
            Arc::new(authorizer),
            AdmissionConfiguration::default(),
        ),
        ca_certificate: String::new(),
        shutdown: Shutdown::channel().1,
        encoded_events: Arc::default(),
        frames: Arc::default(),
        watch_counts: Arc::default(),
        rewrites: crate::verbs::resource::RewriteRates::default(),
        encryption: None,
    }
}

#[tokio::test]
async fn finalizers_do_not_keep_events() {
    let directory = tempfile::tempdir().unwrap();
    let resources = resources(directory.path());
    let kind = kind::find("", "v1", "events").unwrap();
    let put = |name: &str, created: &str| {
        let metadata = json!({
            "name": name, "namespace": "default", "creationTimestamp": created, "finalizers": ["example.com/f"],
        });
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": metadata});
        let value = store::Value {
            bytes: event.to_string().into(),
            revision_at: None,
        };
        Write::Put(kind.store_key("default", name).into(), value)
    };
    let transaction = Transaction {
        expectations: Vec::new(),
        writes: vec![
            put("new", "2026-01-01T11:30:00Z"),
            put("old", "2026-01-01T10:00:00Z"),
        ],
    };
    resources.store.commit(transaction).await.unwrap();
    let now = "2026-01-01T12:00:00Z".parse().unwrap();
    remove_expired(&resources, kind, now).await.unwrap();
    let exists = |name: &str| {
        resources
            .store
            .index()
            .get(&kind.store_key("default", name))
            .is_some()
    };
    assert!(exists("new") && !exists("old"));
}

#[test]
fn events_expire_after_their_last_occurrence() {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let single = br#"{"metadata":{"creationTimestamp":"2026-01-01T10:00:00Z"}}"#;
    assert!(is_expired(single, now));
    let repeated = br#"{"metadata":{"creationTimestamp":"2026-01-01T10:00:00Z"},"lastTimestamp":"2026-01-01T11:30:00Z"}"#;
    assert!(!is_expired(repeated, now));
    assert!(is_expired(b"{}", now));
}

#[test]
fn times_far_in_the_future_do_not_keep_events() {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    for field in ["lastTimestamp", "eventTime"] {
        let event = |time: &str| {
            format!(r#"{{"metadata":{{"creationTimestamp":"2026-01-01T10:00:00Z"}},"{field}":"{time}"}}"#)
        };
        assert!(is_expired(event("9999-01-01T00:00:00Z").as_bytes(), now));
        assert!(!is_expired(event("2026-01-01T12:05:00Z").as_bytes(), now));
    }
}
