use proptest::prelude::*;

use super::*;

#[test]
fn canonical_form_depends_on_the_suffix_family() {
    for (text, expected) in [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("4", "4"),
        ("+4", "4"),
        ("-1.0", "-1"),
        (".5", "500m"),
        ("5.", "5"),
        ("100000", "100k"),
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("1.0001Ki", "1025"),
        ("0.5Ki", "512"),
        ("0.5Mi", "512Ki"),
        ("1023", "1023"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("1500e3", "1500e3"),
        ("1000e3", "1e6"),
        ("12e-1", "1200e-3"),
        ("1E", "1E"),
        ("1000M", "1G"),
        ("128974848", "128974848"),
        ("0", "0"),
        ("0Ki", "0"),
        ("-0", "0"),
        ("0.0000000001", "1n"),
        ("1e-30", "1e-9"),
        ("99999999999999999999", "9223372036854775807"),
        ("100E", "9223372036854775807"),
        ("1e9999999999999", "9223372036854775807"),
    ] {
        assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
    }
    for malformed in ["", ".", "four", "1.2.3", "1 Gi", "1e", "1kk", "--1", "1Ki5"] {
        assert!(canonical(malformed).is_err(), "{malformed}");
    }
}

proptest! {
    #[test]
    fn canonical_form_is_stable(sign in "[+-]?", number in "[0-9]{0,45}\\.?[0-9]{0,45}", suffix in "[numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]{1,4}") {
        if let Ok(once) = canonical(&format!("{sign}{number}{suffix}")) {
            prop_assert_eq!(canonical(&once), Ok(once.clone()));
        }
    }
}
