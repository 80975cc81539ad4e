use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};

use explain::observation::ProbeKind;

use super::*;

/// Listens, and passes each connection to `serve` on a thread.
fn serve(serve: impl Fn(std::net::TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || listener.incoming().flatten().for_each(serve));
    address
}

/// Returns an address without a listener.
fn closed() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    listener.local_addr().expect("an address")
}

fn http(target: SocketAddr) -> ProbeAnswer {
    connection::http(target, "web.shop", false, Duration::from_secs(2))
}

#[test]
fn connections_have_outcomes() {
    let silent = serve(std::mem::forget);
    assert_eq!(connection::open(silent, TIMEOUT).outcome, Outcome::Answered);
    let closing = serve(drop);
    assert_eq!(connection::open(closing, TIMEOUT).outcome, Outcome::Closed);
    let refused = connection::open(closed(), TIMEOUT);
    assert_eq!(refused.outcome, Outcome::Refused);
    assert!(refused.detail.is_some());
    let resetting = serve(|stream| {
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket option");
    });
    assert_eq!(connection::open(resetting, TIMEOUT).outcome, Outcome::Reset);
}

/// Reads a request, and writes a response.
fn respond(response: &'static [u8]) -> SocketAddr {
    serve(move |mut stream| {
        let mut request = [0; 1_024];
        let length = stream.read(&mut request).expect("a request");
        assert!(length > 0);
        stream.write_all(response).expect("a response");
    })
}

#[test]
fn responses_of_http_have_a_status() {
    let found = http(respond(b"HTTP/1.1 404 Not Found\r\n\r\n"));
    assert_eq!((found.outcome, found.status), (Outcome::Answered, Some(404)));
    let tls = http(respond(
        b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
    ));
    assert_eq!((tls.outcome, tls.status), (Outcome::OtherProtocol, Some(400)));
    assert_eq!(
        http(respond(b"\x15\x03\x01\x00\x02\x02\x46")).outcome,
        Outcome::OtherProtocol
    );
    assert_eq!(http(respond(b"SSH-2.0-x\r\n")).outcome, Outcome::OtherProtocol);
    assert_eq!(http(respond(b"")).outcome, Outcome::Closed);
    let silent = serve(std::mem::forget);
    let answer = connection::http(silent, "a", false, Duration::from_millis(200));
    assert_eq!(answer.outcome, Outcome::Timeout);
    assert_eq!(http(closed()).outcome, Outcome::Refused);
}

#[test]
fn header_of_the_proxy_protocol_comes_first() {
    let target = serve(|mut stream| {
        let mut request = [0; 1_024];
        let length = stream.read(&mut request).expect("a request");
        let is_header = request
            .get(..length)
            .unwrap_or_default()
            .starts_with(b"PROXY TCP4 127.0.0.1 127.0.0.1 ");
        let response: &[u8] = if is_header {
            b"HTTP/1.1 200 OK\r\n\r\n"
        } else {
            b""
        };
        stream.write_all(response).expect("a response");
    });
    let with_header = connection::http(target, "a", true, TIMEOUT);
    assert_eq!(with_header.status, Some(200));
    assert_eq!(http(target).outcome, Outcome::Closed);
}

#[test]
fn servers_without_tls_are_another_protocol() {
    let plain = connection::tls(respond(b"HTTP/1.1 400 Bad Request\r\n\r\n"), TIMEOUT);
    assert_eq!(plain.outcome, Outcome::OtherProtocol, "{plain:?}");
    assert_eq!(connection::tls(closed(), TIMEOUT).outcome, Outcome::Refused);
    let silent = serve(std::mem::forget);
    assert_eq!(
        connection::tls(silent, Duration::from_millis(200)).outcome,
        Outcome::Timeout
    );
}

#[test]
fn certificates_of_tls_servers_are_read() {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut parameters = rcgen::CertificateParams::new(vec!["web.shop".to_owned()]).expect("parameters");
    parameters.not_after = rcgen::date_time_ymd(2030, 1, 2);
    let certificate = parameters.self_signed(&key).expect("a certificate");
    let der = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let provider = std::sync::Arc::new(trust::client_crypto_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], der)
        .expect("a configuration");
    let config = std::sync::Arc::new(config);
    let target = serve(move |mut stream| {
        let mut connection = rustls::ServerConnection::new(config.clone()).expect("a connection");
        // The client closes the connection after the handshake.
        connection.complete_io(&mut stream).ok();
    });
    let answer = connection::tls(target, TIMEOUT);
    assert_eq!(answer.outcome, Outcome::Answered, "{answer:?}");
    assert_eq!(answer.answers, Some(vec!["web.shop".to_owned()]));
    assert_eq!(answer.expires.as_deref(), Some("2030-01-02T00:00:00Z"));
}

#[test]
fn unanswered_datagrams_have_no_outcome() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let target = silent.local_addr().expect("an address");
    assert_eq!(datagram::send_empty(target, Duration::from_millis(100)), None);
    drop(silent);
    let refused = datagram::send_empty(target, TIMEOUT).expect("an answer");
    assert_eq!(refused.outcome, Outcome::Refused);
}

#[test]
fn responses_of_dns_have_codes() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let target = server.local_addr().expect("an address");
    let respond = move |code: u8| {
        let mut message = [0; 512];
        let (length, client) = server.recv_from(&mut message).expect("a query");
        let mut response = message.get(..length).expect("a query").to_vec();
        response[2] |= 0x80;
        response[3] = code;
        server.send_to(&response, client).expect("a response");
    };
    let name = "web.shop.svc.cluster.local";
    thread::spawn(move || [0, 2, 3, 5].into_iter().for_each(respond));
    let outcomes: Vec<Outcome> = (0..4)
        .map(|_| datagram::send_dns_query(target, name, 1, TIMEOUT).outcome)
        .collect();
    assert_eq!(
        outcomes,
        [
            Outcome::Answered,
            Outcome::Servfail,
            Outcome::Nxdomain,
            Outcome::Refused
        ]
    );
    let invalid = datagram::send_dns_query(target, &"a".repeat(300), 1, TIMEOUT);
    assert_eq!(invalid.outcome, Outcome::Other);
}

#[test]
fn probes_keep_their_order() {
    let silent = serve(std::mem::forget);
    let job = |target: SocketAddr| Job {
        probe: targets::probe(ProbeKind::Tcp, ProbeSource::Node, target.to_string()),
        request: Request::Tcp(target),
    };
    let targets = [closed(), silent, closed()];
    let (probes, is_truncated) = run(targets.map(job).to_vec(), &[]);
    let outcomes: Vec<Outcome> = probes.iter().map(|probe| probe.outcome).collect();
    assert_eq!(outcomes, [Outcome::Refused, Outcome::Answered, Outcome::Refused]);
    assert!(!is_truncated && probes.iter().all(|probe| probe.milliseconds.is_some()));
    assert_eq!(run(Vec::new(), &[]), (Vec::new(), false));
}
