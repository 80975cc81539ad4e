use super::*;

fn read(text: &str) -> Destination {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn url_has_protocol_host_and_port() {
    let name = |name: &str| Host::Name(name.to_owned());
    let address = |text: &str| Host::Address(text.parse().expect("an address"));
    for (text, protocol, host, port) in [
        ("tcp://web.shop:80", Protocol::Tcp, name("web.shop"), 80),
        ("UDP://10.96.0.10:53", Protocol::Udp, address("10.96.0.10"), 53),
        ("sctp://[fd00::1]:9", Protocol::Sctp, address("fd00::1"), 9),
        ("http://Web/", Protocol::Tcp, name("web"), 80),
        (
            "https://user:secret@web.shop.svc.cluster.local.?q=1",
            Protocol::Tcp,
            name("web.shop.svc.cluster.local."),
            443,
        ),
        ("https://[fd00::1]/path", Protocol::Tcp, address("fd00::1"), 443),
        (
            "tcp://_http._tcp.web:80",
            Protocol::Tcp,
            name("_http._tcp.web"),
            80,
        ),
    ] {
        let found = read(text);
        assert_eq!(
            (found.protocol, found.host, found.port),
            (protocol, host, port),
            "{text}"
        );
    }
}

#[test]
fn display_is_parsed_to_the_same_destination() {
    for text in [
        "tcp://web.shop:80",
        "udp://10.96.0.10:53",
        "https://[fd00::1]:443",
        "ping://web.shop",
        "ping://[fd00::1]",
        "ping://10.96.0.5",
    ] {
        assert_eq!(read(text).to_string(), text);
        assert_eq!(read(&read(text).to_string()), read(text));
    }
}

#[test]
fn other_texts_are_rejected() {
    let long = format!("tcp://{}:80", "a".repeat(64));
    for text in [
        "",
        "web.shop:80",
        "ftp://web.shop:80",
        "tcp://web.shop",
        "tcp://web.shop:0",
        "tcp://web.shop:65536",
        "tcp://web.shop:http",
        "tcp://:80",
        "tcp://we b:80",
        "tcp://web..shop:80",
        "tcp://fd00::1:80",
        "tcp://[fd00::1:80",
        "tcp://[fd00::1]80",
        "tcp://[10.96.0.1]:80",
        "tcp://10.96.0:80",
        "tcp://10.96.0.256:80",
        &long,
        "http://\u{1b}[31m/",
    ] {
        assert!(text.parse::<Destination>().is_err(), "{text:?}");
    }
}

#[test]
fn ping_has_no_port() {
    assert!(read("ping://web.shop").is_ping());
    assert!(!read("tcp://web.shop:80").is_ping());
    let error = "ping://web.shop:80".parse::<Destination>().expect_err("a port");
    assert!(error.to_string().contains("no port"), "{error}");
}
