use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::kinds::kind;

mod limits;

fn kind_of(name: &str) -> &'static Kind {
    kind::all().iter().find(|kind| kind.kind == name).expect("kind")
}

fn patched(format: PatchFormat, object: &Value, patch: &Value) -> Result<Value, PatchError> {
    apply(object, patch.to_string().as_bytes(), format, kind_of("Pod")).map(|patched| patched.object)
}

fn strategic(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    patched(PatchFormat::StrategicMerge, object, patch)
}

/// Returns the names of a list's items.
fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["name"].as_str())
        .collect()
}

fn pod(containers: &[&str]) -> Value {
    let containers: Vec<Value> = containers
        .iter()
        .map(|name| json!({"name": name, "image": "old"}))
        .collect();
    json!({"spec": {"containers": containers}})
}

#[test]
fn json_patch_operations_are_applied_in_order() {
    let object = json!({"metadata": {"labels": {"a/b": "1"}}, "list": [1, 2]});
    let patch = json!([
        {"op": "test", "path": "/metadata/labels/a~1b", "value": "1"},
        {"op": "add", "path": "/list/-", "value": 3},
        {"op": "remove", "path": "/metadata/labels/a~1b"},
        {"op": "copy", "from": "/list", "path": "/other"},
    ]);
    assert_eq!(
        patched(PatchFormat::Json, &object, &patch),
        Ok(json!({"metadata": {"labels": {}}, "list": [1, 2, 3], "other": [1, 2, 3]}))
    );
    let codes = [
        (json!([{"op": "test", "path": "/list/0", "value": 9}]), 422),
        (json!([{"op": "remove", "path": "/nope"}]), 422),
        (json!([{"op": "add", "path": "/list/9", "value": 9}]), 422),
        (json!([{"op": "explode", "path": "/list"}]), 422),
        (json!({"op": "add"}), 400),
        (
            Value::Array(vec![json!({"op": "remove", "path": "/list/0"}); 10_001]),
            413,
        ),
        (
            Value::Array(vec![
                json!({"op": "copy", "from": "/list", "path": "/list/-"});
                40
            ]),
            413,
        ),
        (json!([{"op": "copy", "from": "", "path": "/other"}]), 422),
        (json!([{"op": "add", "path": "", "value": {}}]), 422),
        (json!([{"op": "test", "path": "/list/0", "value": 1.0}]), 422),
        (json!([{"op": "replace", "path": "/list/7", "value": 1}]), 422),
        (json!([{"op": "add", "path": "list", "value": 1}]), 422),
        (json!([{"op": "add", "value": 1}]), 422),
        (json!([null]), 422),
        (json!([{"op": 1, "path": "/list"}]), 400),
        (json!(["add"]), 400),
    ];
    for (patch, code) in codes {
        let error = patched(PatchFormat::Json, &object, &patch).expect_err("rejected patch");
        assert_eq!(error.status_code(), code, "{error}");
    }
}

/// Upstream's library differs from RFC 6902 in these operations.
#[test]
fn applies_json_patches_that_the_rfc_forbids() {
    let object = json!({"list": [1, 2], "a": {}});
    let cases = [
        (
            json!({"op": "replace", "path": "/new", "value": 5}),
            json!({"list": [1, 2], "a": {}, "new": 5}),
        ),
        (
            json!({"op": "copy", "from": "/none", "path": "/new"}),
            json!({"list": [1, 2], "a": {}, "new": null}),
        ),
        (
            json!({"op": "test", "path": "/none", "value": null}),
            object.clone(),
        ),
        (json!({"op": "test", "path": "/none"}), object.clone()),
        (
            json!({"op": "remove", "path": "/list/-1"}),
            json!({"list": [1], "a": {}}),
        ),
        (
            json!({"op": "add", "path": "/list/01", "value": 9}),
            json!({"list": [1, 9, 2], "a": {}}),
        ),
        (
            json!({"op": "add", "path": "/a/x"}),
            json!({"list": [1, 2], "a": {"x": null}}),
        ),
        (
            json!({"op": "replace", "path": "", "value": {"b": 1}}),
            json!({"b": 1}),
        ),
    ];
    for (operation, expected) in cases {
        assert_eq!(
            patched(PatchFormat::Json, &object, &json!([operation])),
            Ok(expected),
            "{operation}"
        );
    }
    assert_eq!(patched(PatchFormat::Json, &object, &Value::Null), Ok(object));
}

#[test]
fn reports_duplicate_and_unknown_fields_of_patches() {
    let errors = |format, body: &str| {
        let object = json!({"metadata": {}, "spec": {}});
        apply(&object, body.as_bytes(), format, kind_of("Pod")).map(|patched| patched.strict_errors)
    };
    let duplicate = r#"{"spec": {"a": 1, "a": 2}}"#;
    for format in [PatchFormat::Merge, PatchFormat::StrategicMerge] {
        assert_eq!(
            errors(format, duplicate),
            Ok(vec![r#"duplicate field "spec.a""#.to_owned()])
        );
    }
    let operation = r#"[{"op": "add", "path": "/spec/a", "value": 1, "x": 1, "x": 2}]"#;
    let expected = [
        r#"json patch duplicate field "[0].x""#,
        r#"json patch unknown field "[0].x""#,
    ];
    assert_eq!(
        errors(PatchFormat::Json, operation),
        Ok(expected.map(str::to_owned).to_vec())
    );
}

// The warnings are those of kube-apiserver: it keeps the values of operations as text until an operation changes a part.
#[test]
fn reports_duplicate_fields_that_a_json_patch_brings_into_the_object() {
    let errors = |body: &str| {
        let object = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a"}]}});
        let patched = apply(&object, body.as_bytes(), PatchFormat::Json, kind_of("Pod"));
        patched.expect("patch").strict_errors
    };
    let labels = r#"{"op": "add", "path": "/metadata/labels", "value": {"a": "1", "a": "2"}}"#;
    let of_patch = r#"json patch duplicate field "[0].value.a""#;
    let of_object = r#"duplicate field "metadata.labels.a""#;
    assert_eq!(errors(&format!("[{labels}]")), [of_patch, of_object]);
    for later in [
        r#"{"op": "add", "path": "/metadata/labels/b", "value": "3"}"#,
        r#"{"op": "remove", "path": "/metadata/labels"}"#,
        r#"{"op": "replace", "path": "/metadata", "value": {"name": "a"}}"#,
    ] {
        assert_eq!(errors(&format!("[{labels}, {later}]")), [of_patch], "{later}");
    }
    let elsewhere = r#"{"op": "add", "path": "/metadata/annotations", "value": {}}"#;
    assert_eq!(errors(&format!("[{labels}, {elsewhere}]")), [of_patch, of_object]);
    let item = r#"[{"op": "add", "path": "/spec/containers/-", "value": {"name": "b", "name": "c"}}]"#;
    assert_eq!(
        errors(item),
        [
            r#"json patch duplicate field "[0].value.name""#,
            r#"duplicate field "spec.containers[1].name""#,
        ]
    );
    let values = r#"[{"op": "add", "path": "/metadata/labels", "value": {}, "value": {"a": "b"}}]"#;
    assert_eq!(errors(values), [r#"json patch duplicate field "[0].value""#]);
    let unknown = r#"[{"op": "add", "path": "/spec/color", "value": {"a": 1, "a": 2}}]"#;
    assert_eq!(errors(unknown), [of_patch]);
}

/// As upstream: a field that the object lacks is taken as it is, so that no merge key is needed.
#[test]
fn strategic_patches_set_absent_lists_as_they_are() {
    let patch = json!({"metadata": {"finalizers": ["a", "a"], "ownerReferences": [{"kind": "K"}, {"uid": "u", "$patch": "delete"}],
        "labels": {"$patch": "replace", "x": "y", "z": null}}});
    let expected = json!({"metadata": {"finalizers": ["a", "a"], "ownerReferences": [{"kind": "K"}], "labels": {"x": "y"}}});
    assert_eq!(
        patched(PatchFormat::StrategicMerge, &json!({"metadata": {}}), &patch),
        Ok(expected)
    );
}

/// As upstream: the kind of the path counts, not that of a strategic merge patch.
#[test]
fn strategic_patches_cannot_change_the_kind() {
    let object = json!({"apiVersion": "v1", "kind": "Pod"});
    let patch = json!({"apiVersion": "v9", "kind": "Service"});
    assert_eq!(
        patched(PatchFormat::StrategicMerge, &object, &patch),
        Ok(object.clone())
    );
    assert_eq!(
        patched(PatchFormat::StrategicMerge, &object, &Value::Null),
        Ok(object)
    );
}

#[test]
fn merge_patch_replaces_and_removes_fields() {
    let object = json!({"a": {"b": 1, "c": 2}, "l": [1]});
    let patch = json!({"a": {"b": null, "d": 3}, "l": [2]});
    assert_eq!(
        patched(PatchFormat::Merge, &object, &patch),
        Ok(json!({"a": {"c": 2, "d": 3}, "l": [2]}))
    );
    for body in ["[]", "1", "{oops", ""] {
        let error = apply(&object, body.as_bytes(), PatchFormat::Merge, kind_of("Pod")).expect_err(body);
        assert_eq!(error.status_code(), 400);
    }
}

#[test]
fn merges_lists_by_key() {
    let patch =
        json!({"spec": {"containers": [{"name": "b", "image": "new"}, {"name": "c", "image": "new"}]}});
    let result = strategic(&pod(&["a", "b"]), &patch).expect("patched object");
    assert_eq!(
        result,
        json!({"spec": {"containers": [{"name": "a", "image": "old"}, {"name": "b", "image": "new"},
                                       {"name": "c", "image": "new"}]}})
    );
    let patch =
        json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}], "tolerations": [{"key": "x"}]}});
    let result = strategic(&pod(&["a", "b"]), &patch).expect("patched object");
    assert_eq!(names(&result["spec"]["containers"]), ["b"]);
    let patch = json!({"spec": {"tolerations": [{"key": "y"}], "containers": [{"$patch": "replace"}, {"name": "z"}]}});
    let result = strategic(&result, &patch).expect("patched object");
    assert_eq!(
        result,
        json!({"spec": {"containers": [{"name": "z"}], "tolerations": [{"key": "y"}]}})
    );
}

#[test]
fn merges_service_ports_by_port() {
    let service =
        json!({"spec": {"ports": [{"port": 80, "nodePort": 30080}, {"port": 443}], "selector": {"a": "1"}}});
    let patch = json!({"spec": {"ports": [{"port": 80, "name": "http"}], "selector": {"b": "2"}}});
    let result = apply(
        &service,
        patch.to_string().as_bytes(),
        PatchFormat::StrategicMerge,
        kind_of("Service"),
    );
    assert_eq!(
        result.map(|patched| patched.object),
        Ok(
            json!({"spec": {"ports": [{"port": 80, "nodePort": 30080, "name": "http"}, {"port": 443}],
                           "selector": {"a": "1", "b": "2"}}})
        )
    );
}

#[test]
fn applies_directives_of_objects() {
    let object = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"nodeName": "n"}});
    let patch =
        json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}, "spec": {"$patch": "delete"}});
    assert_eq!(
        strategic(&object, &patch),
        Ok(json!({"metadata": {"labels": {"c": "3"}}, "spec": {}}))
    );
    let volumes = json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}});
    let patch =
        json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]}});
    assert_eq!(
        strategic(&volumes, &patch),
        Ok(json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}))
    );
}

#[test]
fn merges_lists_of_scalars() {
    let object = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["d", "a"]}});
    let result = strategic(&object, &patch).expect("patched object");
    assert_eq!(result["metadata"]["finalizers"], json!(["d", "a", "c"]));
    let patch = json!({"metadata": {"$setElementOrder/finalizers": ["c", "a"]}});
    let result = strategic(&object, &patch).expect("patched object");
    assert_eq!(result["metadata"]["finalizers"], json!(["b", "c", "a"]));
}

/// Upstream: apimachinery/pkg/util/strategicpatch/patch.go, `mergeMap`.
#[test]
fn deletions_of_other_types_have_no_effect() {
    let object = json!({"metadata": {"finalizers": ["a", "b"]}});
    for other in [json!("a"), json!(1), json!({"a": "b"})] {
        let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": other}});
        assert_eq!(strategic(&object, &patch).expect("patched object"), object);
    }
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": null}});
    assert_eq!(
        strategic(&object, &patch).expect("patched object"),
        json!({"metadata": {}})
    );
}

/// Upstream: apimachinery/pkg/util/strategicpatch/meta.go, `LookupPatchMetadataForSlice`.
#[test]
fn orders_of_unknown_lists_are_errors() {
    let patch = json!({"spec": {"$setElementOrder/nope": [1]}});
    let error = strategic(&pod(&["a"]), &patch).expect_err("unknown field");
    assert_eq!(error.status_code(), 500);
    assert_eq!(
        error.to_string(),
        r#"unable to find api field in struct PodSpec for the json field "nope""#
    );
}

#[test]
fn applies_the_requested_order_of_elements() {
    let by_name = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
    let patch = json!({"spec": {
        "$setElementOrder/containers": by_name(&["c", "new", "a"]),
        "containers": by_name(&["new"]),
    }});
    let result = strategic(&pod(&["a", "b", "c"]), &patch).expect("patched object");
    assert_eq!(names(&result["spec"]["containers"]), ["b", "c", "new", "a"]);
    let patch = json!({"spec": {
        "$setElementOrder/containers": by_name(&["a"]),
        "containers": by_name(&["b"]),
    }});
    assert_eq!(
        strategic(&pod(&["a"]), &patch)
            .expect_err("incomplete order")
            .to_string(),
        "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n"
    );
}

#[test]
fn messages_about_directives_match_upstream() {
    for (spec, message) in [
        (
            json!({"$patch": "merge", "nodeName": "n"}),
            "unknown patch type: merge in map: map[$patch:merge nodeName:n]",
        ),
        (
            json!({"$patch": 1}),
            "unknown patch type: %!s(int64=1) in map: map[$patch:1]",
        ),
        (
            json!({"containers": [{"name": "a", "$patch": null}]}),
            "unknown patch type: %!s(<nil>) in map: map[$patch:<nil> name:a]",
        ),
        (
            json!({"containers": [{"image": "x"}]}),
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"containers": ["x"]}),
            "list element types are not identical: [[map[image:old name:a]] [x]]",
        ),
    ] {
        let error = strategic(&pod(&["a"]), &json!({"spec": spec})).expect_err("a wrong directive");
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn items_with_the_same_key_stand_together_after_a_patch() {
    let service = kind::find("", "v1", "services").expect("the kind Service");
    let port =
        |name: &str, port: u16, protocol: &str| json!({"name": name, "port": port, "protocol": protocol});
    let object = json!({"spec": {"ports": [
        port("dns", 53, "UDP"), port("metrics", 9153, "TCP"), port("dns-tcp", 53, "TCP"), port("last", 80, "TCP"),
    ]}});
    for (patch, expected) in [
        (
            json!([{"port": 99, "$patch": "delete"}]),
            vec!["dns", "dns-tcp", "metrics", "last"],
        ),
        (
            json!([{"port": 99, "name": "n"}]),
            vec!["n", "dns", "dns-tcp", "metrics", "last"],
        ),
        (
            json!([{"port": 9153, "name": "m"}]),
            vec!["dns", "dns-tcp", "m", "last"],
        ),
        (
            json!([{"port": 53, "name": "q"}]),
            vec!["q", "dns-tcp", "metrics", "last"],
        ),
        (
            json!([{"port": 9153, "$patch": "delete"}]),
            vec!["dns", "dns-tcp", "last"],
        ),
    ] {
        let body = json!({"spec": {"ports": patch}}).to_string();
        let patched = apply(&object, body.as_bytes(), PatchFormat::StrategicMerge, service);
        let patched = patched.expect("a patched object").object;
        assert_eq!(names(&patched["spec"]["ports"]), expected, "{body}");
    }
}

#[test]
fn rejects_invalid_strategic_patches() {
    let codes = [
        (json!({"spec": {"$patch": "explode"}}), 500),
        (json!({"spec": {"$patch": 1}}), 500),
        (json!({"spec": {"$patch": "merge", "nodeName": "n"}}), 500),
        (json!({"spec": {"containers": [{"image": "x"}]}}), 500),
        (json!({"spec": {"containers": [["x"]]}}), 500),
        (json!({"spec": {"containers": ["x"]}}), 500),
        (
            json!({"spec": {"containers": [{"name": "a", "$patch": "merge"}]}}),
            500,
        ),
        (json!({"spec": {"$setElementOrder/containers": {}}}), 400),
        (json!({"spec": {"$retainKeys": 1}}), 400),
        (json!({"spec": {"$retainKeys": ["a"], "nodeName": "n"}}), 400),
    ];
    for (patch, code) in codes {
        let error = strategic(&pod(&["a"]), &patch).expect_err(&patch.to_string());
        assert_eq!(error.status_code(), code, "{patch}: {error}");
    }
}

/// Generates trees with the names and values of patches.
fn tree() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "spec",
        "metadata",
        "containers",
        "finalizers",
        "volumes",
        "name",
        "env",
        "labels",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "op",
        "path",
        "from",
        "value",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        prop::sample::select(vec![
            "a", "b", "replace", "delete", "merge", "/spec", "add", "copy", ""
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((name.clone(), inner), 0..4).prop_map(|fields| {
                Value::Object(
                    fields
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect::<Map<_, _>>(),
                )
            }),
        ]
    })
}

proptest! {
    #[test]
    fn patches_do_not_panic_and_merge_patches_are_idempotent(object in tree(), patch in tree()) {
        for format in [PatchFormat::Json, PatchFormat::Merge, PatchFormat::StrategicMerge] {
            let Ok(once) = patched(format, &object, &patch) else { continue };
            if format == PatchFormat::Merge {
                prop_assert_eq!(patched(format, &once, &patch), Ok(once.clone()));
            }
        }
    }

    /// Without directives, a second application of a strategic patch changes nothing.
    #[test]
    fn strategic_patches_are_idempotent(names in "[a-d]{0,4}", patch_names in "[a-d]{0,4}") {
        let list = |names: &str| -> Vec<Value> {
            let mut chars: Vec<char> = names.chars().collect();
            chars.sort_unstable_by_key(|character| u32::from(*character) % 3);
            chars.dedup();
            chars.iter().map(|character| json!({"name": character.to_string(), "image": names})).collect()
        };
        let object = json!({"spec": {"containers": list(&names)}});
        let patch = json!({"spec": {"containers": list(&patch_names)}});
        let once = strategic(&object, &patch).expect("patched object");
        prop_assert_eq!(strategic(&once, &patch), Ok(once.clone()));
        for item in list(&patch_names) {
            let held = once["spec"]["containers"].as_array().is_some_and(|list| list.contains(&item));
            prop_assert!(held);
        }
    }
}
