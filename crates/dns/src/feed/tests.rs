use api::object::{ObjectMeta, Service};

use super::*;

fn service(name: &str) -> Service {
    Service {
        metadata: ObjectMeta {
            name: name.to_owned(),
            ..ObjectMeta::default()
        },
        ..Service::default()
    }
}

/// Effects of one event: completion of the collection, applied and removed objects.
fn effect(event: Event<Service>) -> (bool, Option<String>, Option<String>) {
    let (mut put, mut removed) = (None, None);
    let complete = apply(
        event,
        &Metrics::default(),
        |service| {
            put = Some(service.metadata.name);
            Err(NameError::LabelTooLong)
        },
        |key| removed = Some(key.name.to_string()),
    );
    (complete, put, removed)
}

#[test]
fn events_change_the_index() {
    let key = ObjectKey::new("ns", "a");
    assert_eq!(
        effect(Event::Applied(service("a"))),
        (false, Some("a".to_owned()), None),
        "an object that does not fit ends nothing"
    );
    assert_eq!(
        effect(Event::Deleted(key.clone())),
        (false, None, Some("a".to_owned()))
    );
    assert_eq!(effect(Event::Synced), (true, None, None));
    let malformed = Event::Malformed {
        key,
        error: "no number".to_owned(),
    };
    assert_eq!(effect(malformed), (false, None, None), "what was known stays");
}
