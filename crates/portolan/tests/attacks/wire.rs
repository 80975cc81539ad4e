//! TLS connections on which an attacker sends arbitrary bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use client::Config;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// First bytes of an HTTP/2 connection.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types of HTTP/2 frames.
pub(crate) const HEADERS: u8 = 1;
pub(crate) const SETTINGS: u8 = 4;
/// Flag of the last frame of a header block.
pub(crate) const END_HEADERS: u8 = 4;

/// Time for the server to close a connection: much longer than its limits.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(45);

/// TLS connection of an attacker.
pub(crate) type Connection = StreamOwned<ClientConnection, TcpStream>;

/// Address of a server and TLS configuration of an attacker.
pub(crate) struct Wire {
    server: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Wire {
    /// Creates a configuration without a client certificate, with ALPN protocols.
    pub(crate) fn new(server: SocketAddr, protocols: &[&str]) -> Self {
        let config = Config {
            insecure_skip_tls_verify: true,
            ..Config::default()
        };
        Self::with(server, protocols, &config)
    }

    /// Creates a configuration with credentials and ALPN protocols.
    pub(crate) fn with(server: SocketAddr, protocols: &[&str], config: &Config) -> Self {
        let mut tls = client::tls_config(config).expect("a TLS configuration");
        tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self {
            server,
            tls: Arc::new(tls),
        }
    }

    /// Connects and completes the handshake.
    pub(crate) fn connect(&self) -> std::io::Result<Connection> {
        let name = ServerName::from(self.server.ip());
        let session = ClientConnection::new(self.tls.clone(), name).expect("a TLS session");
        let mut stream = StreamOwned::new(session, TcpStream::connect(self.server)?);
        stream.sock.set_read_timeout(Some(CLOSE_TIMEOUT))?;
        stream.sock.set_write_timeout(Some(CLOSE_TIMEOUT))?;
        stream.conn.complete_io(&mut stream.sock)?;
        Ok(stream)
    }

    /// Connects and sends the first bytes of a request.
    pub(crate) fn begin(&self, bytes: &[u8]) -> std::io::Result<Connection> {
        let mut stream = self.connect()?;
        stream.write_all(bytes)?;
        stream.flush()?;
        Ok(stream)
    }
}

/// Returns the head of an HTTP/1.1 request with a bearer token.
pub(crate) fn head(method: &str, path: &str, token: &str, more: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: api\r\nauthorization: Bearer {token}\r\n{more}\r\n")
        .into_bytes()
}

/// Returns an HTTP/2 frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len())
        .expect("the length of a frame")
        .to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(content);
    frame
}

/// Reads an HTTP/2 frame. Returns its type.
pub(crate) fn read_frame(connection: &mut Connection) -> std::io::Result<u8> {
    let mut head = [0; 9];
    connection.read_exact(&mut head)?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut content = vec![0; usize::try_from(length).expect("the length of a frame")];
    connection.read_exact(&mut content)?;
    Ok(head[3])
}

/// Returns true if the server closes an idle connection within [`CLOSE_TIMEOUT`].
pub(crate) fn is_closed(connection: &mut Connection) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match connection.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// Returns the first line of the response; empty if the server closed the connection.
pub(crate) fn first_line(connection: &mut Connection) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') && matches!(connection.read(&mut byte), Ok(1)) {
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).trim().to_owned()
}

/// Returns an address of the host that is not loopback. Returns `None` and prints that the test is skipped without one.
pub(crate) fn outward_address(test: &str) -> Option<IpAddr> {
    // The address is reserved for documentation (RFC 5737). connect(2) of a UDP socket sends no packet.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    let address = socket
        .connect("192.0.2.1:9")
        .and_then(|()| socket.local_addr())
        .ok();
    let address = address.map(|address| address.ip()).filter(|ip| !ip.is_loopback());
    if address.is_none() {
        println!("skipped: {test}: this host has only loopback addresses");
    }
    address
}
