use explain::ObjectName;

use super::*;

#[test]
fn metrics_count_findings_of_latest_examination() {
    let finding = Finding {
        code: Code(2),
        severity: Severity::Error,
        object: ObjectName {
            kind: "Service".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
        },
        field: String::new(),
        message: String::new(),
        remedy: String::new(),
        evidence: Vec::new(),
    };
    let mut examinations = Examinations::default();
    assert!(!examinations.render().contains("portolan_doctor_findings"));
    examinations.record(Some(&[finding.clone(), finding]), Duration::from_millis(250));
    examinations.record(None, Duration::ZERO);
    let text = examinations.render();
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    for line in [
        "portolan_doctor_findings{code=\"PTL-0002\",severity=\"error\"} 2\n",
        "portolan_doctor_examinations_total{result=\"success\"} 1\n",
        "portolan_doctor_examinations_total{result=\"error\"} 1\n",
        "portolan_doctor_last_examination_duration_seconds 0.25\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    examinations.record(Some(&[]), Duration::ZERO);
    assert!(!examinations.render().contains("PTL-0002"));
}
