use super::*;

fn path() -> Path {
    Path::new("x")
}

fn fault(value: &str) -> String {
    validate_new(&path(), value)
        .pop()
        .map(|error| error.message)
        .unwrap_or_default()
}

#[test]
fn strict_form_rejects_leading_zeros_and_mapped_addresses() {
    for valid in ["10.96.0.5", "::", "fd00:10:96::abcd", "FD00::1"] {
        assert_eq!(fault(valid), "", "{valid}");
    }
    for invalid in [
        "",
        "none",
        "10.96.0",
        "10.96.0.256",
        " 10.96.0.5",
        "10.96.0.5/32",
        "fe80::1%eth0",
        "1..2.3",
        "0000.1.2",
    ] {
        assert!(
            fault(invalid).contains("must be a valid IP address"),
            "{invalid}: {}",
            fault(invalid)
        );
    }
    assert!(fault("10.96.00.5").contains("leading 0s"));
    assert!(fault("::ffff:10.96.00.5").contains("leading 0s"));
    assert!(fault("::ffff:10.96.0.7").contains("IPv4-mapped"));
    assert!(validate(&path(), "10.96.00.5", &HashSet::from(["10.96.00.5"])).is_empty());
}

#[test]
fn lenient_form_accepts_leading_zeros_and_mapped_addresses() {
    let ip = parse_legacy("010.096.0.005").expect("lenient");
    assert_eq!(ip.address.to_string(), "10.96.0.5");
    assert_eq!(family_of("::ffff:10.0.0.1"), Some(Family::V4));
    assert_eq!(family_of("::1"), Some(Family::V6));
    assert_eq!(family_of("x"), None);
}

#[test]
fn canonical_form_is_required_for_names() {
    assert_eq!(canonical_fault("2001:db8::1"), None);
    for odd in ["2001:DB8::1", "2001:db8:0::1"] {
        let fault = canonical_fault(odd).unwrap_or_default();
        assert_eq!(fault, "must be in canonical form (\"2001:db8::1\")");
    }
    assert_eq!(
        canonical_fault("10.0.0.01").as_deref(),
        Some("must not have leading 0s")
    );
}

#[test]
fn endpoints_exclude_special_addresses() {
    for valid in ["10.0.0.1", "224.1.0.5", "2001:db8::1"] {
        assert!(validate_endpoint(&path(), valid).is_empty(), "{valid}");
    }
    for invalid in [
        "0.0.0.0",
        "127.9.9.9",
        "169.254.1.1",
        "224.0.0.5",
        "::",
        "::1",
        "fe80::1",
        "ff02::1",
        "x",
    ] {
        assert_eq!(validate_endpoint(&path(), invalid).len(), 1, "{invalid}");
    }
}

#[test]
fn new_cidrs_are_validated() {
    for valid in ["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32"] {
        assert!(validate_new_cidr(&path(), valid).is_empty(), "{valid}");
    }
    let fault = |value: &str| {
        validate_new_cidr(&path(), value)
            .pop()
            .map(|error| error.message)
            .unwrap_or_default()
    };
    for invalid in [
        "",
        "10.0.0.1",
        "10.0.0.0/33",
        "x/8",
        "10.0.0.0/",
        "10.0.0.0/+8",
        "10.0.0.0/8/8",
        "::/1000",
    ] {
        assert!(
            fault(invalid).contains("must be a valid CIDR"),
            "{invalid}: {}",
            fault(invalid)
        );
    }
    assert!(fault("10.0.0.5/8").contains("bits set beyond"));
    assert!(fault("010.0.0.0/8").contains("leading 0s"));
    assert!(fault("10.0.0.0/08").contains("leading 0s"));
    assert!(fault("::ffff:10.0.0.0/104").contains("IPv4-mapped"));
    assert_eq!(validate_canonical_cidr(&path(), "2001:DB8::/32").len(), 1);
}

#[test]
fn warnings_contain_the_canonical_form() {
    assert_eq!(warning(&path(), "10.0.0.1"), None);
    assert!(warning(&path(), "10.0.0.01").is_some_and(|warning| warning.ends_with("use \"10.0.0.1\"")));
    assert!(warning(&path(), "2001:DB8::1").is_some_and(|warning| warning.contains("RFC 5952")));
    assert!(cidr_warnings(&path(), "10.0.0.0/8").is_empty());
    assert_eq!(cidr_warnings(&path(), "10.0.0.5/8").len(), 1);
    assert_eq!(cidr_warnings(&path(), "10.0.0.5/08").len(), 2);
    assert_eq!(cidr_warnings(&path(), "2001:DB8::/32").len(), 1);
}
