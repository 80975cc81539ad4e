use super::http::{Opening, answer, head, opening};
use super::*;

#[test]
fn arguments_and_settings_are_the_same() {
    let settings = Settings {
        pod: "a".to_owned(),
        namespace: "b".to_owned(),
        node: "c".to_owned(),
        ports: vec![(Protocol::Tcp, 80), (Protocol::Udp, 53)],
    };
    assert_eq!(Settings::parse(&settings.arguments()), Ok(settings));
}

#[test]
fn without_ports_there_is_8080() {
    let ports = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|a| (*a).to_owned()).collect();
        Settings::parse(&arguments).map(|s| s.ports)
    };
    let both = vec![(Protocol::Tcp, 8080), (Protocol::Udp, 8080)];
    assert_eq!(ports(&[]), Ok(both));
    assert_eq!(ports(&["--port", "1/SCTP"]), Ok(vec![]));
    assert!(ports(&["--port", "x/TCP"]).is_err());
    assert!(ports(&["--port", "1/ICMP"]).is_err());
    assert!(ports(&["--port"]).is_err());
}

#[test]
fn the_client_is_named_by_its_own_family() {
    let client = "[::ffff:10.0.0.1]:4000".parse().unwrap();
    let answer = Settings::default().answer(Protocol::Tcp, 80, client);
    assert_eq!(answer["client"], "10.0.0.1:4000");
}

#[test]
fn http_is_told_by_its_first_bytes() {
    assert_eq!(opening(b"GET / HT"), Opening::Http);
    assert_eq!(opening(b"G"), Opening::Http);
    assert_eq!(opening(b"GETTING"), Opening::Other);
    assert_eq!(opening(b"hello\n"), Opening::Other);
    assert_eq!(opening(b""), Opening::Other);
}

#[test]
fn heads_say_whether_the_connection_stays() {
    let keep = |text: &str| head(text.as_bytes()).map(|h| h.keep_alive);
    assert_eq!(keep("GET / HTTP/1.1\r\nHost: x\r\n"), None);
    assert_eq!(keep("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), Some(true));
    assert_eq!(keep("GET / HTTP/1.1\r\nconnection: Close\r\n\r\n"), Some(false));
    assert_eq!(keep("GET / HTTP/1.0\r\n\r\n"), Some(false));
    assert_eq!(
        keep("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
        Some(false)
    );
    let head = head(b"HEAD /x HTTP/1.1\r\n\r\nrest").unwrap();
    assert_eq!((head.target.as_str(), head.bytes), ("/x", 20));
    let text = answer(&head, "12345");
    assert!(text.contains("Content-Length: 5\r\n") && text.ends_with("\r\n\r\n"));
}
