use super::*;

#[test]
fn dns_labels_are_validated() {
    for valid in ["a", "0", "123-abc", &"a".repeat(63)] {
        assert_eq!(dns_label(valid), Vec::<String>::new(), "{valid}");
    }
    assert_eq!(dns_label("a.b"), ["must not contain dots"]);
    assert_eq!(dns_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
    for invalid in ["", "-a", "a-", "A", "a_b", "ä"] {
        assert_eq!(dns_label(invalid).len(), 1, "{invalid}");
    }
    assert_eq!(
        dns_label("A"),
        [
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
          end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
          '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        ]
    );
    assert_eq!(dns_1035_label("0a").len(), 1);
    assert!(dns_1035_label("a0").is_empty());
}

/// GATE-08: search paths may contain underscores.
#[test]
fn search_paths_may_contain_underscores() {
    for valid in ["a", "_sip._tcp.abc_d.example.com", "a_-b.c"] {
        assert!(dns_subdomain_with_underscores(valid).is_empty(), "{valid}");
    }
    for invalid in ["", "_", "a_", "__a", "a._", "-a", "_-a", "A.b"] {
        assert_eq!(dns_subdomain_with_underscores(invalid).len(), 1, "{invalid}");
    }
}

#[test]
fn dns_subdomains_are_validated() {
    for valid in ["a", "a.b", "10.0.0.1", "x-y.z"] {
        assert!(dns_subdomain(valid).is_empty(), "{valid}");
    }
    for invalid in ["", ".a", "a.", "a..b", "a.-b", "A.b"] {
        assert_eq!(dns_subdomain(invalid).len(), 1, "{invalid}");
    }
    assert_eq!(
        dns_subdomain(&"a".repeat(254)),
        ["must be no more than 253 characters"]
    );
}

#[test]
fn qualified_names_report_each_fault() {
    for valid in ["a", "MyName", "example.com/MyName", "with_underscore", "a.b-c"] {
        assert!(qualified_name(valid).is_empty(), "{valid}");
    }
    assert_eq!(qualified_name("").len(), 2);
    assert_eq!(qualified_name("x/").len(), 2);
    assert_eq!(qualified_name("/x"), ["prefix part must be non-empty"]);
    assert_eq!(qualified_name("a/b/c").len(), 1);
    assert_eq!(
        qualified_name(&"a".repeat(64)),
        ["name part must be no more than 63 bytes"]
    );
    assert_eq!(qualified_name("Example.com/X").len(), 1);
    assert_eq!(qualified_name("bad class").len(), 1);
}

#[test]
fn label_values_are_validated() {
    for valid in ["", "a", "A_b.c-1"] {
        assert!(label_value(valid).is_empty(), "{valid}");
    }
    for invalid in ["-a", "a b", "a/b", &"a".repeat(64)] {
        assert_eq!(label_value(invalid).len(), 1, "{invalid}");
    }
}

#[test]
fn port_names_are_validated() {
    assert!(port_name("http-web").is_empty());
    assert_eq!(port_name("HTTP").len(), 2);
    assert_eq!(port_name("http_web").len(), 1);
    assert_eq!(port_name("a-port-name-too-long").len(), 1);
    assert_eq!(port_name("123").len(), 1);
    assert_eq!(port_name("-a").len(), 1);
    assert_eq!(port_name("a--b").len(), 1);
}

#[test]
fn fully_qualified_domains_are_validated() {
    assert!(fully_qualified_domain("a.example.com.").is_empty());
    for invalid in ["example", "Bad_Name", "", &format!("{}.com", "a".repeat(64))] {
        assert_eq!(fully_qualified_domain(invalid).len(), 1, "{invalid}");
    }
}

#[test]
fn path_segments_are_validated() {
    assert!(path_segment("a.b:c").is_empty());
    assert_eq!(path_segment(".."), ["may not be '..'"]);
    assert!(path_segment(&"a".repeat(4096)).is_empty());
    assert_eq!(
        path_segment(&"a".repeat(4097)),
        ["must be no more than 4096 bytes"]
    );
    assert_eq!(
        path_segment("a/b%c"),
        ["may not contain '/'", "may not contain '%'"]
    );
}
