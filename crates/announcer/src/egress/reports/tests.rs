use super::*;

fn faults(fault: EgressFault) -> BTreeMap<ObjectKey, EgressFault> {
    BTreeMap::from([(ObjectKey::new("d", "s"), fault)])
}

#[test]
fn lasting_faults_are_reported_once() {
    let mut reports = EgressReports::default();
    let (start, missing) = (Time::from_secs(100), EgressFault::NoAddress("IPv4"));
    reports.set(start, &faults(missing.clone()));
    assert!(reports.take_due(start + REPORT_AFTER / 2).is_empty());
    reports.set(start + REPORT_AFTER / 2, &faults(missing.clone()));
    let due = reports.take_due(start + REPORT_AFTER);
    assert_eq!(due, [(ObjectKey::new("d", "s"), missing.clone())]);
    assert!(reports.take_due(start + REPORT_AFTER * 2).is_empty());
    // Another fault, and one that returns, are new.
    reports.set(start + REPORT_AFTER * 2, &faults(EgressFault::TooManyPods));
    assert_eq!(reports.take_due(start + REPORT_AFTER * 3).len(), 1);
    reports.set(start + REPORT_AFTER * 3, &BTreeMap::new());
    assert!(reports.take_due(start + REPORT_AFTER * 9).is_empty());
}
