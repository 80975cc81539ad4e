use api::kind::find;

use super::*;
use crate::request::query::{ListOptions, Query};
use crate::request::route::Target;

fn writer(query: &str) -> EventWriter {
    let kind = find("", "v1", "services").unwrap();
    let target = Target::collection(kind, Some("default"));
    let options = ListOptions::read(&Query::parse(query)).unwrap();
    EventWriter {
        kind,
        selection: Selection::parse(&target, &options).unwrap(),
        form: Form::PLAIN,
        include: IncludeObject::Metadata,
        has_sent_columns: false,
        event_count: 0,
        encoded_events: Arc::default(),
    }
}

fn labelled(value: &str) -> Bytes {
    let object = json!({"metadata": {"name": "a", "labels": {"x": value}, "resourceVersion": "1"}});
    Bytes::from(object.to_string())
}

fn written_events(kind: EventKind, value: &str, previous: Option<&str>) -> Vec<(String, String)> {
    let event = Event {
        kind,
        key: "/services/default/a".into(),
        value: labelled(value),
        previous: previous.map(labelled),
        revision: Revision(9),
    };
    let mut out = BytesMut::new();
    writer("labelSelector=x%3D1").write_event(&event, &mut out);
    let read = |line: &[u8]| {
        let line: Value = serde_json::from_slice(line).unwrap();
        let version = line["object"]["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned();
        (line["type"].as_str().unwrap().to_owned(), version)
    };
    out[..]
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(read)
        .collect()
}

#[test]
fn events_reflect_objects_that_begin_and_cease_to_match() {
    let one = |change: &str, version: &str| vec![(change.to_owned(), version.to_owned())];
    assert_eq!(written_events(EventKind::Created, "1", None), one("ADDED", "1"));
    assert_eq!(written_events(EventKind::Created, "2", None), vec![]);
    assert_eq!(
        written_events(EventKind::Updated, "1", Some("2")),
        one("ADDED", "1")
    );
    assert_eq!(
        written_events(EventKind::Updated, "1", Some("1")),
        one("MODIFIED", "1")
    );
    assert_eq!(
        written_events(EventKind::Updated, "2", Some("1")),
        one("DELETED", "9")
    );
    assert_eq!(
        written_events(EventKind::Deleted, "1", Some("1")),
        one("DELETED", "1")
    );
    assert_eq!(written_events(EventKind::Deleted, "2", Some("2")), vec![]);
}

#[test]
fn bookmarks_carry_kind_and_revision() {
    let mut out = BytesMut::new();
    writer("").write_bookmark(Revision(5), true, &mut out);
    let line: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(line["type"], "BOOKMARK");
    assert_eq!(line["object"]["kind"], "Service");
    assert_eq!(line["object"]["metadata"]["resourceVersion"], "5");
    assert_eq!(
        line["object"]["metadata"]["annotations"][INITIAL_EVENTS_END],
        "true"
    );
}

#[test]
fn columns_are_sent_once() {
    let mut writer = writer("");
    writer.form.representation = Representation::Table;
    let mut out = BytesMut::new();
    writer.write_initial("/services/default/a", &labelled("1"), &mut out);
    writer.write_initial("/services/default/a", &labelled("1"), &mut out);
    let counts: Vec<usize> = out[..]
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice::<Value>(line).unwrap())
        .map(|line| line["object"]["columnDefinitions"].as_array().unwrap().len())
        .collect();
    assert!(counts[0] > 0 && counts[1] == 0, "{counts:?}");
}

#[test]
fn watches_of_one_form_share_encoded_events() {
    let mut first = writer("");
    first.form.encoding = Encoding::Protobuf;
    let mut second = writer("");
    (second.form, second.encoded_events) = (first.form, first.encoded_events.clone());
    let event = Event {
        kind: EventKind::Created,
        key: "/services/default/a".into(),
        value: labelled("1"),
        previous: None,
        revision: Revision(9),
    };
    let (mut one, mut two) = (BytesMut::new(), BytesMut::new());
    first.write_event(&event, &mut one);
    second.write_event(&event, &mut two);
    assert_eq!(one, two);
    assert_eq!(first.encoded_events.len(), 1);
    let length = u32::from_be_bytes(one[..4].try_into().unwrap());
    assert_eq!(length as usize, one.len() - 4);
    assert!(one.windows(4).any(|window| window == b"k8s\0"));
}

#[test]
fn versions_of_one_group_share_no_encoded_events() {
    let export = |version: &str| EventWriter {
        kind: find("multicluster.x-k8s.io", version, "serviceexports").unwrap(),
        has_sent_columns: true,
        ..writer("")
    };
    let (mut stored, mut earlier) = (export("v1beta1"), export("v1alpha1"));
    // In this form, no version sends the stored bytes.
    stored.form.representation = Representation::Table;
    stored.include = IncludeObject::Whole;
    (earlier.form, earlier.include) = (stored.form, stored.include);
    earlier.encoded_events = stored.encoded_events.clone();
    let event = Event {
        kind: EventKind::Created,
        key: "/multicluster.x-k8s.io/serviceexports/default/a".into(),
        value: labelled("1"),
        previous: None,
        revision: Revision(9),
    };
    let version = |writer: &mut EventWriter| {
        let mut out = BytesMut::new();
        writer.write_event(&event, &mut out);
        let line: Value = serde_json::from_slice(&out).unwrap();
        line["object"]["rows"][0]["object"]["apiVersion"].clone()
    };
    assert_eq!(
        version(&mut stored),
        Value::Null,
        "the stored object has no version here"
    );
    assert_eq!(version(&mut earlier), "multicluster.x-k8s.io/v1alpha1");
}
