use super::http::{DetectedProtocol, detect_protocol, parse_head, response};
use super::*;

#[test]
fn echo_arguments_round_trip() {
    let settings = Settings {
        pod: "a".to_owned(),
        namespace: "b".to_owned(),
        node: "c".to_owned(),
        ports: vec![(Protocol::Tcp, 80), (Protocol::Udp, 53)],
    };
    assert_eq!(Settings::parse(&settings.arguments()), Ok(settings));
}

#[test]
fn default_port_is_8080() {
    let ports = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Settings::parse(&arguments).map(|settings| settings.ports)
    };
    let both = vec![(Protocol::Tcp, 8080), (Protocol::Udp, 8080)];
    assert_eq!(ports(&[]), Ok(both));
    assert_eq!(ports(&["--port", "1/SCTP"]), Ok(vec![]));
    assert!(ports(&["--port", "x/TCP"]).is_err());
    assert!(ports(&["--port", "1/ICMP"]).is_err());
    assert!(ports(&["--port"]).is_err());
}

#[test]
fn mapped_client_addresses_are_ipv4() {
    let client = "[::ffff:10.0.0.1]:4000".parse().unwrap();
    let response = Settings::default().response(Protocol::Tcp, 80, client);
    assert_eq!(response["client"], "10.0.0.1:4000");
}

#[test]
fn detects_http_by_first_bytes() {
    assert_eq!(detect_protocol(b"GET / HT"), DetectedProtocol::Http);
    assert_eq!(detect_protocol(b"G"), DetectedProtocol::Http);
    assert_eq!(detect_protocol(b"GETTING"), DetectedProtocol::Other);
    assert_eq!(detect_protocol(b"hello\n"), DetectedProtocol::Other);
    assert_eq!(detect_protocol(b""), DetectedProtocol::Other);
}

#[test]
fn head_decides_about_keep_alive() {
    let keep = |text: &str| parse_head(text.as_bytes()).map(|head| head.is_keep_alive);
    assert_eq!(keep("GET / HTTP/1.1\r\nHost: x\r\n"), None);
    assert_eq!(keep("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), Some(true));
    assert_eq!(keep("GET / HTTP/1.1\r\nconnection: Close\r\n\r\n"), Some(false));
    assert_eq!(keep("GET / HTTP/1.0\r\n\r\n"), Some(false));
    assert_eq!(
        keep("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
        Some(false)
    );
    let head = parse_head(b"HEAD /x HTTP/1.1\r\n\r\nrest").unwrap();
    assert_eq!((head.target.as_str(), head.bytes), ("/x", 20));
    let text = response(&head, "12345");
    assert!(text.contains("Content-Length: 5\r\n") && text.ends_with("\r\n\r\n"));
}
