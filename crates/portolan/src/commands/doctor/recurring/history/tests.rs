use explain::ObjectName;

use super::*;

fn service(name: &str, severity: Severity) -> ServiceFindings {
    let finding = Finding {
        code: Code(2),
        severity,
        object: ObjectName {
            kind: "Service".to_owned(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        },
        field: "spec.selector".to_owned(),
        message: "The selector matches no Pod".to_owned(),
        remedy: "kubectl edit service".to_owned(),
        evidence: Vec::new(),
    };
    ServiceFindings {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: "1".to_owned(),
        findings: vec![finding],
    }
}

#[test]
fn event_reports_finding_of_two_successive_examinations() {
    let (mut history, now) = (History::default(), Instant::now());
    let services = [service("web", Severity::Error)];
    assert_eq!(history.observe(&services, now), []);
    assert_eq!(history.observe(&services, now).len(), 1);
    assert_eq!(history.observe(&services, now), []);
}

#[test]
fn finding_that_disappears_starts_again() {
    let (mut history, now) = (History::default(), Instant::now());
    let services = [service("web", Severity::Warning)];
    assert_eq!(history.observe(&services, now), []);
    assert_eq!(history.observe(&[], now), []);
    assert_eq!(history.observe(&services, now), []);
    assert_eq!(history.observe(&services, now).len(), 1);
}

#[test]
fn lasting_finding_is_reported_each_hour() {
    let (mut history, start) = (History::default(), Instant::now());
    let services = [service("web", Severity::Error)];
    let minutes = (0..180).filter(|minute| {
        let now = start + Duration::from_secs(60 * minute);
        !history.observe(&services, now).is_empty()
    });
    assert_eq!(minutes.collect::<Vec<_>>(), [1, 61, 121]);
}

#[test]
fn information_causes_no_event() {
    let (mut history, now) = (History::default(), Instant::now());
    let services = [service("web", Severity::Info)];
    assert_eq!(history.observe(&services, now), []);
    assert_eq!(history.observe(&services, now), []);
}

#[test]
fn events_of_one_examination_are_bounded_and_the_others_follow() {
    let (mut history, now) = (History::default(), Instant::now());
    let services: Vec<_> = (0..EVENTS_MAX + 10)
        .map(|number| service(&format!("web-{number}"), Severity::Error))
        .collect();
    assert_eq!(history.observe(&services, now), []);
    assert_eq!(history.observe(&services, now).len(), EVENTS_MAX);
    assert_eq!(history.observe(&services, now).len(), 10);
}
