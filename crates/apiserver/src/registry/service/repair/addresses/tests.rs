use std::net::IpAddr;

use jiff::Timestamp;
use store::Revision;

use super::super::{AddressRecord, AllocationRecords, Audit, RepairAction, ServiceRecord};
use super::audit;

fn service(name: &str, cluster_ips: &[&str]) -> ServiceRecord {
    ServiceRecord {
        namespace: "n".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        at: Revision(7),
        cluster_ips: cluster_ips.iter().map(|ip| (*ip).to_owned()).collect(),
        node_ports: Vec::new(),
    }
}

/// An IPAddress of a Service that was created at second 0.
fn record(holder: Option<&str>) -> AddressRecord {
    AddressRecord {
        uid: "u".to_owned(),
        at: Revision(5),
        created: Some(Timestamp::UNIX_EPOCH),
        holder: holder.map(|name| ("n".to_owned(), name.to_owned())),
        is_managed: true,
        is_labelled: true,
    }
}

fn audited(services: Vec<ServiceRecord>, addresses: Vec<(&str, AddressRecord)>, second: i64) -> Audit {
    let parsed = |(address, record): (&str, AddressRecord)| (address.parse().expect("an IP address"), record);
    let records = AllocationRecords {
        services,
        addresses: addresses.into_iter().map(parsed).collect(),
        ranges: vec!["10.96.0.0/16".parse().expect("a CIDR")],
        ..AllocationRecords::default()
    };
    audit(&records, Timestamp::from_second(second).expect("a timestamp"))
}

fn reasons(audit: &Audit) -> Vec<&str> {
    audit.findings.iter().map(|finding| finding.reason).collect()
}

/// Returns the recorded addresses, and for each if it replaces a record.
fn recorded(audit: &Audit) -> Vec<(String, bool)> {
    let of = |repair: &RepairAction| match repair {
        RepairAction::RecordAddress {
            address, replaces, ..
        } => (address.to_string(), replaces.is_some()),
        other => panic!("expected an address record, found {other:?}"),
    };
    audit.repairs.iter().map(of).collect()
}

fn is_freed(audit: &Audit, address: &str) -> bool {
    let address: IpAddr = address.parse().expect("an IP address");
    audit.repairs
        == [RepairAction::FreeAddress {
            address,
            at: Revision(5),
        }]
}

const IP: &str = "10.96.0.5";

#[test]
fn consistent_records_have_no_findings() {
    let audit = audited(vec![service("a", &[IP])], vec![(IP, record(Some("a")))], 999);
    assert_eq!(audit, Audit::default());
}

#[test]
fn records_missing_or_wrong_addresses() {
    let missing = audited(vec![service("a", &[IP])], vec![], 0);
    assert_eq!(reasons(&missing), ["ClusterIPNotAllocated"]);
    assert_eq!(recorded(&missing), [(IP.to_owned(), false)]);
    for wrong in [Some("gone"), None] {
        let audit = audited(vec![service("a", &[IP])], vec![(IP, record(wrong))], 999);
        assert_eq!(
            reasons(&audit),
            ["ClusterIPNotAllocated"],
            "reported once, and not as a leak"
        );
        assert_eq!(recorded(&audit), [(IP.to_owned(), true)]);
    }
    let mut unlabelled = record(Some("a"));
    unlabelled.is_labelled = false;
    let audit = audited(vec![service("a", &[IP])], vec![(IP, unlabelled)], 0);
    assert_eq!(
        (reasons(&audit), recorded(&audit)),
        (vec![], vec![(IP.to_owned(), true)])
    );
}

#[test]
fn reports_faults_without_repair() {
    let of = |ips: &[&str]| audited(vec![service("a", ips)], vec![], 0);
    assert_eq!(reasons(&of(&["10.97.0.1"])), ["ClusterIPOutOfRange"]);
    assert_eq!(reasons(&of(&["invalid"])), ["ClusterIPNotValid"]);
    let both = vec![service("a", &[IP]), service("b", &[IP])];
    let audit = audited(both, vec![(IP, record(Some("a")))], 999);
    assert_eq!(reasons(&audit), ["ClusterIPAlreadyAllocated"]);
    assert_eq!(
        audit.findings[0]
            .regarding
            .as_ref()
            .map(|regarding| &*regarding.name),
        Some("b")
    );
    assert_eq!(audit.repairs, []);
}

/// CIDR-19.
#[test]
fn frees_own_leaks_after_their_minimum_age() {
    let alone = |record, second| audited(vec![], vec![(IP, record)], second);
    assert_eq!(alone(record(Some("gone")), 60), Audit::default());
    assert!(is_freed(&alone(record(Some("gone")), 61), IP));
    assert_eq!(
        reasons(&alone(record(Some("gone")), 61)),
        ["IPAddressNotAllocated"]
    );
    assert!(is_freed(&alone(record(None), 0), IP));
    let foreign = AddressRecord {
        is_managed: false,
        ..record(Some("gone"))
    };
    assert_eq!(alone(foreign, 999), Audit::default());
    let other = |second| {
        audited(
            vec![service("a", &["10.96.0.9"])],
            vec![(IP, record(Some("a"))), ("10.96.0.9", record(Some("a")))],
            second,
        )
    };
    assert_eq!(other(5), Audit::default());
    assert_eq!(reasons(&other(6)), ["IPAddressWrongReference"]);
    assert!(is_freed(&other(6), IP));
}
