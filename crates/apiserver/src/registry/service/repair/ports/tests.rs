use store::Revision;

use super::super::{Audit, Books, Mend, PortRecord, ServiceRecord};
use super::{ROUNDS_BEFORE_LEAK, Suspects, audit};

fn books(services: &[(&str, &[u16])], records: &[(u16, &str)]) -> Books {
    let service = |(name, ports): &(&str, &[u16])| ServiceRecord {
        namespace: "n".to_owned(),
        name: (*name).to_owned(),
        uid: (*name).to_owned(),
        at: Revision(7),
        cluster_ips: Vec::new(),
        node_ports: ports.to_vec(),
    };
    let record = |(port, holder): &(u16, &str)| {
        let holder = format!("n/{holder}");
        (
            *port,
            PortRecord {
                at: Revision(5),
                holder,
            },
        )
    };
    Books {
        services: services.iter().map(service).collect(),
        ports: records.iter().map(record).collect(),
        ..Books::default()
    }
}

fn audited(books: &Books, suspects: &mut Suspects, is_round: bool) -> Audit {
    audit(books, &(30_000..=32_767), suspects, is_round)
}

fn reasons(audit: &Audit) -> Vec<&str> {
    audit.findings.iter().map(|finding| finding.reason).collect()
}

#[test]
fn a_port_that_is_not_recorded_is_recorded_and_others_are_told_of() {
    let found = audited(
        &books(&[("a", &[30_001])], &[(30_001, "a")]),
        &mut Suspects::default(),
        true,
    );
    assert_eq!(found, Audit::default());
    let missing = audited(&books(&[("a", &[30_001])], &[]), &mut Suspects::default(), false);
    assert_eq!(reasons(&missing), ["PortNotAllocated"]);
    assert!(matches!(
        missing.mends[..],
        [Mend::RecordPort {
            port: 30_001,
            instead_of: None,
            ..
        }]
    ));
    let wrong = audited(
        &books(&[("a", &[30_001])], &[(30_001, "gone")]),
        &mut Suspects::default(),
        true,
    );
    assert!(matches!(
        wrong.mends[..],
        [Mend::RecordPort {
            instead_of: Some(Revision(5)),
            ..
        }]
    ));
    let outside = audited(
        &books(&[("a", &[80])], &[(80, "a")]),
        &mut Suspects::default(),
        true,
    );
    assert_eq!(
        (reasons(&outside), outside.mends.len()),
        (vec!["PortOutOfRange"], 0)
    );
    // Who is recorded keeps it, in whatever order they come.
    let both = audited(
        &books(&[("a", &[30_001]), ("b", &[30_001])], &[(30_001, "b")]),
        &mut Suspects::default(),
        true,
    );
    assert_eq!(
        (reasons(&both), both.mends.len()),
        (vec!["PortAlreadyAllocated"], 0)
    );
    assert_eq!(both.findings[0].regarding.as_ref().map(|r| &*r.name), Some("a"));
}

#[test]
fn a_leak_goes_after_several_rounds_in_a_row() {
    let mut suspects = Suspects::default();
    let leaked = books(&[], &[(30_001, "gone")]);
    for _ in 0..ROUNDS_BEFORE_LEAK {
        assert_eq!(audited(&leaked, &mut suspects, true), Audit::default());
        assert_eq!(
            audited(&leaked, &mut suspects, false),
            Audit::default(),
            "no round"
        );
        assert!(suspects.are_there());
    }
    let freed = Mend::FreePort {
        port: 30_001,
        at: Revision(5),
    };
    assert_eq!(audited(&leaked, &mut suspects, true).mends, [freed]);
    // A Service that comes in between clears it.
    audited(
        &books(&[("gone", &[30_001])], &[(30_001, "gone")]),
        &mut suspects,
        true,
    );
    assert!(!suspects.are_there());
    assert_eq!(audited(&leaked, &mut suspects, true).mends, []);
}
