mod properties;

use serde_json::json;

use super::layout::fields_of;
use super::*;
use crate::kinds::kind;

const NOON: &str = "2026-01-01T12:00:00Z";
const LATER: &str = "2026-01-01T13:00:00Z";

fn author(manager: &str) -> WriteAuthor<'_> {
    author_at(manager, NOON)
}

fn author_at<'a>(manager: &'a str, time: &'a str) -> WriteAuthor<'a> {
    let kind = kind::find("", "v1", "services").expect("kind");
    WriteAuthor {
        kind,
        subresource: None,
        manager,
        time,
    }
}

fn service(metadata: Value, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
    set(object.get_mut("metadata").expect("metadata"), "name", "s");
    object
}

fn port(name: &str, number: i64) -> Value {
    json!({"name": name, "port": number})
}

/// Applies a configuration that is parsed as a body.
fn apply_body(live: Option<&Value>, configuration: &Value, manager: &str) -> Result<Value, ApplyError> {
    let author = author(manager);
    let configuration = read_configuration(configuration.to_string().as_bytes(), author.kind)?;
    apply(live, &configuration, author, false)
}

/// Sets the managed fields of `new` after an update.
fn update(new: &mut Value, old: &Value, requested: Option<Value>, author: WriteAuthor<'_>) {
    let records = record_update(new, old, requested.as_ref(), author);
    crate::machinery::tree::set_or_clear(&mut new["metadata"], "managedFields", records);
}

fn records(object: &Value) -> Value {
    managed_fields(object).clone()
}

/// As upstream (`fieldpath/serialize-pe.go` of structured-merge-diff): integral numbers are integers, other numbers and
/// texts have the form of Go.
#[test]
fn values_in_field_sets_have_the_form_of_go() {
    for (given, expected) in [
        ("v:1", "v:1"),
        ("v:1.0", "v:1"),
        ("v:-2e3", "v:-2000"),
        ("v:1.50", "v:1.5"),
        ("v:1e21", "v:1e+21"),
        ("v:1e-7", "v:1e-07"),
        ("v:9007199254740993", "v:9007199254740992"),
        ("k:{\"port\":80.0}", "k:{\"port\":80}"),
        ("v:\"a<b>&\u{2028}\"", "v:\"a\\u003cb\\u003e\\u0026\\u2028\""),
        ("k:{\"type\":\"a&b\"}", "k:{\"type\":\"a\\u0026b\"}"),
    ] {
        let fields = |key: &str| Value::Object(serde_json::Map::from_iter([(key.to_owned(), json!({}))]));
        let set = fields_v1::parse(&fields(given)).expect("field set");
        assert_eq!(fields_v1::format(&set), fields(expected), "{given}");
    }
}

#[test]
fn apply_owns_the_fields_of_a_new_object() {
    let configuration = service(
        json!({"labels": {"a": "1"}}),
        json!({"ports": [{"port": 80}], "selector": {}}),
    );
    let object = apply_body(None, &configuration, "me").expect("applied object");
    let expected = json!([{
        "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "me", "operation": "Apply", "time": NOON,
        "fieldsV1": {
            "f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {
                "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
                "f:selector": {},
            },
        },
    }]);
    assert_eq!(records(&object), expected);
    assert_eq!(managers::parse(&expected).map(managers::format), Some(expected));
}

#[test]
fn apply_removes_omitted_fields_without_other_owners() {
    let first = service(
        json!({"labels": {"a": "1", "b": "2"}}),
        json!({"ports": [port("x", 80), port("y", 81)]}),
    );
    let object = apply_body(None, &first, "me").expect("applied object");
    let others = service(json!({"labels": {"b": "2"}}), json!({}));
    let object = apply_body(Some(&object), &others, "other").expect("applied object");
    let second = service(json!({}), json!({"ports": [port("y", 81)]}));
    let object = apply_body(Some(&object), &second, "me").expect("applied object");
    assert_eq!(object["metadata"]["labels"], json!({"b": "2"}));
    assert_eq!(object["spec"]["ports"], json!([port("y", 81)]));
    let second = service(json!({}), json!({}));
    let object = apply_body(Some(&object), &second, "me").expect("applied object");
    assert_eq!(object["spec"]["ports"], Value::Null);
}

/// Upstream: `managedFieldsUpdater.Apply` (`structured-merge-diff` returns no object then).
#[test]
fn apply_that_changes_no_value_does_not_change_the_time() {
    let apply_at = |live: Option<&Value>, spec: Value, manager: &str, time: &str| {
        apply(live, &service(json!({}), spec), author_at(manager, time), false).expect("applied object")
    };
    let times = |object: &Value| -> Vec<(String, Value)> {
        let entry = |entry: &Value| (text(entry, "manager").to_owned(), entry["time"].clone());
        let records = records(object);
        records.as_array().expect("records").iter().map(entry).collect()
    };
    let one = json!({"ports": [port("x", 80)]});
    let both = json!({"ports": [port("x", 80)], "type": "NodePort"});
    let object = apply_at(None, one.clone(), "me", NOON);
    let object = apply_at(Some(&object), both.clone(), "other", NOON);
    let mut object = apply_at(Some(&object), one.clone(), "third", LATER);
    let third = ("third".to_owned(), Value::Null);
    let at = |manager: &str, time: &str| (manager.to_owned(), json!(time));
    assert_eq!(times(&object), [third.clone(), at("me", NOON), at("other", NOON)]);
    // The manager owns another field with the same value, and gives it up again.
    for spec in [both, one] {
        object = apply_at(Some(&object), spec, "me", LATER);
        assert_eq!(times(&object), [third.clone(), at("me", NOON), at("other", NOON)]);
    }
    let object = apply_at(
        Some(&object),
        json!({"ports": [port("x", 80), port("y", 81)]}),
        "me",
        LATER,
    );
    assert_eq!(times(&object), [third, at("other", NOON), at("me", LATER)]);
}

#[test]
fn owned_fields_conflict_unless_forced() {
    let ports = |target: i64| json!({"ports": [{"port": 80, "targetPort": target}]});
    let object = apply_body(None, &service(json!({}), ports(1)), "me").expect("applied object");
    let theirs = service(json!({}), ports(2));
    let error = apply_body(Some(&object), &theirs, "other").expect_err("conflict");
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"me\": \
         .spec.ports[port=80,protocol=\"TCP\"].targetPort"
    );
    let object = apply(Some(&object), &theirs, author("other"), true).expect("forced apply");
    assert_eq!(object["spec"]["ports"][0]["targetPort"], 2);
    let mine = &records(&object)[0];
    assert_eq!(mine["manager"], "me");
    assert_eq!(
        mine["fieldsV1"]["f:spec"]["f:ports"],
        json!({"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}})
    );
}

#[test]
fn null_in_place_of_an_owned_value_conflicts() {
    let first = service(
        json!({"labels": {"a": "1"}}),
        json!({"ports": [port("x", 80)], "selector": {"s": "t"}, "externalIPs": ["192.0.2.1"], "type": "ClusterIP"}),
    );
    let object = apply_body(None, &first, "me").expect("applied object");
    for (path, metadata, spec) in [
        (".spec.selector", json!({}), json!({"selector": null})),
        (".spec.externalIPs", json!({}), json!({"externalIPs": null})),
        (".spec.type", json!({}), json!({"type": null})),
        (".metadata.labels.a", json!({"labels": {"a": null}}), json!({})),
    ] {
        let theirs = service(metadata, spec);
        let error = apply_body(Some(&object), &theirs, "other").expect_err("conflict");
        assert_eq!(
            error.to_string(),
            format!("Apply failed with 1 conflict: conflict with \"me\": {path}")
        );
        apply(Some(&object), &theirs, author("other"), true).expect("forced apply");
        apply_body(Some(&object), &theirs, "me").expect("own fields");
    }
    // `null` in the place of a list of items removes nothing.
    let theirs = service(json!({"labels": null}), json!({"ports": null}));
    let same = apply_body(Some(&object), &theirs, "other").expect("no conflict");
    assert_eq!(same["spec"]["ports"], object["spec"]["ports"]);
}

#[test]
fn null_in_place_of_an_owned_absent_value_conflicts() {
    let empty = service(json!({"annotations": {}}), json!({}));
    let mut object = apply_body(None, &empty, "me").expect("applied object");
    object["metadata"]
        .as_object_mut()
        .expect("metadata")
        .remove("annotations");
    let theirs = service(json!({"annotations": null}), json!({}));
    let error = apply_body(Some(&object), &theirs, "other").expect_err("conflict");
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"me\": .metadata.annotations"
    );
}

#[test]
fn emptied_maps_keep_their_other_owners() {
    let first = service(json!({"annotations": {"a": "1"}}), json!({}));
    let object = apply_body(None, &first, "me").expect("applied object");
    let empty = service(json!({"annotations": {}}), json!({}));
    let object = apply_body(Some(&object), &empty, "other").expect("no conflict");
    let object = apply_body(Some(&object), &service(json!({}), json!({})), "me").expect("own fields");
    let records = records(&object);
    let others = records.as_array().expect("managed fields").iter();
    let owned: Vec<&Value> = others
        .filter(|entry| entry["manager"] == "other")
        .map(|entry| &entry["fieldsV1"]["f:metadata"])
        .collect();
    assert_eq!(owned, [&json!({"f:annotations": {}})]);
}

#[test]
fn conflict_message_groups_by_manager() {
    let object =
        apply_body(None, &service(json!({"labels": {"a": "1"}}), json!({})), "me").expect("applied object");
    let object = apply_body(
        Some(&object),
        &service(json!({"labels": {"b": "1"}}), json!({})),
        "you",
    )
    .expect("applied object");
    let theirs = service(json!({"labels": {"a": "2", "b": "2"}}), json!({}));
    let error = apply_body(Some(&object), &theirs, "other").expect_err("conflict");
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"me\":\n- .metadata.labels.a\n\
         conflicts with \"you\":\n- .metadata.labels.b"
    );
}

#[test]
fn conflicts_are_bounded() {
    let labels = |value: &str| {
        let labels: serde_json::Map<String, Value> = (0..2_500)
            .map(|number| (format!("l{number}"), value.into()))
            .collect();
        service(json!({"labels": labels}), json!({}))
    };
    let object = apply_body(None, &labels("1"), "me").expect("applied object");
    let Err(ApplyError::Conflicts(conflicts)) = apply_body(Some(&object), &labels("2"), "other") else {
        panic!("expected conflicts");
    };
    assert_eq!(conflicts.len(), 1_001);
    assert_eq!(conflicts[1_000].path, "1500 further fields");
    let all = conflicts
        .iter()
        .fold(FieldSet::default(), |all, conflict| all.union(&conflict.fields));
    assert_eq!(all.len(), 2_500);
}

/// All fields of an item repeat its keys in their paths.
#[test]
fn items_with_long_keys_have_no_paths() {
    let with_protocol = |bytes: usize| {
        let protocol = "x".repeat(bytes);
        service(json!({}), json!({"ports": [{"port": 80, "protocol": protocol}]}))
    };
    apply_body(None, &with_protocol(4096), "me").expect("applied object");
    let error = apply_body(None, &with_protocol(4097), "me").expect_err("a long key");
    let text = error.to_string();
    assert!(
        text.contains("key field \"protocol\" has more than 4096 bytes"),
        "{text}"
    );
    let layout = Layout::of_kind(author("me").kind);
    let comparison = Comparison::of(&service(json!({}), json!({})), &with_protocol(4097), layout);
    assert_eq!(comparison.written().paths(), [".spec.ports"]);
}

#[test]
fn existing_fields_are_owned_before_the_first_apply() {
    let live = service(
        json!({"uid": "u"}),
        json!({"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}),
    );
    let object = apply_body(
        Some(&live),
        &service(json!({"labels": {"a": "1"}}), json!({})),
        "me",
    )
    .expect("applied object");
    let before = &records(&object)[1];
    assert_eq!(before["manager"], BEFORE_FIRST_APPLY);
    assert_eq!(before["operation"], "Update");
    assert_eq!(
        before["fieldsV1"],
        json!({"f:spec": {
            "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:protocol": {}}},
            "f:type": {},
        }})
    );
    let error = apply_body(
        Some(&live),
        &service(json!({}), json!({"type": "NodePort"})),
        "me",
    )
    .expect_err("conflict");
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .spec.type"
    );
}

#[test]
fn kubectl_owns_the_fields_of_its_annotation() {
    let applied = service(json!({}), json!({"type": "NodePort"}));
    let mut live = applied.clone();
    live["metadata"]["annotations"] =
        json!({ "kubectl.kubernetes.io/last-applied-configuration": applied.to_string() });
    let changed = service(json!({}), json!({"type": "ClusterIP"}));
    apply_body(Some(&live), &changed, "other").expect_err("conflict");
    let object = apply_body(Some(&live), &changed, "kubectl").expect("apply by kubectl");
    assert_eq!(object["spec"]["type"], "ClusterIP");
    let annotation = &object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    let kept: Value = serde_json::from_str(annotation.as_str().expect("annotation")).expect("JSON");
    assert_eq!(kept, changed);
    live["spec"]["type"] = "LoadBalancer".into();
    apply_body(Some(&live), &changed, "kubectl").expect_err("conflict");
}

#[test]
fn updates_acquire_changed_fields() {
    let old = apply_body(
        None,
        &service(json!({"labels": {"a": "1", "b": "1"}}), json!({})),
        "me",
    )
    .expect("applied object");
    let mut new = service(
        json!({"labels": {"a": "2"}, "annotations": {"x": "y"}}),
        json!({}),
    );
    update(&mut new, &old, None, author_at("kubectl-edit", LATER));
    let expected = json!({
        "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "kubectl-edit", "operation": "Update", "time": LATER,
        "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, "f:x": {}}, "f:labels": {"f:a": {}}}},
    });
    assert_eq!(records(&new)[0]["fieldsV1"], json!({"f:spec": {}}));
    assert_eq!(records(&new)[1], expected);
}

#[test]
fn empty_managed_fields_reset_the_record() {
    let mut new = service(json!({"labels": {"a": "2"}}), json!({}));
    update(&mut new, &service(json!({}), json!({})), None, author("me"));
    assert_eq!(records(&new), Value::Null);
    let old =
        apply_body(None, &service(json!({"labels": {"a": "1"}}), json!({})), "me").expect("applied object");
    for reset in [json!([]), json!([{}])] {
        let mut new = service(json!({}), json!({}));
        update(&mut new, &old, Some(reset), author("me"));
        assert_eq!(records(&new), Value::Null);
    }
    for unreadable in [
        json!([{"manager": "x"}]),
        json!([{"operation": "Apply"}, 1]),
        Value::Null,
    ] {
        let mut new = old.clone();
        clear(&mut new["metadata"], "managedFields");
        update(&mut new, &old, Some(unreadable), author("me"));
        assert_eq!(records(&new), records(&old));
    }
}

#[test]
fn creation_owns_the_fields_of_a_new_object() {
    let mut object = service(
        json!({"uid": "u", "labels": {"a": "1"}, "annotations": {}}),
        json!({"ports": [port("x", 80), port("y", 80)], "selector": {}, "externalIPs": ["192.0.2.1"]}),
    );
    object["spec"]["ports"][1]["protocol"] = "UDP".into();
    object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    let recorded = record_creation(&object, None, author("kubectl-create")).expect("managed fields");
    let port = json!({".": {}, "f:name": {}, "f:port": {}});
    let mut udp = port.clone();
    udp["f:protocol"] = json!({});
    let expected = json!([{
        "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "kubectl-create", "operation": "Update", "time": NOON,
        "fieldsV1": {
            "f:metadata": {"f:annotations": {}, "f:labels": {".": {}, "f:a": {}}},
            "f:spec": {
                "f:externalIPs": {},
                "f:ports": {
                    ".": {},
                    "k:{\"port\":80,\"protocol\":\"TCP\"}": port,
                    "k:{\"port\":80,\"protocol\":\"UDP\"}": udp,
                },
                "f:selector": {},
            },
        },
    }]);
    assert_eq!(recorded, expected);
    let nameless = record_creation(&object, None, author("")).expect("managed fields");
    assert_eq!(nameless[0]["manager"], "unknown");
    // The creator replaces managed fields of the request.
    let recorded = record_creation(&object, Some(&expected), author("other")).expect("managed fields");
    assert_eq!(recorded.as_array().map(Vec::len), Some(1));
    assert_eq!(recorded[0]["manager"], "other");
}

#[test]
fn fields_that_a_path_does_not_write_have_no_owner() {
    let old = service(json!({"uid": "u"}), json!({"type": "NodePort"}));
    let mut stored = old.clone();
    stored["metadata"]["managedFields"] = record_creation(&old, None, author("me")).expect("managed fields");
    let mut new = old.clone();
    new["spec"] = json!({});
    new["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    let on_status = WriteAuthor {
        subresource: Some("status"),
        ..author("balancer")
    };
    let recorded = record_update(&new, &stored, None, on_status).expect("managed fields");
    assert_eq!(recorded[1]["fieldsV1"], json!({"f:spec": {"f:type": {}}}));
    assert_eq!(recorded[0]["subresource"], "status");
    assert_eq!(
        recorded[0]["fieldsV1"],
        json!({"f:status": {"f:loadBalancer": {"f:ingress": {}}}})
    );
    let recorded = record_update(&new, &stored, None, author("me"));
    assert_eq!(recorded, None);
}

/// Upstream: registry/networking/servicecidr, registry/apps/deployment and registry/core/pod, `GetResetFields`.
#[test]
fn writes_of_the_status_own_no_metadata_that_they_do_not_write() {
    let changed = json!({"labels": {"a": "b"}, "annotations": {"c": "d"}, "ownerReferences": [{"uid": "u"}]});
    for (name, owned) in [
        ("ServiceCIDR", vec![]),
        ("Deployment", vec!["f:annotations", "f:ownerReferences"]),
        ("Pod", vec!["f:annotations", "f:labels"]),
        ("Service", vec!["f:annotations", "f:labels", "f:ownerReferences"]),
    ] {
        let on_status = WriteAuthor {
            kind: kind::all().iter().find(|kind| kind.kind == name).expect("kind"),
            subresource: Some("status"),
            ..author("me")
        };
        let mut old = json!({"metadata": {"name": "n"}, "spec": {"a": 1}});
        old["metadata"]["managedFields"] =
            record_creation(&old, None, author("you")).expect("managed fields");
        let new = json!({"metadata": changed, "spec": {"a": 1}});
        let recorded = record_update(&new, &old, None, on_status).expect("managed fields");
        let entries = recorded.as_array().expect("entries");
        let own = entries.iter().find(|entry| entry["manager"] == "me");
        let fields = own.and_then(|entry| entry["fieldsV1"]["f:metadata"].as_object());
        let mut names: Vec<&str> = fields
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect();
        names.sort_unstable();
        assert_eq!(names, owned, "{name}");
    }
}

/// The responses of kube-apiserver 1.36.2.
#[test]
fn unknown_times_of_conditions_are_owned() {
    let mut old = service(json!({}), json!({"type": "NodePort"}));
    old["metadata"]["managedFields"] = record_creation(&old, None, author("you")).expect("managed fields");
    let on_status = WriteAuthor {
        subresource: Some("status"),
        ..author("me")
    };
    let times = |time: Value| json!([{"type": "Ready", "status": "True", "lastTransitionTime": time}]);
    let mut new = old.clone();
    new["status"] = json!({"conditions": times(Value::Null)});
    let recorded = record_update(&new, &old, None, on_status).expect("managed fields");
    let condition = json!({".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}});
    let fields = |records: &Value, manager: &str| {
        let entry = records
            .as_array()
            .and_then(|entries| entries.iter().find(|entry| entry["manager"] == manager).cloned());
        entry.expect("entry")["fieldsV1"]["f:status"]["f:conditions"]["k:{\"type\":\"Ready\"}"].clone()
    };
    assert_eq!(fields(&recorded, "me"), condition);
    new["metadata"]["managedFields"] = recorded;
    let mut later = new.clone();
    later["status"]["conditions"] = times(json!(NOON));
    let other = WriteAuthor {
        manager: "other",
        ..on_status
    };
    let recorded = record_update(&later, &new, None, other).expect("managed fields");
    assert_eq!(fields(&recorded, "other"), json!({"f:lastTransitionTime": {}}));
    assert_eq!(
        fields(&recorded, "me"),
        json!({".": {}, "f:status": {}, "f:type": {}})
    );
}

#[test]
fn entries_without_fields_replace_the_managed_fields() {
    let mut old = service(json!({}), json!({"type": "NodePort"}));
    old["metadata"]["managedFields"] = record_creation(&old, None, author("me")).expect("managed fields");
    let entry = json!([{
        "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {},
    }]);
    assert_eq!(record_update(&old, &old, Some(&entry), author("you")), None);
}

#[test]
fn oldest_updaters_are_merged() {
    let mut object =
        apply_body(None, &service(json!({"labels": {"a": "1"}}), json!({})), "me").expect("applied object");
    for index in 0..20 {
        let mut new = object.clone();
        clear(&mut new["metadata"], "managedFields");
        new["metadata"]["labels"][format!("l{index}")] = "x".into();
        let time = format!("2026-01-01T12:00:{index:02}Z");
        update(&mut new, &object, None, author_at(&format!("m{index}"), &time));
        object = new;
    }
    let records = records(&object);
    let names: Vec<&str> = crate::machinery::tree::items(&object["metadata"], "managedFields")
        .iter()
        .map(|manager| text(manager, "manager"))
        .collect();
    assert_eq!(names.len(), 11, "{records}");
    assert_eq!(&names[..3], ["me", "ancient-changes", "m11"]);
    assert!(records[1]["fieldsV1"]["f:metadata"]["f:labels"]["f:l10"].is_object());
}

#[test]
fn apply_paths_write_their_fields() {
    let mut configuration = service(json!({}), json!({"type": "NodePort"}));
    configuration["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let object = apply_body(None, &configuration, "me").expect("applied object");
    assert_eq!(object.get("status"), None);
    let on_status = WriteAuthor {
        subresource: Some("status"),
        ..author("me")
    };
    let object = apply(Some(&object), &configuration, on_status, false).expect("applied object");
    let records = records(&object);
    assert_eq!(records[0]["fieldsV1"], json!({"f:spec": {"f:type": {}}}));
    assert_eq!(records[1]["subresource"], "status");
    assert_eq!(
        records[1]["fieldsV1"]["f:status"]["f:conditions"],
        json!({"k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}, "f:type": {}}})
    );
}

#[test]
fn rejects_invalid_configurations() {
    let error_of = |configuration: Value| {
        apply_body(None, &configuration, "me")
            .expect_err("rejected configuration")
            .to_string()
    };
    let untyped =
        |error: &str| format!("failed to create typed patch object (/s; /v1, Kind=Service): {error}");
    let cases = [
        (
            json!({"nonsense": 1}),
            ".spec.nonsense: field not declared in schema",
        ),
        (json!({"type": 1}), ".spec.type: expected string, got 1"),
        (json!({"ports": {}}), ".spec.ports: expected list, got a map"),
        (
            json!({"ports": [port("a", 80), port("b", 80)]}),
            ".spec.ports: duplicate entries for key [port=80,protocol=\"TCP\"]",
        ),
        (
            json!({"ports": [{"port": "80"}]}),
            ".spec.ports[port=\"80\",protocol=\"TCP\"].port: expected numeric (int or float), got \"80\"",
        ),
        // As upstream: the key fields default to their zero values.
        (
            json!({"ports": [{}, {"name": "b"}]}),
            ".spec.ports: duplicate entries for key [port=0,protocol=\"TCP\"]",
        ),
    ];
    for (spec, error) in cases {
        assert_eq!(error_of(service(json!({}), spec)), untyped(error));
    }
    assert_eq!(
        error_of(service(json!({"managedFields": []}), json!({}))),
        "metadata.managedFields must be nil"
    );
    assert_eq!(
        error_of(json!({"kind": "Service"})),
        "invalid object type: , Kind=Service"
    );
    let kind = author("me").kind;
    assert!(matches!(
        read_configuration(b"[]", kind),
        Err(ApplyError::Syntax(_))
    ));
    assert!(matches!(
        read_configuration(b"{", kind),
        Err(ApplyError::Syntax(_))
    ));
}

#[test]
fn list_merge_keeps_both_orders() {
    let list = |names: &str| {
        Value::Array(
            names
                .chars()
                .map(|character| Value::from(character.to_string()))
                .collect(),
        )
    };
    for (live, applied, expected) in [
        ("abc", "", "abc"),
        ("", "abc", "abc"),
        ("abc", "d", "abcd"),
        ("abc", "cba", "cba"),
        ("xaybz", "ab", "xaybz"),
        ("ab", "bxa", "bxa"),
        ("axb", "bca", "xbca"),
    ] {
        let merged = merge::merge(Some(&list(live)), &list(applied), Layout::Set);
        assert_eq!(merged, list(expected), "{live} {applied}");
    }
}

#[test]
fn duplicate_items_are_owned_together() {
    let layout = Layout::Set;
    let set = fields_of(&json!(["a", "b", "a"]), layout);
    assert_eq!(set.paths(), ["[=\"a\"]", "[=\"b\"]"]);
    let comparison = Comparison::of(&json!(["a", "a"]), &json!(["a"]), layout);
    assert_eq!(comparison.modified.paths(), ["[=\"a\"]"]);
}

#[test]
fn comparison_ignores_times() {
    let configuration = service(json!({"labels": {"a": "1"}}), json!({}));
    let now = apply(None, &configuration, author("me"), false).expect("applied object");
    let later = apply(None, &configuration, author_at("me", LATER), false).expect("applied object");
    assert!(now != later && is_same_except_times(&now, &later));
    let other = apply(None, &configuration, author("you"), false).expect("applied object");
    assert!(!is_same_except_times(&now, &other));
}

#[test]
fn new_workloads_have_no_entries_of_fields_that_are_always_present() {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": "25%"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"securityContext": {}, "dnsPolicy": "ClusterFirst",
            "containers": [{"name": "c", "image": "i", "resources": {}}]}}}, "status": {}});
    let author = WriteAuthor {
        kind: kind::find("apps", "v1", "deployments").expect("kind"),
        ..author("me")
    };
    let records = record_creation(&deployment, None, author).expect("records");
    assert_eq!(
        records[0]["fieldsV1"],
        json!({"f:spec": {
            "f:replicas": {}, "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {
                    "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}},
                    "f:dnsPolicy": {}, "f:securityContext": {},
                },
            },
        }})
    );
}

#[test]
fn many_managers_parse_in_linear_time_and_their_last_entries_count() {
    let entry = |manager: usize, time: &str| {
        json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}, "operation": "Apply",
            "manager": manager.to_string(), "time": time})
    };
    let entries: Vec<Value> = (0..20_000)
        .map(|number| entry(number, NOON))
        .chain([entry(7, LATER)])
        .collect();
    let parsed = managers::parse(&json!(entries)).expect("managers");
    assert_eq!(parsed.len(), 20_000);
    assert_eq!((&*parsed[7].name, &*parsed[7].time), ("7", LATER));
}
