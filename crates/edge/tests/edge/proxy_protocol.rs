//! PROXY protocol from clients and to backends.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};

use edge::proxy_protocol::{Addresses, Header, ParseResult, read, write_version1, write_version2};
use edge::settings::{Frontend, ProxyVersion};

use crate::fixture::{
    Fixture, backend, connect, exchange, first_line, greeting, is_closed, named, service, wait_until,
};

/// Returns a backend that sends back all of its data at the end.
fn repeater() -> SocketAddr {
    backend(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all)?;
        stream.write_all(&all)
    })
}

fn addresses() -> Addresses {
    Addresses {
        source: "203.0.113.7:4711".parse().expect("an address"),
        destination: "198.51.100.1:443".parse().expect("an address"),
    }
}

/// Returns the data that a backend gets when a client sends `words`.
fn passed_on(fixture: &Fixture, words: &[u8]) -> Vec<u8> {
    let mut client = fixture.connect();
    client.write_all(words).expect("the data is written");
    client
        .shutdown(Shutdown::Write)
        .expect("the end of the connection");
    let mut all = Vec::new();
    client.read_to_end(&mut all).expect("data until the end");
    all
}

#[test]
fn backends_get_headers_of_both_versions() {
    let mut settings = service(Frontend::Tcp, &[repeater()]);
    settings.policy.proxy_protocol_to_backends = Some(ProxyVersion::V1);
    let mut fixture = Fixture::new(settings);
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        fixture.service.policy.proxy_protocol_to_backends = Some(version);
        fixture.apply();
        let all = passed_on(&fixture, b"hello");
        let Ok(ParseResult::Complete {
            header: Header::For(observed),
            bytes,
        }) = read(&all)
        else {
            panic!("{}", all.escape_ascii());
        };
        assert_eq!(observed.destination, fixture.address());
        assert!(observed.source.ip().is_loopback() && observed.source.port() != 0);
        assert_eq!(&all[bytes..], b"hello");
    }
}

#[test]
fn forwards_the_client_of_a_trusted_proxy() {
    let mut settings = service(Frontend::Tcp, &[repeater()]);
    settings.policy.proxy_protocol_from = vec!["127.0.0.0/8".parse().expect("a range")];
    settings.policy.proxy_protocol_to_backends = Some(ProxyVersion::V1);
    let fixture = Fixture::new(settings);
    let expected = "PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\r\nhello";
    for write in [write_version1, |header: Header, out: &mut Vec<u8>| {
        write_version2(header, None, out)
    }] {
        let mut words = Vec::new();
        write(Header::For(addresses()), &mut words);
        words.extend_from_slice(b"hello");
        assert_eq!(String::from_utf8_lossy(&passed_on(&fixture, &words)), expected);
    }
    let mut own = Vec::new();
    write_version2(Header::Own, None, &mut own);
    let observed = passed_on(&fixture, &own);
    assert!(
        observed.starts_with(b"PROXY TCP4 127.0.0.1 127.0.0.1 "),
        "{}",
        observed.escape_ascii()
    );
}

#[test]
fn reads_a_header_byte_by_byte() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.proxy_protocol_from = vec!["127.0.0.0/8".parse().expect("a range")];
    let fixture = Fixture::new(settings);
    let mut client = fixture.connect();
    client.set_nodelay(true).expect("an option");
    let mut header = Vec::new();
    write_version2(Header::For(addresses()), None, &mut header);
    for byte in header {
        client.write_all(&[byte]).expect("the data is written");
    }
    assert_eq!(greeting(&mut client).expect("a greeting"), "a");
    assert_eq!(exchange(&mut client, "hello").expect("an echo"), "hello");
}

#[test]
fn never_forwards_malformed_headers() {
    let mut settings = service(Frontend::Tcp, &[repeater()]);
    settings.policy.proxy_protocol_from = vec!["127.0.0.0/8".parse().expect("a range")];
    let fixture = Fixture::new(settings);
    let junk: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\nhello",
        b"PROXY TCP4 203.0.113.7\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
        b"PROX",
    ];
    for words in junk {
        let mut client = fixture.connect();
        client.write_all(words).expect("the data is written");
        // The connection may be closed by now.
        drop(client.shutdown(Shutdown::Write));
        assert!(is_closed(&mut client), "{}", words.escape_ascii());
    }
    wait_until("all are counted", || {
        fixture.metric("portolan_edge_refused_total", "proxy_header") == Some(junk.len() as u64)
    });
}

#[test]
fn header_of_an_untrusted_sender_is_data() {
    let mut settings = service(Frontend::Tcp, &[repeater()]);
    settings.policy.proxy_protocol_from = vec!["192.0.2.0/24".parse().expect("a range")];
    let fixture = Fixture::new(settings);
    let words = b"PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\r\nhello";
    assert_eq!(passed_on(&fixture, words), words);
}

#[test]
fn source_ranges_apply_to_the_header_address() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.proxy_protocol_from = vec!["127.0.0.0/8".parse().expect("a range")];
    settings.policy.source_ranges = vec!["203.0.113.0/24".parse().expect("a range")];
    let fixture = Fixture::new(settings);
    let observed = |source: &str| {
        let mut client = connect(fixture.address()).expect("a connection");
        let header = format!("PROXY TCP4 {source} 198.51.100.1 4711 443\r\n");
        client.write_all(header.as_bytes()).expect("the data is written");
        greeting(&mut client)
    };
    assert_eq!(observed("203.0.113.9").expect("an admitted client"), "a");
    assert!(observed("198.51.100.9").is_err());
}

#[test]
fn backend_gets_the_header_first() {
    let lines = backend(|stream| {
        let (line, reader) = first_line(stream)?;
        let mut stream = reader.into_inner();
        stream.write_all(line.replace("\r\n", "\n").as_bytes())
    });
    let mut settings = service(Frontend::Tcp, &[lines]);
    settings.policy.proxy_protocol_to_backends = Some(ProxyVersion::V1);
    let fixture = Fixture::new(settings);
    // The client sends nothing.
    let line = fixture.chosen_backend().expect("a line");
    assert!(line.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "), "{line}");
}
