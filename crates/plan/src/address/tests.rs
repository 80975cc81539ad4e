use super::{parse_address, parse_range};

#[test]
fn leading_zeros_are_decimal() {
    assert_eq!(parse_address("010.001.0.00"), "10.1.0.0".parse().ok());
    assert_eq!(parse_address("fd00::1"), "fd00::1".parse().ok());
    for invalid in [
        "",
        "1.2.3",
        "1.2.3.4.5",
        "1..2.3",
        "256.1.1.1",
        "a.b.c.d",
        "1.2.3.4 ",
    ] {
        assert_eq!(parse_address(invalid), None, "{invalid:?}");
    }
}

#[test]
fn ranges_lose_blanks_and_host_bits() {
    assert_eq!(parse_range(" 10.1.2.3/8 "), "10.0.0.0/8".parse().ok());
    assert_eq!(parse_range("fd00::1/32"), "fd00::/32".parse().ok());
    for invalid in ["10.0.0.0", "10.0.0.0/33", "/8", "10.0.0.0/"] {
        assert_eq!(parse_range(invalid), None, "{invalid:?}");
    }
}
