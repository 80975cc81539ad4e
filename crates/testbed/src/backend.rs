//! A backend for tests of load balancers: it sends its name to each client, and reports its health.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::cluster::Member;
use crate::probe::ProbeError;

/// Timeout of a health check request; others wait meanwhile.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of a health check request in bytes.
const REQUEST_BYTES_MAX: usize = 1 << 16;
/// Limit of the first line of a connection in bytes.
const LINE_BYTES_MAX: usize = 1 << 16;

/// A backend on a member, on threads that live as long as the process.
#[derive(Debug)]
pub struct Backend {
    /// The member's name.
    pub name: String,
    /// The member's IPv4 address.
    pub address: IpAddr,
    is_healthy: Arc<AtomicBool>,
}

impl Backend {
    /// Port that sends the name of the backend and the received first line to each connection, and then echoes.
    pub const ECHO_PORT: u16 = 9_000;
    /// Port that responds to HTTP/1.1 requests with 200 while the backend is healthy, else with 503.
    pub const HEALTH_PORT: u16 = 9_100;

    /// Listens on both ports of a member; healthy at first.
    ///
    /// # Errors
    ///
    /// Returns [`ProbeError`] if a port cannot be bound.
    pub fn start(member: &Member) -> Result<Self, ProbeError> {
        let backend = Self {
            name: member.plan.name.clone(),
            address: member.plan.address.ipv4.into(),
            is_healthy: Arc::new(AtomicBool::new(true)),
        };
        let echoing = bind(member, Self::ECHO_PORT)?;
        let health = bind(member, Self::HEALTH_PORT)?;
        let name = backend.name.clone();
        thread::spawn(move || {
            for stream in echoing.incoming().flatten() {
                let name = name.clone();
                thread::spawn(move || log_failure(echo(stream, &name)));
            }
        });
        let is_healthy = Arc::clone(&backend.is_healthy);
        thread::spawn(move || {
            for stream in health.incoming().flatten() {
                log_failure(respond(stream, is_healthy.load(Ordering::Relaxed)));
            }
        });
        Ok(backend)
    }

    /// Sets the reported health.
    pub fn set_healthy(&self, is_healthy: bool) {
        self.is_healthy.store(is_healthy, Ordering::Relaxed);
    }
}

fn bind(member: &Member, port: u16) -> Result<TcpListener, ProbeError> {
    let at = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let bound = member.enter(|| TcpListener::bind(at))?;
    bound.map_err(|source| ProbeError::Network {
        from: member.plan.name.clone(),
        to: at,
        source,
    })
}

fn echo(mut stream: TcpStream, name: &str) -> io::Result<()> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") && line.len() < LINE_BYTES_MAX {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    stream.write_all(format!("{name} {}", String::from_utf8_lossy(&line)).as_bytes())?;
    let mut receiving = stream.try_clone()?;
    io::copy(&mut receiving, &mut stream).map(drop)
}

/// Responds to one request.
fn respond(mut stream: TcpStream, is_healthy: bool) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let mut request = Vec::new();
    let mut part = [0; 1_024];
    while !request.ends_with(b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            length => request.extend_from_slice(&part[..length]),
        }
    }
    let status = if is_healthy {
        "200 OK"
    } else {
        "503 Service Unavailable"
    };
    let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(response.as_bytes())
}

/// Logs the failure of a connection. Clients may close connections at any time.
fn log_failure(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "connection of a test backend failed");
    }
}
