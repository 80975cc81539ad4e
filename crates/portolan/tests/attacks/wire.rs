//! Connections of an attacker who speaks TLS and nothing more, byte by byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use client::Config;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// How long a server may take to close what it refuses: much longer than any of its limits.
pub const PATIENCE: Duration = Duration::from_secs(45);

/// A TLS connection of the attacker.
pub type Connection = StreamOwned<ClientConnection, TcpStream>;

/// Connections to one server.
pub struct Wire {
    server: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Wire {
    /// Without a certificate, and with these protocols (ALPN).
    pub fn new(server: SocketAddr, protocols: &[&str]) -> Self {
        let config = Config {
            insecure_skip_tls_verify: true,
            ..Config::default()
        };
        Self::with(server, protocols, &config)
    }

    /// With these credentials and protocols.
    pub fn with(server: SocketAddr, protocols: &[&str], config: &Config) -> Self {
        let mut tls = client::tls_config(config).expect("a configuration");
        tls.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self {
            server,
            tls: Arc::new(tls),
        }
    }

    /// A connection whose handshake is over.
    pub fn connect(&self) -> std::io::Result<Connection> {
        let name = ServerName::from(self.server.ip());
        let session = ClientConnection::new(self.tls.clone(), name).expect("a session");
        let mut stream = StreamOwned::new(session, TcpStream::connect(self.server)?);
        stream.sock.set_read_timeout(Some(PATIENCE))?;
        stream.sock.set_write_timeout(Some(PATIENCE))?;
        stream.conn.complete_io(&mut stream.sock)?;
        Ok(stream)
    }

    /// A connection on which the beginning of a request has been sent.
    pub fn begin(&self, bytes: &[u8]) -> std::io::Result<Connection> {
        let mut stream = self.connect()?;
        stream.write_all(bytes)?;
        stream.flush()?;
        Ok(stream)
    }
}

/// The head of an HTTP/1.1 request with a token.
pub fn head(method: &str, path: &str, token: &str, more: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nhost: api\r\nauthorization: Bearer {token}\r\n{more}\r\n")
        .into_bytes()
}

/// Whether the server closes a connection that says nothing more, within [`PATIENCE`].
pub fn is_closed(connection: &mut Connection) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match connection.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// The first line of the answer, "" if the connection was closed.
pub fn first_line(connection: &mut Connection) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') && matches!(connection.read(&mut byte), Ok(1)) {
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).trim().to_owned()
}

/// An address of this machine that is none of loopback; a test that needs one is skipped by its name without it.
pub fn outward_address(test: &str) -> Option<IpAddr> {
    // A documentation address (RFC 5737): no packet is sent.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    let address = socket
        .connect("192.0.2.1:9")
        .and_then(|()| socket.local_addr())
        .ok();
    let address = address.map(|address| address.ip()).filter(|ip| !ip.is_loopback());
    if address.is_none() {
        println!("skipped: {test}: this machine has no address but loopback");
    }
    address
}
