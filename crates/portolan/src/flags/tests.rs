use std::time::Duration;

use super::{PortRange, at_most_one_a_family, cidr, duration, port_range};

#[test]
fn port_ranges() {
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
    for bad in ["", "1", "0-5", "5-4", "a-b", "1-70000", "65535+1"] {
        assert!(port_range(bad).is_err(), "{bad}");
    }
}

#[test]
fn cidrs_have_no_host_bits() {
    assert!(cidr("10.96.0.0/16").is_ok());
    assert!(cidr("10.96.0.1/16").is_err_and(|e| e.to_string().contains("10.96.0.0/16")));
    assert!(cidr("10.96.0.0").is_err());
}

#[test]
fn one_cidr_a_family() {
    let nets = |list: &[&str]| list.iter().map(|n| cidr(n).expect("a CIDR")).collect::<Vec<_>>();
    assert!(at_most_one_a_family(&nets(&["10.0.0.0/8", "fd00::/108"]), "--x").is_ok());
    assert!(at_most_one_a_family(&nets(&["10.0.0.0/8", "11.0.0.0/8"]), "--x").is_err());
    assert!(at_most_one_a_family(&[], "--x").is_err());
}

#[test]
fn durations_are_written_as_go_does() {
    assert_eq!(duration("0"), Ok(Duration::ZERO));
    assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
    assert_eq!(duration("1m30.5s"), Ok(Duration::from_millis(90_500)));
    for bad in ["", "5", "s", "1d", "-1s", "1.2.3s", "1e9h5"] {
        assert!(duration(bad).is_err(), "{bad}");
    }
}
