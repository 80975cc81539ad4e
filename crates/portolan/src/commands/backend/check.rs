//! Health checks of the command line, and their probes.

use std::fmt;
use std::str::FromStr;

use api::object::{IntOrString, Protocol};
use probe::definition::{Grpc, HttpGet, Probe, TcpSocket};

use crate::error::{InvalidValue, UsageError};

#[cfg(test)]
mod tests;

/// Value of `--check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// No check; the backend is always ready.
    None,
    /// TCP connection.
    Tcp,
    /// HTTP request with a response status from 200 to 399.
    Http {
        /// Set for HTTPS. Certificates are not verified.
        is_tls: bool,
        /// Path of the request.
        path: String,
    },
    /// gRPC health check.
    Grpc {
        /// Name of the service; empty for the server.
        service: String,
    },
}

impl FromStr for Check {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
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
            _ => Err(InvalidValue::new(
                text,
                "a check: none, tcp, http:/PATH, https:/PATH or grpc[:SERVICE]",
            )),
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

/// Periods and thresholds of a check, with upstream's names and units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckTiming {
    /// Time between two checks.
    pub period_seconds: u32,
    /// Time for a response.
    pub timeout_seconds: u32,
    /// Consecutive successes until the backend is ready.
    pub success_threshold: u32,
    /// Consecutive failures until the backend is not ready.
    pub failure_threshold: u32,
}

impl Check {
    /// Returns the probe, or `None` for [`Check::None`]. The probe uses the check port if it is given,
    /// otherwise the port of the backend.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the port of the backend is not a TCP port.
    pub(super) fn probe(
        &self,
        protocol: Protocol,
        port: u16,
        check_port: Option<u16>,
        timing: CheckTiming,
    ) -> Result<Option<Probe>, UsageError> {
        if *self == Self::None {
            return Ok(None);
        }
        if protocol != Protocol::Tcp && check_port.is_none() {
            return Err(UsageError(format!(
                "--check {self}: port {port} has protocol {}; name a TCP port of the backend with --check-port, or use \
                 --check none",
                protocol.as_str()
            )));
        }
        let probed = check_port.unwrap_or(port);
        let number = IntOrString::Int(probed.into());
        let mut probe = Probe {
            period_seconds: timing.period_seconds,
            timeout_seconds: timing.timeout_seconds,
            success_threshold: timing.success_threshold,
            failure_threshold: timing.failure_threshold,
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
            Self::Grpc { service } => {
                probe.grpc = Some(Grpc {
                    port: probed,
                    service,
                })
            }
        }
        Ok(Some(probe))
    }

    /// Describes the probe of a slice, with its port if that differs from the served one.
    pub(super) fn describe(probe: &Probe, served: Option<u16>) -> String {
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
