use super::*;

#[test]
fn rates_have_units() {
    for (number, text) in [
        (0.0, "0/s"),
        (0.25, "0.2/s"),
        (9.94, "9.9/s"),
        (9.96, "10/s"),
        (1_234.4, "1234/s"),
        (12_345.0, "12.3k/s"),
        (12_345_678.0, "12.3M/s"),
    ] {
        assert_eq!(rate_text(number), text);
    }
}

#[test]
fn bytes_have_binary_units() {
    for (number, text) in [
        (0, "0B"),
        (1_023, "1023B"),
        (1_024, "1.0KiB"),
        (1_536, "1.5KiB"),
        (1_048_575, "1.0MiB"),
        (5 << 30, "5.0GiB"),
        (u64::MAX, "16777216.0TiB"),
    ] {
        assert_eq!(bytes_text(Some(number)), text);
    }
    assert_eq!(bytes_text(None), "-");
    assert_eq!(byte_rate_text(None), "-");
    assert_eq!(byte_rate_text(Some(2_048.0)), "2.0KiB/s");
    assert_eq!(byte_rate_text(Some(-1.0)), "0B/s");
}
