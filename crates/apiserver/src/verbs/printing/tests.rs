use api::kind::find;

use super::*;

#[test]
fn list_items_have_no_type() {
    let services = find("", "v1", "services").unwrap();
    let stored = [
        Bytes::from_static(br#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"}}"#),
        Bytes::from_static(br#"{"metadata":{"name":"b"}}"#),
    ];
    let head = list_head("ServiceList", "v1", &json!({}));
    let text: Vec<u8> = list_pieces(services, head, stored.into_iter()).concat();
    let list: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        list["items"],
        json!([{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}])
    );
    assert_eq!(list["kind"], "ServiceList");
}

#[test]
fn encodes_one_object_as_a_table() {
    let services = find("", "v1", "services").unwrap();
    let bytes = Bytes::from_static(br#"{"metadata":{"name":"a","resourceVersion":"7"},"spec":{}}"#);
    let form = Form {
        representation: Representation::Table,
        ..Form::PLAIN
    };
    let table = object(services, bytes, form, IncludeObject::Metadata).unwrap();
    let table: Value = serde_json::from_slice(&table).unwrap();
    assert_eq!(table["metadata"]["resourceVersion"], "7");
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
}

/// Returns a page with one Service.
fn page_of(stored: &'static [u8]) -> Page {
    Page {
        entries: vec![store::Entry {
            key: "/services/d/a".into(),
            value: Bytes::from_static(stored),
            created: store::Revision(1),
            modified: store::Revision(1),
        }],
        revision: store::Revision(7),
        continue_token: None,
        remaining: None,
    }
}

#[test]
fn lists_that_are_not_plain_need_memory() {
    let services = find("", "v1", "services").unwrap();
    let bytes = |representation, encoding| {
        let form = Form {
            representation,
            encoding,
            ..Form::PLAIN
        };
        encoding_bytes(services, &page_of(&[b' '; 100]), form, false).unwrap()
    };
    assert_eq!(bytes(Representation::Objects, Encoding::Json), 0);
    assert_eq!(bytes(Representation::Objects, Encoding::Protobuf), 100);
    assert_eq!(bytes(Representation::Objects, Encoding::Yaml), 1_000);
    assert_eq!(bytes(Representation::Table, Encoding::Json), 100);
}

#[test]
fn large_lists_are_not_encoded_as_one_tree() {
    let services = find("", "v1", "services").unwrap();
    let page = page_of(vec![b' '; TREES_BYTES_MAX + 1].leak());
    let code = |encoding, is_exempt| {
        let form = Form {
            encoding,
            ..Form::PLAIN
        };
        let bytes = encoding_bytes(services, &page, form, is_exempt);
        bytes.map_or_else(|failure| failure.code().as_u16(), |_| 200)
    };
    for encoding in [Encoding::Yaml, Encoding::PrettyJson] {
        assert_eq!(code(encoding, false), 413);
        assert_eq!(code(encoding, true), 200);
    }
    assert_eq!(code(Encoding::Protobuf, false), 200);
}

#[test]
fn encodes_lists_in_every_encoding() {
    let services = find("", "v1", "services").unwrap();
    let stored =
        br#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"type":"ClusterIP"}}"#;
    let listed = |representation, encoding| {
        let form = Form {
            representation,
            encoding,
            ..Form::PLAIN
        };
        page(services, page_of(stored), form, IncludeObject::Metadata)
            .unwrap()
            .concat()
    };
    let yaml = String::from_utf8(listed(Representation::Objects, Encoding::Yaml)).unwrap();
    for part in [
        "kind: ServiceList\n",
        "type: ClusterIP\n",
        "resourceVersion: \"7\"\n",
    ] {
        assert!(yaml.contains(part), "{part} is not in\n{yaml}");
    }
    let json: Value = serde_json::from_slice(&listed(Representation::Objects, Encoding::PrettyJson)).unwrap();
    assert_eq!(json["items"][0].get("kind"), None);
    let protobuf = listed(Representation::Objects, Encoding::Protobuf);
    let envelope = protobuf::open(&protobuf).unwrap();
    let list = envelope.object("io.k8s.api.core.v1.ServiceList").unwrap();
    assert_eq!(list["kind"], "ServiceList");
    assert_eq!(list["metadata"]["resourceVersion"], "7");
    assert_eq!(list["items"][0]["spec"]["type"], "ClusterIP");
    let metadata = listed(Representation::MetadataList, Encoding::Protobuf);
    assert_eq!(
        protobuf::open(&metadata).unwrap().kind,
        "PartialObjectMetadataList"
    );
}

/// Upstream: `asPartialObjectMetadataList` in `pkg/endpoints/handlers/response.go` appends to a list without items.
#[test]
fn empty_lists_of_metadata_have_null_items() {
    let services = find("", "v1", "services").unwrap();
    let listed = |representation, encoding| {
        let form = Form {
            representation,
            encoding,
            ..Form::PLAIN
        };
        let empty = Page {
            entries: Vec::new(),
            ..page_of(b"")
        };
        let pieces = page(services, empty, form, IncludeObject::Metadata).unwrap();
        String::from_utf8(pieces.concat()).unwrap()
    };
    let metadata = Representation::MetadataList;
    let json: Value = serde_json::from_str(&listed(metadata, Encoding::Json)).unwrap();
    assert_eq!(json["items"], Value::Null);
    assert!(json.as_object().unwrap().contains_key("items"));
    assert!(listed(metadata, Encoding::PrettyJson).contains("\"items\": null"));
    assert!(listed(metadata, Encoding::Yaml).contains("items: null\n"));
    let table: Value = serde_json::from_str(&listed(Representation::Table, Encoding::Json)).unwrap();
    assert_eq!(table["rows"], json!([]));
    let objects: Value = serde_json::from_str(&listed(Representation::Objects, Encoding::Json)).unwrap();
    assert_eq!(objects["items"], json!([]));
}
