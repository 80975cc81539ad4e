//! TCP connections, HTTP requests and TLS handshakes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use explain::observation::Outcome;
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use trust::AcceptAnyServerCert;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::ProbeAnswer;

/// Time in which a server closes or resets a connection that it does not serve.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(150);
/// Maximum number of bytes of an HTTP response that are read.
const RESPONSE_BYTES_MAX: usize = 4 << 10;
/// Part of the response of servers that expect TLS (Go, nginx, Apache).
const EXPECTS_TLS: [&str; 3] = [
    "HTTP request to an HTTPS server",
    "plain HTTP request was sent to HTTPS port",
    "speaking plain HTTP to an SSL-enabled server port",
];
/// Status code of responses to HTTP without TLS.
const BAD_REQUEST: u16 = 400;

/// Opens a connection, and waits briefly for its end.
pub(super) fn open(target: SocketAddr, timeout: Duration) -> ProbeAnswer {
    let start = Instant::now();
    let mut stream = match TcpStream::connect_timeout(&target, timeout) {
        Ok(stream) => stream,
        Err(error) => return ProbeAnswer::failed(&error, start.elapsed()),
    };
    let elapsed = start.elapsed();
    let ended = stream
        .set_read_timeout(Some(CLOSE_TIMEOUT))
        .and_then(|()| stream.read(&mut [0]));
    match ended {
        Ok(0) => ProbeAnswer::of(Outcome::Closed, elapsed),
        Ok(_) => ProbeAnswer::of(Outcome::Answered, elapsed),
        Err(error) => match super::outcome_of(&error) {
            Outcome::Timeout => ProbeAnswer::of(Outcome::Answered, elapsed),
            _ => ProbeAnswer::failed(&error, elapsed),
        },
    }
}

/// Sends an HTTP request for `/`, and reads the head of the response.
pub(super) fn http(target: SocketAddr, host: &str, has_proxy_header: bool, timeout: Duration) -> ProbeAnswer {
    let start = Instant::now();
    match exchange(target, host, has_proxy_header, timeout) {
        Ok(response) => {
            let (outcome, status) = read_response(&response);
            ProbeAnswer {
                status,
                ..ProbeAnswer::of(outcome, start.elapsed())
            }
        }
        Err(error) => ProbeAnswer::failed(&error, start.elapsed()),
    }
}

fn exchange(
    target: SocketAddr,
    host: &str,
    has_proxy_header: bool,
    timeout: Duration,
) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + timeout;
    let mut stream = TcpStream::connect_timeout(&target, timeout)?;
    stream.set_write_timeout(Some(timeout))?;
    let mut request = String::new();
    if has_proxy_header {
        request.push_str(&proxy_header(stream.local_addr()?, target));
    }
    request.push_str(&format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: portolan-doctor\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    ));
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    let mut part = [0; 1_024];
    while response.len() < RESPONSE_BYTES_MAX {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            break;
        }
        stream.set_read_timeout(Some(remaining))?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(length) => response.extend_from_slice(part.get(..length).unwrap_or_default()),
            // The beginning of a response is enough.
            Err(_) if !response.is_empty() => break,
            Err(error) => return Err(error),
        }
        if is_complete(&response) {
            break;
        }
    }
    if response.is_empty() && Instant::now() >= deadline {
        return Err(io::Error::from(io::ErrorKind::TimedOut));
    }
    Ok(response)
}

/// Returns the header of version 1 of the PROXY protocol.
fn proxy_header(source: SocketAddr, destination: SocketAddr) -> String {
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    format!(
        "PROXY {family} {} {} {} {}\r\n",
        source.ip(),
        destination.ip(),
        source.port(),
        destination.port()
    )
}

/// Returns true if the head of a response suffices. The text of an error shows if the server expects TLS.
fn is_complete(response: &[u8]) -> bool {
    match status(response) {
        Some(BAD_REQUEST) => false,
        Some(_) => true,
        None => !response.starts_with(b"H"),
    }
}

fn status(response: &[u8]) -> Option<u16> {
    let head = response.split(|byte| *byte == b'\n').next()?;
    let head = std::str::from_utf8(head).ok()?;
    let rest = head.strip_prefix("HTTP/1.")?;
    rest.get(2..5)?.parse().ok()
}

fn read_response(response: &[u8]) -> (Outcome, Option<u16>) {
    let Some(status) = status(response) else {
        let outcome = if response.is_empty() {
            Outcome::Closed
        } else {
            Outcome::OtherProtocol
        };
        return (outcome, None);
    };
    let text = String::from_utf8_lossy(response);
    let expects_tls = EXPECTS_TLS.iter().any(|part| text.contains(part));
    if status == BAD_REQUEST && expects_tls {
        return (Outcome::OtherProtocol, Some(status));
    }
    (Outcome::Answered, Some(status))
}

/// Completes a TLS handshake without a server name, and reads the certificate. It is not verified.
pub(super) fn tls(target: SocketAddr, timeout: Duration) -> ProbeAnswer {
    let start = Instant::now();
    let connected = TcpStream::connect_timeout(&target, timeout).and_then(|stream| {
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(stream)
    });
    let mut stream = match connected {
        Ok(stream) => stream,
        Err(error) => return ProbeAnswer::failed(&error, start.elapsed()),
    };
    let mut connection = match client(target) {
        Ok(connection) => connection,
        Err(error) => return ProbeAnswer::failed(&io::Error::other(error), start.elapsed()),
    };
    while connection.is_handshaking() && start.elapsed() < timeout {
        if let Err(error) = connection.complete_io(&mut stream) {
            return ProbeAnswer {
                outcome: outcome_of_handshake(&error),
                ..ProbeAnswer::failed(&error, start.elapsed())
            };
        }
    }
    if connection.is_handshaking() {
        return ProbeAnswer::of(Outcome::Timeout, start.elapsed());
    }
    let certificates = connection.peer_certificates().unwrap_or_default();
    let certificate = certificates.first().and_then(|der| certificate(der));
    let (answers, expires) = certificate.unzip();
    ProbeAnswer {
        answers,
        expires: expires.flatten(),
        ..ProbeAnswer::of(Outcome::Answered, start.elapsed())
    }
}

/// An IP address as the server's name leaves the name out of the handshake.
fn client(target: SocketAddr) -> Result<ClientConnection, rustls::Error> {
    let provider = Arc::new(trust::client_crypto_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyServerCert::new(provider)))
        .with_no_client_auth();
    ClientConnection::new(Arc::new(config), ServerName::from(target.ip()))
}

fn outcome_of_handshake(error: &io::Error) -> Outcome {
    let cause = error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        // Only a TLS server sends alerts.
        Some(rustls::Error::AlertReceived(_)) => Outcome::Answered,
        Some(rustls::Error::InvalidMessage(_) | rustls::Error::InappropriateMessage { .. }) => {
            Outcome::OtherProtocol
        }
        Some(_) => Outcome::Other,
        None => super::outcome_of(error),
    }
}

/// Returns the names and the time of expiry of a certificate.
fn certificate(der: &[u8]) -> Option<(Vec<String>, Option<String>)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let names = alternative.map(|extension| &extension.value.general_names);
    let names = names.into_iter().flatten().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    let expires = Timestamp::from_second(certificate.validity().not_after.timestamp());
    Some((names.collect(), expires.ok().map(|time| time.to_string())))
}
