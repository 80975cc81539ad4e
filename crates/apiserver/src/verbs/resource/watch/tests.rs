use api::kind::find;
use serde_json::json;
use store::{SqliteOptions, SqliteStore, Store, Transaction, Write};

use super::*;
use crate::request::query::Query;

/// Returns the stream name of a watch on all ServiceExports.
fn name(version: &str, labels: &str, fields: &str) -> String {
    let kind = find("multicluster.x-k8s.io", version, "serviceexports").unwrap();
    let options = ListOptions {
        label_selector: labels.to_owned(),
        field_selector: fields.to_owned(),
        ..ListOptions::default()
    };
    let prefix = kind.store_prefix(None);
    let target = Target::collection(kind, None);
    stream_name(&target, &prefix, &options, Form::PLAIN, IncludeObject::Metadata)
}

#[test]
fn watches_of_different_versions_or_selectors_share_no_lines() {
    assert_eq!(name("v1beta1", "a", "b"), name("v1beta1", "a", "b"));
    assert_ne!(name("v1beta1", "", ""), name("v1alpha1", "", ""));
    assert_ne!(name("v1beta1", "a\nb", ""), name("v1beta1", "a", "b"));
    assert_ne!(name("v1beta1", "a\" \"b", ""), name("v1beta1", "a", "b\" \""));
}

#[tokio::test]
async fn selectors_without_matches_scan_a_bounded_part_of_the_history() {
    const OBJECTS: usize = 100;
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    let object = json!({"metadata": {"labels": {"x": "1"}}, "data": "d".repeat(SCAN_BYTES_MAX / 10)});
    let value = store::Value {
        bytes: object.to_string().into(),
        revision_at: None,
    };
    let start = store.index().revision();
    let puts = (0..OBJECTS).map(|number| {
        let key = format!("/services/default/s{number:03}");
        Write::Put(key.into(), value.clone())
    });
    let transaction = Transaction {
        expectations: Vec::new(),
        writes: puts.collect(),
    };
    store.commit(transaction).await.unwrap();

    let kind = find("", "v1", "services").unwrap();
    let target = Target::collection(kind, Some("default"));
    let options = ListOptions::read(&Query::parse("labelSelector=x%3D2")).unwrap();
    let mut writer = EventWriter {
        kind,
        selection: Selection::parse(&target, &options).unwrap(),
        form: Form::PLAIN,
        include: IncludeObject::Metadata,
        has_sent_columns: false,
        event_count: 0,
        encoded_events: Arc::default(),
    };
    let mut watch = store.index().watch("/services/default/", start).unwrap();
    let begin = watch.position();
    let mut frames = 0;
    while watch.has_more() {
        let frame = write_events(&mut writer, &mut watch).unwrap();
        assert!(frame.bytes.is_empty());
        frames += 1;
    }
    assert_eq!(watch.position() - begin, OBJECTS as u64);
    assert!(frames >= 9, "{frames} frames");
}
