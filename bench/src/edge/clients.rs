//! Clients of the measured proxies.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

use crate::Failure;
use crate::environment::TIMEOUT;

/// First byte of a client that requests one byte.
pub(super) const ECHO: u8 = b'a';
/// First byte of a client that requests the number of its bytes.
pub(super) const COUNT: u8 = b'c';
/// First byte of a client that requests one byte and keeps its connection open.
pub(super) const HOLD: u8 = b'h';

/// Size of a write to a stream.
const CHUNK_BYTES: usize = 256 << 10;

fn connect(to: SocketAddr, request: u8) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    stream.write_all(&[request])?;
    Ok(stream)
}

/// Connects, exchanges one byte, and closes.
pub(super) fn exchange(to: SocketAddr) -> io::Result<()> {
    connect(to, ECHO)?.read_exact(&mut [0])
}

/// Waits until a connection succeeds.
pub(super) fn wait_for(to: SocketAddr) -> Result<(), Failure> {
    let deadline = Instant::now() + TIMEOUT;
    while let Err(error) = exchange(to) {
        if Instant::now() > deadline {
            return Err(format!("no answer from {to}: {error}").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Received rate of a stream in MB/s.
pub(super) fn stream(to: SocketAddr, duration: Duration) -> Result<f64, Failure> {
    let mut stream = connect(to, COUNT)?;
    let chunk = vec![0; CHUNK_BYTES];
    let started = Instant::now();
    while started.elapsed() < duration {
        stream.write_all(&chunk)?;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut received = [0; 8];
    stream.read_exact(&mut received)?;
    Ok(u64::from_be_bytes(received) as f64 / 1e6 / started.elapsed().as_secs_f64())
}

/// Opens idle connections.
pub(super) fn hold(to: SocketAddr, count: usize) -> io::Result<Vec<TcpStream>> {
    (0..count)
        .map(|_| {
            let mut stream = connect(to, HOLD)?;
            stream.read_exact(&mut [0])?;
            Ok(stream)
        })
        .collect()
}

/// TLS configuration without session resumption and verification: only the cost of the server is measured.
pub(super) fn tls() -> Result<ClientConfig, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Connects, completes a TLS handshake, and closes.
pub(super) fn handshake(to: SocketAddr, tls: &Arc<ClientConfig>) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    let server = ServerName::from(to.ip());
    let mut connection = ClientConnection::new(tls.clone(), server).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(())
}

/// Verifier that accepts everything, also the handshake signature, which `trust::AcceptAnyServerCert` checks.
/// The check would run on the measured host and count as cost of the server. For benchmarks only.
#[derive(Debug)]
struct Unverified;

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
