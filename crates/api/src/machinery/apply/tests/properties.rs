//! Properties of random objects and configurations.

use proptest::prelude::*;

use super::*;

fn labels() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-c]", "[xy]", 0..3).prop_map(|map| json!(map))
}

fn ports() -> impl Strategy<Value = Value> {
    let port = (
        (80..83i64),
        prop::option::of("TCP|UDP"),
        prop::option::of(1..3i64),
    );
    prop::collection::vec(port, 0..3).prop_map(|ports| {
        let ports = ports.into_iter().map(|(number, protocol, target)| {
            let mut port = json!({"port": number, "protocol": protocol});
            crate::machinery::tree::set_or_clear(&mut port, "targetPort", target.map(Value::from));
            port
        });
        Value::Array(ports.collect())
    })
}

prop_compose! {
    fn configurations()(labels in labels(), ports in ports(), finalizers in "[ab]{0,2}", kind in prop::option::of("A|B"))
        -> Value {
        let finalizers: Vec<String> = finalizers.chars().map(|character| format!("x/{character}")).collect();
        service(json!({"labels": labels, "finalizers": finalizers}), json!({"ports": ports, "type": kind}))
    }
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z:{}.\"]{0,6}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("metadata"),
        Just("spec"),
        Just("ports"),
        Just("port"),
        Just("managedFields"),
        Just("fieldsV1"),
        Just("f:spec"),
        Just("k:{}"),
        Just("v:1"),
        Just("labels"),
        Just("."),
        Just("operation"),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((name.clone(), inner), 0..5).prop_map(|fields| fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #[test]
    fn apply_is_idempotent(
        before in configurations(), first in configurations(), other in configurations(),
    ) {
        let kind = author("me").kind;
        let is_readable = |c: &Value| read_configuration(c.to_string().as_bytes(), kind).is_ok();
        prop_assume!(is_readable(&before) && is_readable(&first) && is_readable(&other));
        let object = apply(Some(&before), &other, author("other"), true).expect("forced apply");
        let object = apply(Some(&object), &first, author("me"), true).expect("forced apply");
        let again = apply(Some(&object), &first, author_at("me", LATER), false).expect("apply without conflict");
        prop_assert_eq!(&again, &object);
    }

    #[test]
    fn apply_sets_all_fields(before in configurations(), applied in configurations()) {
        let kind = author("me").kind;
        prop_assume!(read_configuration(applied.to_string().as_bytes(), kind).is_ok());
        let object = apply(Some(&before), &applied, author("me"), true).expect("forced apply");
        let layout = Layout::of_kind(kind);
        let (bare, _) = split_managed_fields(&object);
        let missing = Comparison::of(&bare, &applied, layout);
        prop_assert!(missing.added.is_empty() && missing.modified.is_empty(), "{:?}", missing);
    }

    #[test]
    fn apply_and_records_do_not_panic(live in anything(), configuration in anything(), requested in anything()) {
        let author = author("kubectl");
        let read = read_configuration(configuration.to_string().as_bytes(), author.kind);
        prop_assert!(read.is_err() || configuration["kind"] == "Service");
        let applied = apply(Some(&live), &configuration, author, true).expect("forced apply");
        record_update(&live, &applied, Some(&requested), author);
        record_creation(&live, Some(&requested), author);
        prop_assert!(is_same_except_times(&applied, &applied));
    }

    #[test]
    fn creation_equals_a_comparison_with_the_zero_object(object in configurations()) {
        let author = author("me");
        let mut comparison = Comparison::of_objects(zero_of(author.kind), &object, Layout::of_kind(author.kind));
        comparison.exclude(&["status"]);
        let fields = without_identity(&comparison.written());
        let created = record_creation(&object, None, author).map(|records| records[0]["fieldsV1"].clone());
        prop_assert_eq!(created, (!fields.is_empty()).then(|| fields_v1::format(&fields)));
    }

    #[test]
    fn field_sets_round_trip_through_fields_v1(value in configurations()) {
        let set = fields_of(&value, Layout::of_kind(author("me").kind));
        prop_assert_eq!(fields_v1::parse(&fields_v1::format(&set)), Some(set.clone()));
        prop_assert_eq!(set.single_fields().fold(FieldSet::default(), |all, one| all.union(&one)), set.clone());
        prop_assert_eq!(set.single_fields().count(), set.len());
        prop_assert!(set.difference(&set).is_empty());
        prop_assert_eq!(set.intersection(&set), set);
    }
}

// A response of kube-apiserver 1.36.2. Fields that its Go types serialize always have no entry `.`.
