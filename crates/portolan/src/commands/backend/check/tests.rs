use super::*;

const TIMING: CheckTiming = CheckTiming {
    period_seconds: 5,
    timeout_seconds: 1,
    success_threshold: 1,
    failure_threshold: 3,
};

#[test]
fn checks_are_formatted_as_parsed() {
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
fn probe_uses_the_check_port_or_the_backend_port() {
    let of = |check: &str, check_port| {
        let check: Check = check.parse().unwrap();
        check.probe(Protocol::Tcp, 5432, check_port, TIMING).unwrap()
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
fn non_tcp_backends_need_a_check_port() {
    let of = |check: Check, check_port| check.probe(Protocol::Udp, 53, check_port, TIMING);
    let error = of(Check::Tcp, None).expect_err("a UDP port").to_string();
    assert!(error.contains("--check-port") && error.contains("UDP"), "{error}");
    assert!(of(Check::Tcp, Some(53)).unwrap().is_some());
    assert!(of(Check::None, None).unwrap().is_none());
}
