use super::*;

fn fault(service: &str, error: &str) -> PortFault {
    PortFault {
        namespace: "shop".to_owned(),
        service: service.to_owned(),
        address: "192.0.2.10".parse().expect("address"),
        port: 443,
        protocol: Protocol::Tcp,
        error: error.to_owned(),
    }
}

fn lease(node: &str, report: &Report) -> Lease {
    let object = object(node, report, Timestamp::UNIX_EPOCH);
    serde_json::from_value(object).expect("Lease")
}

#[test]
fn reads_a_written_report() {
    let report = Report::from([fault("web", ERRORS[0]), fault("mail", ERRORS[2])]);
    let lease = lease("node-1", &report);
    assert_eq!(
        lease.spec.renew_time.as_deref(),
        Some("1970-01-01T00:00:00.000000Z")
    );
    assert_eq!(read(&lease), Some(("node-1", report)));
}

#[test]
fn ignores_other_leases() {
    let mut lease = lease("node-1", &Report::new());
    for name in ["portolan-announcer", "portolan-edge-", "kube-scheduler"] {
        lease.metadata.name = name.to_owned();
        assert_eq!(read(&lease), None, "{name}");
    }
}

#[test]
fn ignores_malformed_faults() {
    let mut lease = lease("node-1", &Report::from([fault("web", ERRORS[0])]));
    let mut set = |text: String| {
        lease.metadata.annotations.insert(ANNOTATION.to_owned(), text);
        read(&lease).expect("report").1.len()
    };
    assert_eq!(set("malformed".to_owned()), 0);
    assert_eq!(
        set(json!([fault("web", "Unknown error"), {"port": "x"}, fault("a", ERRORS[1])]).to_string()),
        1
    );
    let many: Vec<PortFault> = (0..1_000)
        .map(|number| fault(&format!("s{number}"), ERRORS[0]))
        .collect();
    assert_eq!(set(json!(many).to_string()), FAULTS_MAX);
    assert_eq!(set(format!("[{}]", " ".repeat(ANNOTATION_BYTES_MAX))), 0);
}

#[test]
fn full_report_fits_into_annotations() {
    let longest = |n: usize| PortFault {
        namespace: "n".repeat(63),
        service: format!("{n:0>63}"),
        address: "2001:db8:1111:2222:3333:4444:5555:6666".parse().expect("address"),
        port: 65_535,
        protocol: Protocol::Sctp,
        error: ERRORS[3].to_owned(),
    };
    let lease = lease("node-1", &(0..1_000).map(longest).collect());
    assert!(lease.metadata.annotations[ANNOTATION].len() < ANNOTATION_BYTES_MAX);
    assert_eq!(read(&lease).map(|(_, report)| report.len()), Some(FAULTS_MAX));
}

#[test]
fn changes_affect_services_whose_faults_differ() {
    let mut reports = Reports::default();
    let affected =
        |keys: BTreeSet<ObjectKey>| -> Vec<String> { keys.iter().map(ToString::to_string).collect() };
    let (web, mail) = (fault("web", ERRORS[0]), fault("mail", ERRORS[0]));
    assert_eq!(
        affected(reports.set("a", Report::from([web.clone()]))),
        ["shop/web"]
    );
    assert_eq!(
        affected(reports.set("a", Report::from([web.clone(), mail]))),
        ["shop/mail"]
    );
    let (key, port) = (web.key(), (443, Protocol::Tcp));
    let error = |reports: &Reports, is_relevant: bool| {
        reports
            .error(&key, web.address, port, |_| is_relevant)
            .map(str::to_owned)
    };
    assert_eq!(error(&reports, true).as_deref(), Some(ERRORS[0]));
    assert_eq!(error(&reports, false), None);
    assert_eq!(
        affected(reports.set("a", Report::new())),
        ["shop/mail", "shop/web"]
    );
    assert_eq!(error(&reports, true), None);
}
