use serde_json::json;

use super::*;
use crate::multicluster::tests::{Model, Source};

#[test]
fn patch_removes_fields_that_are_not_desired() {
    let known = json!({"a": 1, "b": 2});
    assert_eq!(exact_object(json!({"b": 3}), &known), json!({"b": 3, "a": null}));
}

#[test]
fn rejected_service_is_tried_once_and_reported() {
    let model = Model::new();
    let sources = [Source::exporting("east", 1, &[1])];
    let desired = model.desired(&sources);
    let mut observed = ObservedImport::default();
    assert!(matches!(
        next(&desired, &observed, Timestamp::UNIX_EPOCH),
        Some(Write::CreateService(_))
    ));
    observed.rejection = Some("spec.ipFamilies[0]: Invalid value: \"IPv6\"".to_owned());
    let Some(Write::CreateImport(import)) = next(&desired, &observed, Timestamp::UNIX_EPOCH) else {
        panic!("no import");
    };
    assert!(import.spec.ips.is_empty());
    let Import::Present(present) = &desired.import else {
        panic!("no import");
    };
    let ready = service::readiness(&desired, present, &observed);
    assert_eq!(
        (ready.is_true, ready.reason.as_str()),
        (false, "IPFamilyNotSupported")
    );
}

#[test]
fn transition_time_changes_with_the_status_only() {
    let state = |is_true, message: &str| [State::new("Ready", is_true, "Reason", message)];
    let at = |second| Timestamp::from_second(second).expect("a time");
    let first = conditions::update(&[], &state(true, "a"), at(0)).expect("a change");
    assert_eq!(conditions::update(&first, &state(true, "a"), at(1)), None);
    let second = conditions::update(&first, &state(true, "b"), at(1)).expect("a change");
    assert_eq!(second[0].last_transition_time, first[0].last_transition_time);
    let third = conditions::update(&second, &state(false, "b"), at(2)).expect("a change");
    assert_ne!(third[0].last_transition_time, first[0].last_transition_time);
}
