use super::super::up::board::Part;
use super::*;

#[test]
fn each_part_has_a_line_with_its_reason() {
    let part = |is_running, since_seconds, restarts, reason: Option<&str>| Part {
        is_running,
        since_seconds,
        restarts,
        reason: reason.map(str::to_owned),
    };
    let report = Report {
        parts: [
            ("agent".to_owned(), part(true, 9_400, 0, None)),
            ("dns".to_owned(), part(false, 9_995, 3, Some("port 53 is in use"))),
        ]
        .into(),
        ..Report::default()
    };
    let expected = "PART         STATE       FOR       RESTARTS  REASON\n\
                    apiserver    ready\n\
                    agent        running     10m       0\n\
                    dns          restarting  5s        3         port 53 is in use\n";
    assert_eq!(table(&report, &Ok(()), 10_000), expected);
}
