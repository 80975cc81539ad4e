//! What clients do.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

use crate::Failure;
use crate::setting::PATIENCE;

/// What a client asks for with its first byte: one byte back, how many bytes it has sent, or nothing more than one byte
/// back on a connection that stays.
pub const ANSWER: u8 = b'a';
pub const COUNT: u8 = b'c';
pub const HOLD: u8 = b'h';

/// What is written at once to a stream.
const CHUNK_BYTES: usize = 256 << 10;

fn ask(to: SocketAddr, what: u8) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    stream.write_all(&[what])?;
    Ok(stream)
}

/// Connects, asks, and closes when the answer is there.
pub fn exchange(to: SocketAddr) -> io::Result<()> {
    ask(to, ANSWER)?.read_exact(&mut [0])
}

/// Waits until somebody answers.
pub fn wait_for(to: SocketAddr) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = exchange(to) {
        if Instant::now() > deadline {
            return Err(format!("nobody answers at {to}: {error}").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Megabytes a second that arrive.
pub fn stream(to: SocketAddr, time: Duration) -> Result<f64, Failure> {
    let mut stream = ask(to, COUNT)?;
    let chunk = vec![0; CHUNK_BYTES];
    let began = Instant::now();
    while began.elapsed() < time {
        stream.write_all(&chunk)?;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut arrived = [0; 8];
    stream.read_exact(&mut arrived)?;
    Ok(u64::from_be_bytes(arrived) as f64 / 1e6 / began.elapsed().as_secs_f64())
}

/// So many connections that stay open and silent.
pub fn hold(to: SocketAddr, count: usize) -> io::Result<Vec<TcpStream>> {
    (0..count)
        .map(|_| {
            let mut stream = ask(to, HOLD)?;
            stream.read_exact(&mut [0])?;
            Ok(stream)
        })
        .collect()
}

/// TLS that resumes no session and verifies nothing: what is measured is the server's side.
pub fn tls() -> Result<ClientConfig, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Connects, completes a handshake and closes.
pub fn shake_hands(to: SocketAddr, tls: &Arc<ClientConfig>) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let server = ServerName::from(to.ip());
    let mut connection = ClientConnection::new(tls.clone(), server).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(())
}

/// Skips the handshake signature too, which `trust::AcceptAnyServerCert` checks: the check runs on the machine that is
/// measured, and its cost would count as the server's. Nothing outside of a benchmark may do this.
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
