use store::Revision;

use super::super::{AllocationRecords, Audit, PortRecord, RepairAction, ServiceRecord};
use super::{ROUNDS_BEFORE_LEAK, SuspectPorts, audit};

fn records_of(services: &[(&str, &[u16])], ports: &[(u16, &str)]) -> AllocationRecords {
    let service = |(name, ports): &(&str, &[u16])| ServiceRecord {
        namespace: "n".to_owned(),
        name: (*name).to_owned(),
        uid: (*name).to_owned(),
        at: Revision(7),
        cluster_ips: Vec::new(),
        node_ports: ports.to_vec(),
    };
    let port_record = |(port, holder): &(u16, &str)| {
        let holder = format!("n/{holder}");
        (
            *port,
            PortRecord {
                at: Revision(5),
                holder,
            },
        )
    };
    AllocationRecords {
        services: services.iter().map(service).collect(),
        ports: ports.iter().map(port_record).collect(),
        ..AllocationRecords::default()
    }
}

fn audited(records: &AllocationRecords, suspects: &mut SuspectPorts, is_periodic: bool) -> Audit {
    audit(records, &(30_000..=32_767), suspects, is_periodic)
}

fn reasons(audit: &Audit) -> Vec<&str> {
    audit.findings.iter().map(|finding| finding.reason).collect()
}

#[test]
fn records_unrecorded_ports_and_reports_other_faults() {
    let found = audited(
        &records_of(&[("a", &[30_001])], &[(30_001, "a")]),
        &mut SuspectPorts::default(),
        true,
    );
    assert_eq!(found, Audit::default());
    let missing = audited(
        &records_of(&[("a", &[30_001])], &[]),
        &mut SuspectPorts::default(),
        false,
    );
    assert_eq!(reasons(&missing), ["PortNotAllocated"]);
    assert!(matches!(
        missing.repairs[..],
        [RepairAction::RecordPort {
            port: 30_001,
            replaces: None,
            ..
        }]
    ));
    let wrong = audited(
        &records_of(&[("a", &[30_001])], &[(30_001, "gone")]),
        &mut SuspectPorts::default(),
        true,
    );
    assert!(matches!(
        wrong.repairs[..],
        [RepairAction::RecordPort {
            replaces: Some(Revision(5)),
            ..
        }]
    ));
    let outside = audited(
        &records_of(&[("a", &[80])], &[(80, "a")]),
        &mut SuspectPorts::default(),
        true,
    );
    assert_eq!(
        (reasons(&outside), outside.repairs.len()),
        (vec!["PortOutOfRange"], 0)
    );
    // The Service of the record keeps the port, independent of the order.
    let both = audited(
        &records_of(&[("a", &[30_001]), ("b", &[30_001])], &[(30_001, "b")]),
        &mut SuspectPorts::default(),
        true,
    );
    assert_eq!(
        (reasons(&both), both.repairs.len()),
        (vec!["PortAlreadyAllocated"], 0)
    );
    assert_eq!(
        both.findings[0]
            .regarding
            .as_ref()
            .map(|regarding| &*regarding.name),
        Some("a")
    );
}

#[test]
fn frees_leaked_ports_after_consecutive_periodic_audits() {
    let mut suspects = SuspectPorts::default();
    let leaked = records_of(&[], &[(30_001, "gone")]);
    for _ in 0..ROUNDS_BEFORE_LEAK {
        assert_eq!(audited(&leaked, &mut suspects, true), Audit::default());
        assert_eq!(
            audited(&leaked, &mut suspects, false),
            Audit::default(),
            "not periodic"
        );
        assert!(suspects.has_any());
    }
    let freed = RepairAction::FreePort {
        port: 30_001,
        at: Revision(5),
    };
    assert_eq!(audited(&leaked, &mut suspects, true).repairs, [freed]);
    // A Service that uses the port in between resets the count.
    audited(
        &records_of(&[("gone", &[30_001])], &[(30_001, "gone")]),
        &mut suspects,
        true,
    );
    assert!(!suspects.has_any());
    assert_eq!(audited(&leaked, &mut suspects, true).repairs, []);
}
