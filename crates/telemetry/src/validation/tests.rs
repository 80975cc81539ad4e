use super::*;

#[test]
fn accepts_families_with_help_and_type() {
    let text = "# HELP a A.\n# TYPE a gauge\na{b=\"c d\"} 1\n# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 0\nh_sum 0\nh_count 0\n";
    assert_eq!(validate(text), Ok(()));
}

#[test]
fn rejects_family_without_help() {
    for text in [
        "# TYPE a gauge\na 1\n",
        "# HELP b B.\n# TYPE a gauge\na 1\n",
        "# HELP a \n# TYPE a gauge\na 1\n",
    ] {
        assert_eq!(validate(text), Err(InvalidMetrics::HelpMissing("a".to_owned())));
    }
}

#[test]
fn rejects_repeated_family() {
    let family = "# HELP a A.\n# TYPE a gauge\na 1\n";
    assert_eq!(
        validate(&family.repeat(2)),
        Err(InvalidMetrics::Repeated("a".to_owned()))
    );
}

#[test]
fn rejects_sample_of_another_family() {
    let text = "# HELP a A.\n# TYPE a gauge\nb 1\n";
    assert_eq!(validate(text), Err(InvalidMetrics::Misplaced("b 1".to_owned())));
}
