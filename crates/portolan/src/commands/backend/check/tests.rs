use super::*;

const PACE: Pace = Pace {
    period_seconds: 5,
    timeout_seconds: 1,
    success_threshold: 1,
    failure_threshold: 3,
};

#[test]
fn checks_are_written_as_they_are_read() {
    for text in [
        "none",
        "tcp",
        "http:/healthz",
        "https:/a?b=c",
        "grpc",
        "grpc:shop.Cart",
    ] {
        assert_eq!(text.parse::<Check>().unwrap().to_string(), text);
    }
    assert_eq!("http".parse::<Check>().unwrap().to_string(), "http:/");
    for text in ["", "udp", "http:healthz", "tcp:80"] {
        assert!(text.parse::<Check>().is_err(), "{text}");
    }
}

#[test]
fn a_probe_asks_the_served_port_or_the_given_one() {
    let of = |check: &str, check_port| {
        let check: Check = check.parse().unwrap();
        check.probe(Protocol::Tcp, 5432, check_port, PACE).unwrap()
    };
    assert_eq!(of("none", None), None);
    let probe = of("tcp", None).unwrap();
    assert_eq!(probe.tcp_socket.as_ref().unwrap().port, IntOrString::Int(5432));
    assert_eq!((probe.period_seconds, probe.failure_threshold), (5, 3));
    assert_eq!(Check::describe(&probe, Some(5432)), "tcp");
    let probe = of("https:/ok", Some(8443)).unwrap();
    assert_eq!(Check::describe(&probe, Some(5432)), "https:/ok at 8443");
}

#[test]
fn what_is_not_tcp_is_asked_elsewhere_or_not_at_all() {
    let of = |check: Check, check_port| check.probe(Protocol::Udp, 53, check_port, PACE);
    let refused = of(Check::Tcp, None)
        .expect_err("nothing to connect to")
        .to_string();
    assert!(
        refused.contains("--check-port") && refused.contains("UDP"),
        "{refused}"
    );
    assert!(of(Check::Tcp, Some(53)).unwrap().is_some());
    assert!(of(Check::None, None).unwrap().is_none());
}
