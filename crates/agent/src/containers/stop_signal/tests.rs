use super::*;

#[test]
fn parses_names_and_numbers() {
    for text in ["SIGQUIT", "QUIT", "sigquit", "3"] {
        assert_eq!(parse(text), Some(Signal::QUIT), "{text}");
    }
    let raw = |text| parse(text).map(Signal::as_raw);
    assert_eq!(raw("SIGRTMIN+3"), Some(libc::SIGRTMIN() + 3));
    assert_eq!(raw("37"), Some(37));
    assert_eq!(raw("SIGRTMAX"), Some(64));
    assert_eq!(raw("RTMAX-1"), Some(63));
}

#[test]
fn rejects_other_texts() {
    for text in [
        "",
        "SIG",
        "SIGNONE",
        "0",
        "65",
        "-3",
        "SIGRTMIN+31",
        "SIGRTMIN-1",
        "SIGRTMAX+1",
        "RTMIN+99999999999",
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn names_match_the_api() {
    for text in [
        "SIGCHLD",
        "SIGTERM",
        "SIGXFSZ",
        "SIGRTMIN",
        "SIGRTMIN+15",
        "SIGRTMAX-14",
        "SIGRTMAX",
    ] {
        assert_eq!(parse(text).map(name).as_deref(), Some(text));
    }
    assert_eq!(parse("SIGIOT").map(name).as_deref(), Some("SIGABRT"));
}
