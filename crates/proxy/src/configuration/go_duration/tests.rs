use super::*;

#[test]
fn durations_parse_and_print_as_in_go() {
    for (text, milliseconds, printed) in [
        ("0", 0, "0s"),
        ("0s", 0, "0s"),
        ("30s", 30_000, "30s"),
        ("1m", 60_000, "1m0s"),
        ("15m0s", 900_000, "15m0s"),
        ("24h", 86_400_000, "24h0m0s"),
        ("1h2m3s", 3_723_000, "1h2m3s"),
        ("1.5s", 1_500, "1.5s"),
        ("250ms", 250, "250ms"),
    ] {
        let parsed: GoDuration = text.parse().expect("a valid duration");
        assert_eq!(parsed.0, Duration::from_millis(milliseconds), "{text}");
        assert_eq!(parsed.to_string(), printed);
        assert_eq!(printed.parse(), Ok(parsed));
    }
    for text in ["", "s", "5", "-5s", "5x", "1..2s", "9999999999999999999999h"] {
        assert!(text.parse::<GoDuration>().is_err(), "{text:?}");
    }
}
