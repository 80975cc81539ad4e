//! A backend for load balancers: it tells each client who it is, and says whether it is well.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::cluster::Member;
use crate::probe::ProbeError;

/// How long one who asks whether the backend is well may take for the question; the others wait meanwhile.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest question that is read.
const QUESTION_BYTES_MAX: usize = 1 << 16;
/// Longest first line of a connection that is read.
const LINE_BYTES_MAX: usize = 1 << 16;

/// A backend on a member, on threads that last as long as the process.
#[derive(Debug)]
pub struct Backend {
    /// The member's name.
    pub name: String,
    /// The member's IPv4 address.
    pub address: IpAddr,
    is_well: Arc<AtomicBool>,
}

impl Backend {
    /// Where each connection is told the backend's name and the first line that it was sent, and then gets back what it
    /// sends.
    pub const ECHO_PORT: u16 = 9_000;
    /// Where requests of HTTP/1.1 are answered by 200 while the backend is well, else by 503.
    pub const HEALTH_PORT: u16 = 9_100;

    /// Listens on both ports of a member; well from the start.
    pub fn start(member: &Member) -> Result<Self, ProbeError> {
        let backend = Self {
            name: member.plan.name.clone(),
            address: member.plan.address.ipv4.into(),
            is_well: Arc::new(AtomicBool::new(true)),
        };
        let echoing = bind(member, Self::ECHO_PORT)?;
        let health = bind(member, Self::HEALTH_PORT)?;
        let name = backend.name.clone();
        thread::spawn(move || {
            for stream in echoing.incoming().flatten() {
                let name = name.clone();
                thread::spawn(move || log_end(echo(stream, &name)));
            }
        });
        let is_well = Arc::clone(&backend.is_well);
        thread::spawn(move || {
            for stream in health.incoming().flatten() {
                log_end(answer(stream, is_well.load(Ordering::Relaxed)));
            }
        });
        Ok(backend)
    }

    /// Whether it says from now on that it is well.
    pub fn set_well(&self, is_well: bool) {
        self.is_well.store(is_well, Ordering::Relaxed);
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

/// Answers one request.
fn answer(mut stream: TcpStream, is_well: bool) -> io::Result<()> {
    stream.set_read_timeout(Some(QUESTION_TIMEOUT))?;
    let mut question = Vec::new();
    let mut part = [0; 1_024];
    while !question.ends_with(b"\r\n\r\n") && question.len() < QUESTION_BYTES_MAX {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            length => question.extend_from_slice(&part[..length]),
        }
    }
    let status = if is_well { "200 OK" } else { "503 Not Well" };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes())
}

/// Clients may leave whenever they want to.
fn log_end(ended: io::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to a backend ended");
    }
}
