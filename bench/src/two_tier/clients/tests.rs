//! Reports that a client process prints.

use super::Report;
use crate::two_tier::connections::Checked;

#[test]
fn printed_report_parses_to_the_same_one() {
    let checked = Checked {
        examined: 9_000,
        lost: 2_286,
    };
    for report in [
        Report::Open(17),
        Report::Complete(vec![1_000, 990, 0]),
        Report::Complete(Vec::new()),
        Report::Checked(checked),
    ] {
        let line = report.to_string();
        assert_eq!(line.parse::<Report>().expect("a report"), report, "{line}");
    }
}

#[test]
fn rejects_lines_that_are_not_reports() {
    for line in ["", "open", "open 1 2", "checked 1", "closed 1", "complete x"] {
        assert!(line.parse::<Report>().is_err(), "{line}");
    }
}
