use super::*;

fn service(own: Option<&str>, from_pool: Option<&str>) -> Service {
    let mut service = Service::default();
    let annotations = [(TWO_TIER_ANNOTATION, own), (POOL_TWO_TIER_ANNOTATION, from_pool)];
    for (name, value) in annotations {
        if let Some(value) = value {
            service
                .metadata
                .annotations
                .insert(name.to_owned(), value.to_owned());
        }
    }
    service
}

#[test]
fn annotation_of_the_service_precedes_that_of_its_pool() {
    for (own, from_pool, is_requested) in [
        (None, None, false),
        (Some("true"), None, true),
        (None, Some("true"), true),
        (Some("false"), Some("true"), false),
        (Some(" true "), None, true),
        // Invalid values have no effect.
        (Some("yes"), Some("true"), true),
        (Some("yes"), None, false),
    ] {
        assert_eq!(
            requests(&service(own, from_pool)),
            is_requested,
            "{own:?}, {from_pool:?}"
        );
    }
}

#[test]
fn only_true_and_false_are_values_of_a_pool() {
    for (text, is_requested, invalid) in [
        ("true", true, None),
        ("false", false, None),
        ("yes", false, Some("yes")),
        ("", false, Some("")),
    ] {
        let pool = service(Some(text), None).metadata;
        assert_eq!(requested_by_pool(&pool), is_requested, "{text:?}");
        assert_eq!(invalid_value(&pool), invalid, "{text:?}");
    }
}
