//! TCP connections to probe targets, from the network namespace of this process.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;

/// Host of a probe: an address, or a name for the node's resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address.
    Address(IpAddr),
    /// A name.
    Name(String),
}

impl Host {
    /// Parses the `host` field of a probe.
    pub fn parse(text: &str) -> Self {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        bare.parse()
            .map_or_else(|_| Self::Name(text.to_owned()), Self::Address)
    }

    /// Returns host and port as in URLs.
    pub fn with_port(&self, port: u16) -> String {
        match self {
            Self::Address(ip) => SocketAddr::new(*ip, port).to_string(),
            Self::Name(name) => format!("{name}:{port}"),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(ip) => ip.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Failure to connect. A retry may succeed.
#[derive(Debug)]
pub struct DialError {
    to: String,
    source: io::Error,
}

impl std::error::Error for DialError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Formats the error with Go's texts, which users search for.
impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, source } = self;
        match source.kind() {
            io::ErrorKind::ConnectionRefused => write!(f, "dial tcp {to}: connect: connection refused"),
            io::ErrorKind::HostUnreachable => write!(f, "dial tcp {to}: connect: no route to host"),
            io::ErrorKind::TimedOut => write!(f, "dial tcp {to}: i/o timeout"),
            _ => write!(f, "dial tcp {to}: {source}"),
        }
    }
}

pub(super) async fn dial(host: &Host, port: u16) -> Result<TcpStream, DialError> {
    let stream = match host {
        Host::Address(ip) => TcpStream::connect((*ip, port)).await,
        Host::Name(name) => TcpStream::connect((name.as_str(), port)).await,
    };
    stream.map_err(|source| DialError {
        to: host.with_port(port),
        source,
    })
}
