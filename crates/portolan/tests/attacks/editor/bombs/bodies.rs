//! Bodies of new objects: recursive YAML, deep nesting, nested protobuf messages, huge exponents, and
//! compressed bodies.

use client::APPLY_PATCH;
use http::Method;

use super::{BODY_BYTES_MAX, OBJECT, OBJECTS, Target, nest};

const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const DRY_RUN: &str = "?dryRun=All&fieldManager=ann";

/// Returns a ConfigMap in YAML with additional fields.
fn config_map(fields: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: own}}\n{fields}\n")
}

/// Returns lists of nine references to the previous list ("billion laughs").
fn laughs(rounds: usize) -> String {
    let mut text = String::from("l0: &l0 [x, x, x, x, x, x, x, x, x]\n");
    for round in 1..rounds {
        let references = vec![format!("*l{}", round - 1); 9].join(", ");
        text += &format!("l{round}: &l{round} [{references}]\n");
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn expanding_yaml_is_rejected() {
    let target = Target::start().await;
    let large = "x".repeat(1 << 20);
    let references = vec!["*s"; 100_000].join(", ");
    let merged: String = (1..40)
        .map(|at| format!("m{at}: &m{at}\n  <<: [*m{}, *m{}]\n  k{at}: v\n", at - 1, at - 1))
        .collect();
    for (name, fields) in [
        ("billion laughs", laughs(12)),
        (
            "a large text again and again",
            format!("s: &s {large}\nl: [{references}]"),
        ),
        ("merge keys", format!("m0: &m0 {{k: v}}\n{merged}")),
        ("a reference to itself", "a: &a [*a]".to_owned()),
        ("deep lists", format!("a: {}", "[".repeat(500_000))),
        ("deep objects", format!("a: {}", "{a: ".repeat(200_000))),
        ("deep blocks", format!("a:\n {}x", "- ".repeat(200_000))),
        (
            "deep closed lists",
            format!("a: {}{}", "[".repeat(300), "]".repeat(300)),
        ),
    ] {
        let text = config_map(&fields);
        let path = format!("{OBJECTS}{DRY_RUN}");
        let created = target.code(Method::POST, &path, YAML, text.clone()).await;
        assert_eq!(created, 400, "{name}, created");
        let path = format!("{OBJECT}{DRY_RUN}");
        let applied = target.code(Method::PATCH, &path, APPLY_PATCH, text).await;
        assert!(matches!(applied, 400 | 413), "{name}, applied: {applied}");
    }
    target.expect_survival().await;
}

/// The server skips unknown fields without recursion, and rejects deep values of known fields.
#[tokio::test(flavor = "multi_thread")]
async fn deeply_nested_json_is_not_stored() {
    let target = Target::start().await;
    for value in [nest(130), nest(400_000), "[".repeat(BODY_BYTES_MAX - 1000)] {
        let unknown = format!(r#"{{"metadata":{{"name":"a"}},"x":{value}}}"#);
        let records = r#"[{"manager":"a","operation":"Update","fieldsV1":"#;
        let kept = format!(r#"{{"metadata":{{"name":"a","managedFields":{records}{value}}}]}}}}"#);
        let path = format!("{OBJECTS}{DRY_RUN}");
        let code = target.code(Method::POST, &path, client::JSON, unknown).await;
        assert!([200, 400].contains(&code), "{code}");
        assert_eq!(target.code(Method::POST, &path, client::JSON, kept).await, 400);
    }
    target.expect_survival().await;
}

/// Encodes a length-delimited protobuf field.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 0x7f {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(content);
    bytes
}

/// Returns a ConfigMap in protobuf with an envelope.
fn enveloped(message: &[u8]) -> Vec<u8> {
    let kind = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
    [b"k8s\0".to_vec(), field(1, &kind), field(2, message)].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_protobuf_messages_are_rejected() {
    let target = Target::start().await;
    // Field 17 is managedFields; its field 7 is fieldsV1, with JSON.
    let deep = field(1, "[".repeat(1 << 20).as_bytes());
    let records = field(1, &[field(1, b"own"), field(17, &field(7, &deep))].concat());
    let groups = vec![0x0b; BODY_BYTES_MAX - 1000];
    let mut wrapped = Vec::new();
    while wrapped.len() < 100_000 {
        wrapped = field(1, &wrapped);
        if wrapped.len() < 4 {
            wrapped.extend(field(1, b"own"));
        }
    }
    let empty_values: Vec<u8> = [field(2, &[])].concat().repeat(1_000_000);
    for (name, message) in [
        ("deep JSON in a message", records),
        ("groups in groups", groups),
        ("messages in messages", wrapped),
        ("a million entries", empty_values),
    ] {
        let path = format!("{OBJECTS}{DRY_RUN}");
        let code = target
            .code(Method::POST, &path, PROTOBUF, enveloped(&message))
            .await;
        assert!([400, 413, 422].contains(&code), "{name}: {code}");
    }
    target.expect_survival().await;
}

/// The server does not decompress bodies, so that their size is bounded.
#[tokio::test(flavor = "multi_thread")]
async fn compressed_bodies_are_rejected() {
    let target = Target::start().await;
    // Header of a gzip stream.
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    packed.extend([0; 1000]);
    for content_type in [client::JSON, YAML, PROTOBUF] {
        let path = format!("{OBJECTS}{DRY_RUN}");
        assert_eq!(
            target
                .code(Method::POST, &path, content_type, packed.clone())
                .await,
            400
        );
    }
    target.expect_survival().await;
}

/// Quantities are parsed without expansion of the exponent.
#[tokio::test(flavor = "multi_thread")]
async fn huge_exponents_use_bounded_resources() {
    let target = Target::start().await;
    let digits = "9".repeat(500_000);
    for amount in [
        "1e2147483647".to_owned(),
        "1e-2147483648".to_owned(),
        "0.0000000000000000000000001e-2147483648".to_owned(),
        "1e99999999999999999999".to_owned(),
        format!("{digits}.{digits}Ei"),
    ] {
        let pod = serde_json::json!({"metadata": {"name": "a"}, "spec": {"containers": [
            {"name": "a", "image": "i", "resources": {"limits": {"memory": amount}}}]}});
        let path = format!("/api/v1/namespaces/default/pods{DRY_RUN}");
        let code = target
            .code(Method::POST, &path, client::JSON, pod.to_string())
            .await;
        assert!([200, 400, 403, 422].contains(&code), "{code}");
    }
    let number = format!(r#"{{"metadata":{{"name":"a","generation":1e{digits}}}}}"#);
    let path = format!("{OBJECTS}{DRY_RUN}");
    assert_eq!(target.code(Method::POST, &path, client::JSON, number).await, 400);
    target.expect_survival().await;
}
