use super::*;
use crate::kinds::kind;
use serde_json::json;

fn kind_of(name: &str) -> &'static Kind {
    kind::all().iter().find(|kind| kind.kind == name).expect("kind")
}

fn service(text: &str) -> Result<Decoded, DecodeError> {
    decode(text.as_bytes(), Format::Json, kind_of("Service"))
}

#[test]
fn decode_keeps_all_fields_and_adds_the_type() {
    let decoded = service(
        r#"{"metadata":{"name":"a","labels":{"x":"1"}},"spec":{"ports":[{"port":80,"targetPort":"http"}],"selector":null}}"#,
    )
    .expect("Service");
    assert_eq!(decoded.strict_errors, Vec::<String>::new());
    assert_eq!(
        decoded.object.to_string(),
        r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","labels":{"x":"1"}},"spec":{"ports":[{"port":80,"targetPort":"http"}]}}"#
    );
}

#[test]
fn reports_paths_of_unknown_and_duplicate_fields() {
    let decoded = service(
        r#"{"metadata":{"name":"s","name":"t","labels":{"a":"1","a":"2"}},"foo":{"bar":[1]},
            "spec":{"ports":[{"port":80},{"port":81,"prot":"TCP"}],"type":null,"type":"NodePort"}}"#,
    )
    .expect("Service");
    assert_eq!(
        decoded.strict_errors,
        [
            r#"duplicate field "metadata.name""#,
            r#"duplicate field "metadata.labels.a""#,
            r#"unknown field "foo""#,
            r#"unknown field "spec.ports[1].prot""#,
            r#"duplicate field "spec.type""#,
        ]
    );
    assert_eq!(decoded.object["metadata"]["name"], "t");
    assert!(decoded.object.get("foo").is_none());
    let error = decoded.strict(kind_of("Service")).expect_err("strict error");
    assert!(error.to_string().starts_with(
        r#"Service in version "v1" cannot be handled as a Service: strict decoding error: duplicate field "metadata.name", "#
    ));
}

#[test]
fn type_mismatches_name_the_field() {
    let cases = [
        (
            r#"{"spec":{"ports":[{"port":"80"}]}}"#,
            "cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            r#"{"spec":{"ports":{"port":80}}}"#,
            "cannot unmarshal object into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort",
        ),
        (
            r#"{"metadata":{"labels":{"a":1}}}"#,
            "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels.a of type string",
        ),
        (
            r#"{"spec":{"ports":[{"port":99999999999}]}}"#,
            "cannot unmarshal number 99999999999 into Go struct field ServicePort.spec.ports.port of type int32",
        ),
        (
            r#"{"spec":[]}"#,
            "cannot unmarshal array into Go struct field Service.spec of type v1.ServiceSpec",
        ),
        ("[]", "cannot unmarshal array into Go value of type v1.Service"),
        (
            r#"{"metadata":{"creationTimestamp":"soon"}}"#,
            "parsing time \"soon\"",
        ),
    ];
    for (text, expected) in cases {
        match service(text) {
            Err(DecodeError::Mismatch { detail, .. }) => assert!(detail.contains(expected), "{detail}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn rejects_malformed_texts_without_panic() {
    let deep = format!(
        "{}{}",
        r#"{"metadata":{"managedFields":[{"fieldsV1":"#,
        "[".repeat(100_000)
    );
    let long_number = format!(r#"{{"spec":{{"ports":[{{"port":{}}}]}}}}"#, "9".repeat(100_000));
    let texts = [
        "",
        "{oops",
        "{}x",
        "\u{0}",
        "7",
        "{\"spec\":1e999}",
        &deep,
        &long_number,
    ];
    for text in texts {
        assert!(service(text).is_err(), "{:.40}", text);
        assert!(
            text.is_empty() || decode(text.as_bytes(), Format::Yaml, kind_of("Service")).is_err(),
            "{:.40}",
            text
        );
    }
    assert!(decode(b"{\"kind\":\"\xff\"}", Format::Json, kind_of("Service")).is_err());
}

#[test]
fn rejects_other_kinds_and_versions() {
    let wrong = service(r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#);
    assert!(matches!(wrong, Err(DecodeError::WrongKind { .. })), "{wrong:?}");
    let wrong = service(r#"{"apiVersion":"v2","kind":"Service"}"#).expect_err("other version");
    assert_eq!(
        wrong.to_string(),
        "the API version in the data (v2) does not match the expected API version (v1)"
    );
}

#[test]
fn yaml_decodes_like_json() {
    let yaml = "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  annotations: {x: \"yes\"}\nspec:\n  ports:\n  - port: 80\n    port: 81\n    targetPort: http\n    nope: 1\n";
    let decoded = decode(yaml.as_bytes(), Format::Yaml, kind_of("Service")).expect("Service");
    assert_eq!(
        decoded.object,
        json!({"apiVersion":"v1","kind":"Service","metadata":{"name":"a","annotations":{"x":"yes"}},
               "spec":{"ports":[{"port":81,"targetPort":"http"}]}})
    );
    assert_eq!(
        decoded.strict_errors,
        [
            r#"duplicate field "spec.ports[0].port""#,
            r#"unknown field "spec.ports[0].nope""#
        ]
    );
    let mistyped = decode(b"metadata:\n  name: 7\n", Format::Yaml, kind_of("Service"));
    assert!(
        matches!(mistyped, Err(DecodeError::Mismatch { .. })),
        "{mistyped:?}"
    );
}

#[test]
fn rejects_yaml_alias_bombs() {
    let mut bomb =
        String::from("metadata:\n  managedFields:\n  - fieldsV1:\n      a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        bomb += &format!("      a{level}: &a{level} [{}]\n", vec![below; 10].join(","));
    }
    assert!(decode(bomb.as_bytes(), Format::Yaml, kind_of("Service")).is_err());
}

#[test]
fn scalars_are_normalized() {
    let lease = decode(
        br#"{"metadata":{"creationTimestamp":"2026-01-02T05:04:05.9+02:00"},"spec":{"renewTime":"2026-01-02T04:04:05.250000+01:00"}}"#,
        Format::Json,
        kind_of("Lease"),
    )
    .expect("Lease");
    assert_eq!(
        lease.object["metadata"]["creationTimestamp"],
        "2026-01-02T03:04:05Z"
    );
    assert_eq!(lease.object["spec"]["renewTime"], "2026-01-02T03:04:05.250000Z");
    let node = decode(
        br#"{"status":{"capacity":{"cpu":4,"memory":"2Gi","pods":null}}}"#,
        Format::Json,
        kind_of("Node"),
    )
    .expect("Node");
    assert_eq!(
        node.object["status"]["capacity"],
        json!({"cpu":"4","memory":"2Gi","pods":"0"})
    );
    let malformed = decode(
        br#"{"status":{"capacity":{"cpu":"four"}}}"#,
        Format::Json,
        kind_of("Node"),
    );
    assert!(matches!(malformed, Err(DecodeError::Mismatch { .. })));
    let malformed = decode(br#"{"data":{"a":"***"}}"#, Format::Json, kind_of("Secret"));
    assert!(matches!(malformed, Err(DecodeError::Mismatch { .. })));
}

#[test]
fn options_and_trees_are_checked_like_bodies() {
    let options =
        decode_delete_options(br#"{"propagationPolicy":"Orphan","x":1}"#, Format::Json).expect("options");
    assert_eq!(options.object, json!({"propagationPolicy":"Orphan"}));
    assert_eq!(options.strict_errors, [r#"unknown field "x""#]);
    assert_eq!(
        decode_delete_options(b" ", Format::Json)
            .expect("empty options")
            .object,
        json!({})
    );
    let tree = json!({"apiVersion":"v1","kind":"Service","spec":{"nope":1,"type":"NodePort"}});
    let conformed = conform(tree, kind_of("Service")).expect("Service");
    assert_eq!(conformed.object["spec"], json!({"type":"NodePort"}));
    assert_eq!(conformed.strict_errors, [r#"unknown field "spec.nope""#]);
}

/// Upstream converts YAML to JSON with the scalars of YAML 1.1, then decodes `1` and `8`.
#[test]
fn whole_floats_and_octal_numbers_of_yaml_are_integers() {
    for (number, expected) in [("1.0", 1), ("1e2", 100), ("010", 8), ("0", 0)] {
        let text = format!("metadata: {{name: s, generation: {number}}}\n");
        let decoded = decode(text.as_bytes(), Format::Yaml, kind_of("Service")).expect("Service");
        assert_eq!(decoded.object["metadata"]["generation"], expected, "{number}");
    }
    assert!(service(r#"{"metadata":{"generation":1.0}}"#).is_err());
    let fraction = decode(b"metadata: {generation: 1.5}", Format::Yaml, kind_of("Service"));
    assert!(fraction.is_err());
}

#[test]
fn yaml_decodes_the_first_document() {
    for yaml in [
        "kind: Service\n---\nkind: Pod\n",
        "kind: Service\n---\n",
        "kind: Service\n...\n: x\n",
    ] {
        let decoded = decode(yaml.as_bytes(), Format::Yaml, kind_of("Service")).expect("Service");
        assert_eq!(decoded.object, json!({"apiVersion": "v1", "kind": "Service"}));
    }
}

#[test]
fn null_body_decodes_as_an_object_without_fields() {
    let expected = json!({"apiVersion": "v1", "kind": "Service"});
    assert_eq!(service("null").expect("Service").object, expected);
    let yaml = decode(b"# only a comment\n", Format::Yaml, kind_of("Service"));
    assert_eq!(yaml.expect("Service").object, expected);
    assert!(service("").is_err());
    assert!(service("[]").is_err());
}

/// Compares decoding with the recorded responses of the reference server.
#[test]
fn recorded_bodies_decode_as_recorded() {
    let mut compared = 0;
    for name in ["service-create", "service-update", "endpoints-write", "machinery"] {
        let path = format!("{}/../../conformance/api/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let cases: Value =
            serde_json::from_slice(&std::fs::read(path).expect("recorded cases")).expect("JSON");
        let steps = cases["cases"].as_array().expect("cases").iter().flat_map(|case| {
            let id = &case["id"];
            case["steps"]
                .as_array()
                .into_iter()
                .flatten()
                .map(move |step| (id, step))
        });
        for (id, step) in steps.filter(|(_, step)| step["do"] == "POST" && !step["body"].is_null()) {
            let (url, query) = step["path"]
                .as_str()
                .expect("path")
                .split_once('?')
                .unwrap_or_default();
            let url = if url.is_empty() {
                step["path"].as_str().unwrap_or_default()
            } else {
                url
            };
            let plural = url.rsplit('/').next().unwrap_or_default();
            let Some(kind) = kind::all().iter().find(|kind| kind.plural == plural) else {
                continue;
            };
            let body = step["body"]
                .as_str()
                .map_or_else(|| step["body"].to_string(), str::to_owned);
            let yaml = step["headers"]["Content-Type"]
                .as_str()
                .is_some_and(|content_type| content_type.contains("yaml"));
            let decoded = decode(
                body.as_bytes(),
                if yaml { Format::Yaml } else { Format::Json },
                kind,
            );
            match step["expect"]["status"].as_u64() {
                Some(400) => {
                    let strict = decoded.and_then(|decoded| decoded.strict(kind));
                    assert!(strict.is_err(), "{id}");
                }
                Some(201) if query.contains("fieldValidation=Strict") => {
                    let errors = decoded.expect("decoded object").strict_errors;
                    assert!(errors.is_empty(), "{id}: {errors:?}");
                }
                Some(201 | 422) => assert!(decoded.is_ok(), "{id}: {decoded:?}"),
                _ => continue,
            }
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared} compared");
}

/// Bodies that are small on the wire and large in memory, in all formats.
#[test]
fn rejects_more_values_than_the_maximum() {
    let list = |count: usize| format!("[{}0]", "[],".repeat(count));
    let decoded = |text: String| decode_untyped(text.as_bytes(), Format::Json).map(|_| ());
    // The list itself and the last item count as values.
    assert_eq!(decoded(list(VALUES_MAX - 2)), Ok(()));
    assert_eq!(decoded(list(VALUES_MAX - 1)), Err(DecodeError::TooManyValues));
    let yaml = format!("[{}]", "[],".repeat(VALUES_MAX));
    let from_yaml = decode_untyped(yaml.as_bytes(), Format::Yaml);
    assert!(from_yaml.is_err());
    let ports = format!(r#"{{"spec":{{"ports":[{}{{}}]}}}}"#, "{},".repeat(VALUES_MAX));
    assert_eq!(service(&ports).unwrap_err(), DecodeError::TooManyValues);
    let object: Value = serde_json::from_str(&ports).unwrap();
    let result = conform(object, kind_of("Service"));
    assert_eq!(result.unwrap_err(), DecodeError::TooManyValues);
}
