use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::kinds::kind::{self, Kind};
use crate::machinery::decode::{DecodeError, Format, conform, decode, decode_delete_options};

const POD: &str = "io.k8s.api.core.v1.Pod";

/// Blocks of a command, its body in hexadecimal, and the same object as JSON.
const CAPTURED: &str = include_str!("captured.txt");

fn captured() -> impl Iterator<Item = (&'static str, Vec<u8>, Value)> {
    CAPTURED.split("\n\n").skip(1).map(|block| {
        let lines: Vec<&str> = block.trim().lines().collect();
        let [command, hex, json] = lines[..] else {
            panic!("three lines: {block}");
        };
        let digits = hex.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap());
        let body = digits
            .map(|digits| u8::from_str_radix(digits, 16).unwrap())
            .collect();
        (command, body, serde_json::from_str(json).unwrap())
    })
}

fn kind_of(object: &Value) -> &'static Kind {
    let text = |name: &str| object[name].as_str().unwrap();
    kind::find_by_kind(text("apiVersion"), text("kind")).expect("served kind")
}

/// Encodes a field of bytes: text or a message.
fn bytes(number: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let mut field = varint_field(number, content.len() as u64);
    field[0] |= 2;
    field.extend(content);
    field
}

/// Encodes a field of a number; field numbers up to 31.
fn varint_field(number: u8, mut value: u64) -> Vec<u8> {
    let mut field = vec![number << 3];
    if number > 15 {
        field = vec![(number << 3) | 0x80, number >> 4];
    }
    while value > 0x7f {
        field.push(value as u8 | 0x80);
        value >>= 7;
    }
    field.push(value as u8);
    field
}

fn message(definition: &str, message: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = Envelope {
        message,
        ..Envelope::default()
    };
    envelope.object(definition)
}

fn body(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let type_meta = [bytes(1, api_version), bytes(2, kind)].concat();
    [MAGIC, &bytes(1, type_meta), &bytes(2, message)].concat()
}

#[test]
fn bodies_of_kubectl_decode_like_their_json() {
    for (command, body, json) in captured() {
        let kind = kind_of(&json);
        let from_json = decode(json.to_string().as_bytes(), Format::Json, kind).unwrap();
        let from_protobuf = decode(&body, Format::Protobuf, kind).unwrap();
        assert_eq!(from_protobuf, from_json, "{command}");
        let keys: Vec<&String> = from_protobuf.object.as_object().unwrap().keys().collect();
        assert_eq!(keys[..2], ["apiVersion", "kind"], "{command}");
    }
    assert_eq!(captured().count(), 11);
}

#[test]
fn decodes_timestamps_quantities_and_raw_json() {
    let pod = [
        // metadata: creationTimestamp, deletionTimestamp (empty, that is none), managedFields
        bytes(
            1,
            [
                bytes(
                    8,
                    [varint_field(1, 1_700_000_000), varint_field(2, 999_999_999)].concat(),
                ),
                bytes(9, ""),
                [
                    &[0x8a, 0x01][..],
                    &bytes(0, bytes(7, bytes(1, r#"{"f:spec":{}}"#)))[1..],
                ]
                .concat(),
            ]
            .concat(),
        ),
        // spec.containers[0]: name, resources.limits
        bytes(
            2,
            bytes(
                2,
                [
                    bytes(1, "c"),
                    bytes(
                        8,
                        bytes(1, [bytes(1, "cpu"), bytes(2, bytes(1, "100m"))].concat()),
                    ),
                ]
                .concat(),
            ),
        ),
    ]
    .concat();
    assert_eq!(
        message(POD, &pod),
        Ok(json!({
            "metadata": {
                "creationTimestamp": "2023-11-14T22:13:20Z",
                "managedFields": [{"fieldsV1": {"f:spec": {}}}],
            },
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "100m"}}}]},
        }))
    );
    let lease = bytes(
        2,
        bytes(4, [varint_field(1, 1), varint_field(2, 123_456_789)].concat()),
    );
    assert_eq!(
        message("io.k8s.api.coordination.v1.Lease", &lease),
        Ok(json!({"spec": {"renewTime": "1970-01-01T00:00:01.123456Z"}}))
    );
}

#[test]
fn zero_values_are_absent_except_for_pointers_and_required_fields() {
    let minus_one = (-1i64) as u64;
    let service = bytes(
        2,
        [
            bytes(
                1,
                [
                    varint_field(3, 0),
                    varint_field(5, 0),
                    bytes(4, [varint_field(2, minus_one)].concat()),
                ]
                .concat(),
            ),
            bytes(3, ""),
            varint_field(13, 0),
            varint_field(20, 0),
            varint_field(12, minus_one),
        ]
        .concat(),
    );
    assert_eq!(
        message("io.k8s.api.core.v1.Service", &service),
        Ok(json!({"spec": {
            "ports": [{"port": 0, "targetPort": -1}],
            "allocateLoadBalancerNodePorts": false,
            "healthCheckNodePort": -1,
        }}))
    );
}

#[test]
fn embedded_messages_belong_to_their_parent() {
    let volume = [bytes(1, "v"), bytes(2, bytes(2, ""))].concat();
    let probe = [bytes(1, bytes(4, varint_field(1, 8080))), varint_field(3, 5)].concat();
    let pod = bytes(2, [bytes(1, volume), bytes(2, bytes(10, probe))].concat());
    assert_eq!(
        message(POD, &pod),
        Ok(json!({"spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"livenessProbe": {"grpc": {"port": 8080}, "timeoutSeconds": 5}}],
        }}))
    );
}

#[test]
fn merges_partial_messages_and_keeps_the_last_scalar() {
    let secret = [
        bytes(1, [bytes(1, "a"), bytes(3, "ns")].concat()),
        bytes(1, bytes(1, "b")),
        bytes(3, "x"),
        bytes(3, ""),
        bytes(2, ""),
    ]
    .concat();
    assert_eq!(
        message("io.k8s.api.core.v1.Secret", &secret),
        Ok(json!({"metadata": {"name": "b", "namespace": "ns"}, "data": {"": ""}}))
    );
}

#[test]
fn packed_numbers_are_decoded_to_a_list() {
    let groups = [varint_field(4, 7), bytes(4, [1, 0x80, 1])].concat();
    let pod = bytes(2, bytes(14, groups));
    assert_eq!(
        message(POD, &pod),
        Ok(json!({"spec": {"securityContext": {"supplementalGroups": [7, 1, 128]}}}))
    );
}

#[test]
fn skips_unknown_fields_of_all_wire_types() {
    let unknown = [
        varint_field(30, 1),
        bytes(30, "text"),
        vec![0xf1, 0x01, 1, 2, 3, 4, 5, 6, 7, 8],
        vec![0xf5, 0x01, 1, 2, 3, 4],
        // A nested group.
        vec![0xf3, 0x01, 0x08, 5, 0x0b, 0x0c, 0xf4, 0x01],
    ]
    .concat();
    let config_map = [unknown, bytes(1, bytes(1, "a"))].concat();
    assert_eq!(
        message("io.k8s.api.core.v1.ConfigMap", &config_map),
        Ok(json!({"metadata": {"name": "a"}}))
    );
}

#[test]
fn errors_name_the_field() {
    let error_of = |spec: Vec<u8>| {
        let error = message("io.k8s.api.core.v1.Service", &bytes(2, spec)).unwrap_err();
        error.to_string()
    };
    for (spec, expected) in [
        (
            bytes(1, bytes(3, "80")),
            "spec.ports.port: proto: wrong wire type, expected varint",
        ),
        (
            varint_field(3, 1),
            "spec.clusterIP: proto: wrong wire type, expected bytes",
        ),
        (bytes(3, [0xff]), "spec.clusterIP: string is not valid UTF-8"),
        (
            bytes(2, [bytes(1, "k"), bytes(2, [0xff])].concat()),
            "spec.selector.k: string is not valid UTF-8",
        ),
        (vec![0x1a, 5, b'a'], "spec: proto: unexpected end of the message"),
        (vec![0x0c], "spec: proto: unexpected end of group"),
        (vec![0x03], "spec: proto: illegal tag 3"),
        (vec![0x0e], "spec: proto: illegal tag 14"),
        (vec![0xff; 12], "spec: proto: integer overflow"),
    ] {
        assert_eq!(error_of(spec), expected);
    }
    let quantity = bytes(1, [bytes(1, "cpu"), bytes(2, bytes(1, "lots"))].concat());
    let pod = bytes(2, bytes(2, bytes(8, quantity)));
    let error = message(POD, &pod).unwrap_err().to_string();
    assert!(
        error.starts_with("spec.containers.resources.limits.cpu: quantities must match"),
        "{error}"
    );
}

#[test]
fn rejects_bodies_of_other_formats_and_kinds() {
    let service = kind::find("", "v1", "services").unwrap();
    let error = |body: &[u8]| decode(body, Format::Protobuf, service).unwrap_err();
    for not_protobuf in [&b""[..], b"k8s", b"{}", b"\x0a\x00"] {
        assert!(
            matches!(error(not_protobuf), DecodeError::Syntax { .. }),
            "{not_protobuf:?}"
        );
    }
    assert!(matches!(
        error(&body("v1", "Pod", b"")),
        DecodeError::WrongKind { .. }
    ));
    assert!(matches!(
        error(&body("v2", "Service", b"")),
        DecodeError::Version { .. }
    ));
    assert!(matches!(
        error(&body("v1", "Service", b"\x08")),
        DecodeError::Mismatch { .. }
    ));
    let gzip = [MAGIC, &bytes(3, "gzip")].concat();
    assert_eq!(open(&gzip), Err(ProtobufError::Encoding("gzip".into())));
    // Absent type fields are added.
    let decoded = decode(MAGIC, Format::Protobuf, service).unwrap();
    assert_eq!(decoded.object, json!({"apiVersion": "v1", "kind": "Service"}));
}

#[test]
fn rejects_more_values_than_the_maximum() {
    let endpoints = bytes(2, "").repeat(VALUES_MAX + 1);
    let slice = "io.k8s.api.discovery.v1.EndpointSlice";
    assert_eq!(message(slice, &endpoints), Err(ProtobufError::TooManyValues));
    // Values of embedded JSON count, too.
    let raw = format!("[{}0]", "[],".repeat(VALUES_MAX));
    let managed_fields = bytes(17, bytes(7, bytes(1, raw)));
    let config_map = bytes(1, managed_fields);
    assert_eq!(
        message("io.k8s.api.core.v1.ConfigMap", &config_map),
        Err(ProtobufError::TooManyValues)
    );
}

#[test]
fn delete_options_are_decoded_from_protobuf() {
    let message = [
        varint_field(1, 0),
        bytes(4, "Foreground"),
        bytes(2, bytes(1, "u-1")),
    ]
    .concat();
    let options = body("discovery.k8s.io/v1", "DeleteOptions", &message);
    let decoded = decode_delete_options(&options, Format::Protobuf).unwrap();
    assert_eq!(
        decoded.object,
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Foreground",
            "preconditions": {"uid": "u-1"},
        })
    );
    let none = decode_delete_options(b"", Format::Protobuf).unwrap();
    assert_eq!(none.object, json!({}));
}

/// Checks that a decoded object matches the schema of its kind.
fn assert_conforms(object: Value, kind: &Kind) -> Result<(), TestCaseError> {
    let again = conform(object.clone(), kind).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(again.object, object);
    Ok(())
}

proptest! {
    #[test]
    fn decoder_accepts_or_rejects_any_bytes(message in prop::collection::vec(any::<u8>(), 0..200), index in 0..kind::all().len()) {
        let kind = &kind::all()[index];
        let body = body(&kind.api_version(), kind.kind, &message);
        if let Ok(decoded) = decode(&body, Format::Protobuf, kind) {
            assert_conforms(decoded.object, kind)?;
        }
    }

    #[test]
    fn decoder_accepts_or_rejects_changed_bodies(
        which in 0..captured().count(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (_, mut body, json) = captured().nth(which).unwrap();
        for (index, byte) in changes {
            let index = index.index(body.len());
            body[index] = byte;
        }
        let kind = kind_of(&json);
        if let Ok(decoded) = decode(&body, Format::Protobuf, kind) {
            assert_conforms(decoded.object, kind)?;
        }
    }
}

#[test]
fn lists_in_maps_are_separate_messages() {
    const REVIEW: &str = "io.k8s.api.authorization.v1.SubjectAccessReviewSpec";
    let entry = |key: &str, values: &[&str]| {
        let values = values
            .iter()
            .flat_map(|value| bytes(1, value))
            .collect::<Vec<_>>();
        bytes(5, [bytes(1, key), bytes(2, values)].concat())
    };
    let sent = [bytes(3, "jane"), entry("none", &[]), entry("scopes", &["a", "b"])].concat();
    let read = message(REVIEW, &sent).unwrap();
    assert_eq!(
        read,
        json!({"user": "jane", "extra": {"none": [], "scopes": ["a", "b"]}})
    );
    assert_eq!(encoder::message(&read, REVIEW).unwrap(), sent);
}
