use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kinds::kind::{self, Kind};

fn kind_of(name: &str) -> &'static Kind {
    kind::all().iter().find(|kind| kind.kind == name).expect("kind")
}

fn labelled(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}})
}

/// The error of each invalid value repeats the key.
#[test]
fn errors_of_a_label_selector_are_bounded_in_size() {
    let values: Vec<String> = (0..5_000).map(|number| format!("-{number}")).collect();
    let text = format!("{} in ({})", "k".repeat(30_000), values.join(","));
    let error = LabelSelector::parse(&text)
        .expect_err("invalid values")
        .to_string();
    assert!(error.contains("values[0]"));
    assert!(error.len() < 256 << 10, "{} bytes", error.len());
}

#[test]
fn label_selector_matches_labels_of_objects() {
    let object = labelled(&json!({"app": "x", "env": "prod", "n": "7", "empty": ""}));
    let holds = [
        "",
        " ",
        "app=x",
        "app==x",
        "app = x",
        "app!=y",
        "nope!=y",
        "app",
        "!nope",
        "app in (x,y)",
        "app in ( y , x )",
        "app notin (y)",
        "nope notin (y)",
        "env=prod,app=x",
        "empty=",
        "empty in (,a)",
        "n>6",
        "n<8",
        "in!=a",
        "env,app in (x)",
    ];
    for text in holds {
        assert!(
            LabelSelector::parse(text).expect(text).matches_object(&object),
            "{text}"
        );
    }
    for text in [
        "app=y",
        "app!=x",
        "nope",
        "!app",
        "app in (y)",
        "app notin (x,y)",
        "n>7",
        "app>1",
        "nope<1",
        "app=",
    ] {
        assert!(
            !LabelSelector::parse(text).expect(text).matches_object(&object),
            "{text}"
        );
    }
    assert!(
        !LabelSelector::parse("app")
            .expect("selector")
            .matches_object(&json!({}))
    );
}

#[test]
fn empty_position_is_the_empty_value() {
    let matches = |text: &str, value: &str| {
        let object = json!({"metadata": {"labels": {"app": value}}});
        LabelSelector::parse(text).expect(text).matches_object(&object)
    };
    for text in [
        "app in ()",
        "app in (,)",
        "app in (,x)",
        "app in (x,)",
        "app=",
        "app in ( )",
    ] {
        assert!(matches(text, ""), "{text}");
        assert!(!matches(text, "y"), "{text}");
    }
    assert!(!matches("app notin ()", ""));
    assert!(matches("app notin ()", "x"));
}

#[test]
fn rejects_invalid_label_selectors() {
    let cases = [
        ("app in x", "unable to parse requirement: found 'x' expected: '('"),
        (
            "app in (x",
            "unable to parse requirement: found '', expected: ',' or ')'",
        ),
        (
            "app in (x y)",
            "unable to parse requirement: found 'y', expected: ',' or ')'",
        ),
        (
            "app gt 1",
            "unable to parse requirement: found 'gt', expected: in, notin, =, ==, !=, gt, lt",
        ),
        (",app", "found ',', expected: !, identifier, or 'end of string'"),
        ("app,", "found '', expected: identifier after ','"),
        ("!app=x", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("app=x=y", "found '=', expected: ',' or 'end of string'"),
        (
            "-app",
            "unable to parse requirement: key: Invalid value: \"-app\"",
        ),
        (
            "app=-",
            "unable to parse requirement: values[0][app]: Invalid value: \"-\"",
        ),
        ("app>x", "for 'Gt', 'Lt' operators, the value must be an integer"),
    ];
    for (text, expected) in cases {
        let error = LabelSelector::parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn field_selector_matches_fields_of_objects() {
    let service =
        json!({"metadata":{"name":"a","namespace":"n"},"spec":{"clusterIP":"None","type":"ClusterIP"}});
    let parse = |text: &str| FieldSelector::parse(text, kind_of("Service")).expect(text);
    for text in [
        "",
        "metadata.name=a",
        "spec.clusterIP==None",
        "spec.type!=NodePort",
        "metadata.name=a,spec.type=ClusterIP,",
    ] {
        assert!(parse(text).matches_object(&service), "{text}");
    }
    for text in [
        "metadata.name=b",
        "spec.clusterIP!=None",
        "metadata.name=a,spec.type=NodePort",
        r"metadata.name=a\,b",
    ] {
        assert!(!parse(text).matches_object(&service), "{text}");
    }
    assert_eq!(
        parse("metadata.namespace!=x,metadata.name=a").exact("metadata.name"),
        Some("a")
    );
    assert_eq!(parse("metadata.name!=a").exact("metadata.name"), None);
    assert_eq!(
        parse(r"metadata.name=a\,b\=\\").exact("metadata.name"),
        Some(r"a,b=\")
    );
}

#[test]
fn matches_booleans_lists_counts_and_event_sources() {
    let matches = |kind: &str, text: &str, object: &Value| {
        FieldSelector::parse(text, kind_of(kind))
            .expect(text)
            .matches_object(object)
    };
    assert!(matches("Node", "spec.unschedulable=false", &json!({})));
    assert!(matches(
        "Node",
        "spec.unschedulable=true",
        &json!({"spec":{"unschedulable":true}})
    ));
    assert!(matches("Pod", "spec.nodeName=", &json!({"spec":{}})));
    assert!(matches(
        "Pod",
        "status.podIPs=10.0.0.1",
        &json!({"status":{"podIPs":[{"ip":"10.0.0.1"}]}})
    ));
    let job = json!({"status":{"succeeded":2}});
    assert!(matches("Job", "status.successful=2", &job));
    assert!(matches("Job", "status.successful=0", &json!({})));
    let controller = json!({"status":{"replicas":3}});
    assert!(matches("ReplicationController", "status.replicas=3", &controller));
    assert!(matches(
        "ReplicationController",
        "status.replicas!=0",
        &controller
    ));
    let event = json!({"reportingComponent":"proxy","source":{}});
    assert!(matches("Event", "source=proxy", &event));
    for everything in ["=", "==", "!="] {
        assert!(matches("Event", everything, &event), "{everything}");
    }
    assert!(matches(
        "Event",
        "source=agent",
        &json!({"source":{"component":"agent"}})
    ));
}

#[test]
fn rejects_invalid_field_selectors() {
    let cases = [
        (
            "Service",
            "spec.nonsense=1",
            "field label not supported: spec.nonsense",
        ),
        (
            "ConfigMap",
            "data=1",
            "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
        (
            "Service",
            "metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        ),
        (
            "Service",
            "metadata.name=a=b",
            "invalid field selector: unescaped character in value: =",
        ),
        (
            "Service",
            r"metadata.name=a\b",
            r"invalid field selector: invalid escape sequence: \b",
        ),
    ];
    for (kind, text, expected) in cases {
        let error = FieldSelector::parse(text, kind_of(kind)).expect_err(text);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn field_selectors_of_unknown_kinds_are_checked_for_their_form() {
    for text in ["", "a=b,c!=d", "=(", "a==b"] {
        assert!(FieldSelector::is_well_formed(text), "{text}");
    }
    for text in ["abc", "a=b=c", "a=\\x"] {
        assert!(!FieldSelector::is_well_formed(text), "{text}");
    }
}

proptest! {
    #[test]
    fn parsers_do_not_panic(text in "[a-z!=<>,() \\\\é]{0,24}") {
        let object = labelled(&json!({"a": "b"}));
        if let Ok(selector) = LabelSelector::parse(&text) {
            let all = selector.requirements().len();
            prop_assert!(all > 0 || selector.matches_object(&object));
        }
        if let Ok(selector) = FieldSelector::parse(&text, kind_of("Service")) {
            prop_assert!(selector.is_empty() || text.contains('='));
        }
    }

    #[test]
    fn requirement_and_its_negation_never_agree(key in "[a-z]{1,2}", value in "[a-z]{1,2}", has in "[a-z]{1,2}") {
        let object = labelled(&json!({key.as_str(): has}));
        let pairs = [
            (format!("{key}={value}"), format!("{key}!={value}")),
            (format!("{key} in ({value},zz)"), format!("{key} notin ({value},zz)")),
            (value.clone(), format!("!{value}")),
        ];
        for (one, other) in pairs {
            let one = LabelSelector::parse(&one).expect("selector").matches_object(&object);
            let other = LabelSelector::parse(&other).expect("selector").matches_object(&object);
            prop_assert_ne!(one, other);
        }
    }
}
