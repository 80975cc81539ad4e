use std::time::Duration;

use super::{PortRange, cidr, duration, label, node_name, one_per_family, port_range, server_url};

#[test]
fn port_range_has_two_ends_or_a_count() {
    assert_eq!(
        port_range("30000-32767"),
        Ok(PortRange {
            first: 30000,
            last: 32767
        })
    );
    assert_eq!(
        port_range("30000+10"),
        Ok(PortRange {
            first: 30000,
            last: 30010
        })
    );
    for invalid in ["", "1", "0-5", "5-4", "a-b", "1-70000", "65535+1"] {
        assert!(port_range(invalid).is_err(), "{invalid}");
    }
}

#[test]
fn rejects_cidrs_with_host_bits() {
    assert!(cidr("10.96.0.0/16").is_ok());
    assert!(cidr("10.96.0.1/16").is_err_and(|error| error.to_string().contains("10.96.0.0/16")));
    assert!(cidr("10.96.0.0").is_err());
}

#[test]
fn rejects_two_cidrs_of_one_family() {
    let nets = |list: &[&str]| {
        list.iter()
            .map(|network| cidr(network).expect("a CIDR"))
            .collect::<Vec<_>>()
    };
    assert!(one_per_family(&nets(&["10.0.0.0/8", "fd00::/108"]), "--x").is_ok());
    assert!(one_per_family(&nets(&["10.0.0.0/8", "11.0.0.0/8"]), "--x").is_err());
    assert!(one_per_family(&[], "--x").is_err());
}

#[test]
fn durations_have_the_notation_of_go() {
    assert_eq!(duration("0"), Ok(Duration::ZERO));
    assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
    assert_eq!(duration("1m30.5s"), Ok(Duration::from_millis(90_500)));
    for invalid in ["", "5", "s", "1d", "-1s", "1.2.3s", "1e9h5"] {
        assert!(duration(invalid).is_err(), "{invalid}");
    }
}

#[test]
fn labels_need_a_key() {
    assert_eq!(label("zone=a=b"), Ok(("zone".to_owned(), "a=b".to_owned())));
    assert_eq!(label("zone="), Ok(("zone".to_owned(), String::new())));
    for invalid in ["zone", "=a", ""] {
        assert!(label(invalid).is_err(), "{invalid}");
    }
}

#[test]
fn node_names_are_subdomains() {
    for valid in ["node-1", "Node-A.example.com"] {
        assert_eq!(node_name(valid).as_deref(), Ok(valid));
    }
    for invalid in ["Bad_Name", "a b", "", "-a", "a..b"] {
        assert!(node_name(invalid).is_err(), "{invalid:?}");
    }
}

#[test]
fn server_urls_have_the_scheme_https() {
    for valid in [
        "https://192.0.2.1:6443",
        "https://[2001:db8::1]:6443",
        "https://api.example.com/",
    ] {
        assert_eq!(server_url(valid).as_deref(), Ok(valid));
    }
    for invalid in [
        "192.0.2.1:6443",
        "http://192.0.2.1:6443",
        "https://",
        "https://a/b",
        "api.example.com",
    ] {
        let error = server_url(invalid).expect_err("no URL of a server").to_string();
        assert!(error.contains("https://192.0.2.1:6443"), "{error}");
    }
}
