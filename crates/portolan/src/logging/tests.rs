use super::*;

#[test]
fn rejects_unknown_levels() {
    for valid in ["info", "WARN", "off", "proxy=debug,info", "warn,dns[query]=trace"] {
        assert_eq!(filter(valid).expect("a filter"), valid);
    }
    for invalid in [
        "verbose",
        "WARNING",
        "",
        "proxy",
        "info,quiet",
        "7",
        "proxy=debgu",
    ] {
        assert!(filter(invalid).is_err(), "{invalid:?}");
    }
    let error = filter("verbose").expect_err("no level").to_string();
    assert!(
        error.starts_with("expected error, warn, info") && error.ends_with("found \"verbose\""),
        "{error}"
    );
}
