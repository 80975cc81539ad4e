use super::*;
use crate::NodeName;

const START: Time = Time::from_secs(100);

fn services(state: ServiceEgress) -> BTreeMap<ObjectKey, ServiceEgress> {
    BTreeMap::from([(ObjectKey::new("d", "s"), state)])
}

fn egress(addresses: &[&str]) -> ServiceEgress {
    let addresses = addresses
        .iter()
        .map(|text| -> IpAddr { text.parse().expect("an address") });
    ServiceEgress::Applied(addresses.collect())
}

/// Reports of a Service that has each state for a time that is reported.
fn reports_of(states: &[ServiceEgress]) -> Vec<EgressReport> {
    let (mut reports, mut now) = (EgressReports::default(), START);
    let mut due = Vec::new();
    for state in states {
        reports.set(now, services(state.clone()));
        now += REPORT_AFTER;
        due.extend(reports.take_due(now).into_iter().map(|(_, report)| report));
    }
    due
}

#[test]
fn lasting_faults_are_reported_once() {
    let mut reports = EgressReports::default();
    let missing = EgressFault::NoAddress("IPv4");
    let state = ServiceEgress::Fault(missing.clone());
    reports.set(START, services(state.clone()));
    assert!(reports.take_due(START + REPORT_AFTER / 2).is_empty());
    reports.set(START + REPORT_AFTER / 2, services(state));
    let due = reports.take_due(START + REPORT_AFTER);
    let report = EgressReport::Fault(missing);
    assert_eq!(due, [(ObjectKey::new("d", "s"), report)]);
    assert!(reports.take_due(START + REPORT_AFTER * 2).is_empty());
    // Another fault is new.
    let other = ServiceEgress::Fault(EgressFault::TooManyPods);
    reports.set(START + REPORT_AFTER * 2, services(other));
    assert_eq!(reports.take_due(START + REPORT_AFTER * 3).len(), 1);
    reports.set(START + REPORT_AFTER * 3, BTreeMap::new());
    assert!(reports.take_due(START + REPORT_AFTER * 9).is_empty());
}

#[test]
fn fault_that_returns_is_reported_again_after_its_end() {
    let fault = EgressFault::NoRoute(NodeName::from("n2"));
    let state = ServiceEgress::Fault(fault.clone());
    let expected = [
        EgressReport::Fault(fault.clone()),
        EgressReport::Ended(fault.clone()),
        EgressReport::Fault(fault),
    ];
    assert_eq!(reports_of(&[state.clone(), egress(&[]), state]), expected);
}

#[test]
fn short_interruption_is_not_reported() {
    let mut reports = EgressReports::default();
    let applied = egress(&["192.0.2.100"]);
    reports.set(START, services(applied.clone()));
    assert_eq!(reports.take_due(START + REPORT_AFTER).len(), 1);
    let fault = ServiceEgress::Fault(EgressFault::TooManyPods);
    reports.set(START + REPORT_AFTER, services(fault));
    let end = START + REPORT_AFTER * 3 / 2;
    assert!(reports.take_due(end).is_empty());
    reports.set(end, services(applied));
    assert!(reports.take_due(end + REPORT_AFTER * 2).is_empty());
}

#[test]
fn translating_node_reports_its_addresses() {
    let applied = |addresses: &[&str]| match egress(addresses) {
        ServiceEgress::Applied(addresses) => EgressReport::Applied(addresses),
        fault @ ServiceEgress::Fault(_) => panic!("{fault:?}"),
    };
    let both = ["192.0.2.100", "2001:db8::1"];
    let states = [
        // Another node translates.
        egress(&[]),
        egress(&both[..1]),
        egress(&both),
        egress(&[]),
        egress(&both),
    ];
    let expected = [applied(&both[..1]), applied(&both), applied(&both)];
    assert_eq!(reports_of(&states), expected);
    let fault = EgressFault::TooManyPods;
    let states = [ServiceEgress::Fault(fault.clone()), egress(&both)];
    assert_eq!(reports_of(&states), [EgressReport::Fault(fault), applied(&both)]);
}

#[test]
fn events_name_node_and_addresses() {
    let text = |report: EgressReport| {
        let event = report.event("n1");
        (event.is_warning, event.reason, event.message)
    };
    let addresses =
        ["192.0.2.100", "2001:db8::1"].map(|text| -> IpAddr { text.parse().expect("an address") });
    let message = "node \"n1\" translates packets of its Pods to 192.0.2.100, 2001:db8::1".to_owned();
    assert_eq!(
        text(EgressReport::Applied(addresses.into())),
        (false, "EgressApplied", message)
    );
    let fault = EgressFault::Kernel("no memory".to_owned());
    let (is_warning, reason, message) = text(EgressReport::Fault(fault.clone()));
    assert!(
        is_warning && message.ends_with("no memory (node \"n1\")"),
        "{message}"
    );
    assert_eq!(reason, "EgressNotApplied");
    let (is_warning, reason, message) = text(EgressReport::Ended(fault));
    assert!(
        !is_warning && message.ends_with("no memory (node \"n1\")"),
        "{message}"
    );
    assert_eq!(reason, "EgressFaultEnded");
}

#[test]
fn faults_on_all_nodes_are_recorded_by_one() {
    let common = EgressFault::TooManyPods;
    let own = EgressFault::NoRoute(NodeName::from("n2"));
    for (report, expected) in [
        (EgressReport::Fault(common.clone()), true),
        (EgressReport::Ended(common), true),
        (EgressReport::Fault(own.clone()), false),
        (EgressReport::Ended(own), false),
        (EgressReport::Applied(BTreeSet::new()), false),
    ] {
        assert_eq!(report.is_seen_by_all(), expected, "{report:?}");
    }
}
