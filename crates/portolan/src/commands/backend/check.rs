//! How a backend is checked, as the command line says it.

use std::fmt;
use std::str::FromStr;

use api::object::{IntOrString, Protocol};
use probe::definition::{Grpc, HttpGet, Probe, TcpSocket};

use crate::flags::BadValue;

#[cfg(test)]
mod tests;

/// `--check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// It always counts as ready.
    None,
    /// A connection comes up.
    Tcp,
    /// A path answers with a status of 200 to 399.
    Http {
        /// Whether over TLS; certificates are not looked at.
        is_tls: bool,
        /// The path.
        path: String,
    },
    /// The health of a gRPC service, "" for that of the server.
    Grpc {
        /// The service.
        service: String,
    },
}

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let wanted = || {
            format!(
                "{text:?} is not a check; there are none, tcp, http:/PATH, https:/PATH and grpc[:SERVICE]"
            )
        };
        match (kind, rest) {
            ("none", "") => Ok(Self::None),
            ("tcp", "") => Ok(Self::Tcp),
            ("http" | "https", path) if path.is_empty() || path.starts_with('/') => Ok(Self::Http {
                is_tls: kind == "https",
                path: if path.is_empty() { "/" } else { path }.to_owned(),
            }),
            ("grpc", service) => Ok(Self::Grpc {
                service: service.to_owned(),
            }),
            _ => Err(wanted()),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Tcp => f.write_str("tcp"),
            Self::Http { is_tls, path } => write!(f, "{}:{path}", if *is_tls { "https" } else { "http" }),
            Self::Grpc { service } if service.is_empty() => f.write_str("grpc"),
            Self::Grpc { service } => write!(f, "grpc:{service}"),
        }
    }
}

/// When it is asked, and what answers count for; upstream's names and units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Between two questions.
    pub period_seconds: u32,
    /// Until an answer must be there.
    pub timeout_seconds: u32,
    /// Good answers in a row until it takes traffic.
    pub success_threshold: u32,
    /// Bad answers in a row until it takes none.
    pub failure_threshold: u32,
}

impl Check {
    /// The probe; `None` for [`Check::None`]. `port` serves `protocol`, `check_port` is asked if it is given.
    pub fn probe(
        &self,
        protocol: Protocol,
        port: u16,
        check_port: Option<u16>,
        pace: Pace,
    ) -> Result<Option<Probe>, BadValue> {
        if *self == Self::None {
            return Ok(None);
        }
        if protocol != Protocol::Tcp && check_port.is_none() {
            return Err(BadValue(format!(
                "--check: port {port} is served over {}, and {self} asks over TCP; name a TCP port of the backend \
                 with --check-port, or say --check none",
                protocol.as_str()
            )));
        }
        let asked = check_port.unwrap_or(port);
        let number = IntOrString::Int(asked.into());
        let mut probe = Probe {
            period_seconds: pace.period_seconds,
            timeout_seconds: pace.timeout_seconds,
            success_threshold: pace.success_threshold,
            failure_threshold: pace.failure_threshold,
            ..Probe::default()
        };
        match self.clone() {
            Self::None => return Ok(None),
            Self::Tcp => {
                probe.tcp_socket = Some(TcpSocket {
                    port: number,
                    ..TcpSocket::default()
                });
            }
            Self::Http { is_tls, path } => {
                probe.http_get = Some(HttpGet {
                    path,
                    port: number,
                    scheme: if is_tls { "HTTPS" } else { "HTTP" }.to_owned(),
                    ..HttpGet::default()
                });
            }
            Self::Grpc { service } => probe.grpc = Some(Grpc { port: asked, service }),
        }
        Ok(Some(probe))
    }

    /// What a slice's probe says, for people; with the port if it is not the one that is served.
    pub fn describe(probe: &Probe, served: Option<u16>) -> String {
        let (check, port) = match (&probe.http_get, &probe.tcp_socket, &probe.grpc) {
            (Some(get), _, _) => {
                let is_tls = get.scheme.eq_ignore_ascii_case("https");
                let path = get.path.clone();
                (Self::Http { is_tls, path }, number(&get.port))
            }
            (_, Some(socket), _) => (Self::Tcp, number(&socket.port)),
            (_, _, Some(grpc)) => {
                let service = grpc.service.clone();
                (Self::Grpc { service }, Some(grpc.port))
            }
            (None, None, None) => return "none".to_owned(),
        };
        match port {
            Some(port) if Some(port) != served => format!("{check} at {port}"),
            _ => check.to_string(),
        }
    }
}

fn number(port: &IntOrString) -> Option<u16> {
    match port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(text) => text.parse().ok(),
    }
}
