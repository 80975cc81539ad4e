//! `grpc` probes: one call of `grpc.health.v1.Health/Check`. The two messages have one field each and are encoded
//! here; the call is plain HTTP/2.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::connect::{DialError, Host, dial};
use super::http::AGENT;

/// Limit of a response in bytes; a regular one has seven.
const ANSWER_BYTES_MAX: usize = 4 << 10;
/// Length of a message header in bytes: compression flag and message length.
const HEAD_BYTES: usize = 5;
/// `HealthCheckResponse.ServingStatus.SERVING`.
const SERVING: u64 = 1;
/// gRPC status code of an unimplemented method.
const UNIMPLEMENTED: u32 = 12;

/// Failure of a `grpc` probe. A retry may succeed.
#[derive(Debug, thiserror::Error)]
pub enum GrpcFailure {
    /// The connection failed.
    #[error("error: failed to connect service {to:?}: {source}")]
    Dial {
        /// Target of the probe.
        to: String,
        /// Error of the connection.
        source: DialError,
    },
    /// The response is not HTTP/2, or is incomplete.
    #[error("error: health rpc probe failed: {source}")]
    Exchange {
        /// Error of the exchange.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server does not implement the health service.
    #[error(
        "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
    )]
    Unimplemented {
        /// Message of the server.
        message: String,
    },
    /// The call returned another status.
    #[error("error: health rpc probe failed: rpc error: code = {code} desc = {message}")]
    Status {
        /// The gRPC status code.
        code: u32,
        /// Message of the server.
        message: String,
    },
    /// The service is not healthy.
    #[error("service unhealthy (responded with {status:?})")]
    Unhealthy {
        /// Status of the service.
        status: &'static str,
    },
}

/// Checks the health of `service`; "" means the whole server.
///
/// # Errors
///
/// Returns [`GrpcFailure`] if the service is not healthy or cannot be queried.
pub async fn probe(host: &Host, port: u16, service: &str) -> Result<(), GrpcFailure> {
    let to = host.with_port(port);
    let stream = dial(host, port).await.map_err(|source| GrpcFailure::Dial {
        to: to.clone(),
        source,
    })?;
    let request = Request::post(format!("http://{to}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", AGENT)
        .body(Full::new(message(service)))
        .map_err(exchange_failure)?;
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(exchange_failure)?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(exchange_failure)?;
        let (parts, body) = answer.into_parts();
        let collected = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let collected = collected.map_err(|source| GrpcFailure::Exchange { source })?;
        let trailers = collected.trailers().cloned().unwrap_or(parts.headers);
        evaluate(&trailers, &collected.to_bytes())
    };
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        ended = connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(exchange_failure(error)),
        },
    }
}

/// Encodes `HealthCheckRequest { service = 1 }` with its header.
pub(super) fn message(service: &str) -> Bytes {
    let mut field = BytesMut::new();
    if !service.is_empty() {
        field.put_u8(1 << 3 | 2);
        put_varint(&mut field, service.len() as u64);
        field.put_slice(service.as_bytes());
    }
    let mut message = BytesMut::with_capacity(HEAD_BYTES + field.len());
    message.put_u8(0);
    // A name from an object is far below 4 GiB.
    message.put_u32(u32::try_from(field.len()).unwrap_or(u32::MAX));
    message.extend_from_slice(&field);
    message.freeze()
}

/// Evaluates the response of a health check.
pub(super) fn evaluate(trailers: &HeaderMap, body: &[u8]) -> Result<(), GrpcFailure> {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok());
    let message = text("grpc-message").unwrap_or_default().to_owned();
    match text("grpc-status").and_then(|status| status.parse().ok()) {
        Some(0) => {}
        Some(UNIMPLEMENTED) => return Err(GrpcFailure::Unimplemented { message }),
        Some(code) => return Err(GrpcFailure::Status { code, message }),
        None => return Err(exchange_failure("expected the trailer grpc-status, found none")),
    }
    let status = match status(body.get(HEAD_BYTES..).unwrap_or_default()) {
        Some(SERVING) => return Ok(()),
        Some(0) => "UNKNOWN",
        Some(2) => "NOT_SERVING",
        Some(3) => "SERVICE_UNKNOWN",
        _ => {
            return Err(exchange_failure(
                "expected a HealthCheckResponse, found another message",
            ));
        }
    };
    Err(GrpcFailure::Unhealthy { status })
}

/// Returns `status = 1` of a `HealthCheckResponse`; an absent field is 0.
fn status(mut message: &[u8]) -> Option<u64> {
    let mut status = 0;
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        match (tag >> 3, tag & 7) {
            (1, 0) => status = varint(&mut message)?,
            (_, 0) => drop(varint(&mut message)?),
            (_, 1) => message = message.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                message = message.get(length..)?;
            }
            (_, 5) => message = message.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn put_varint(into: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        into.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    into.put_u8(value as u8);
}

fn exchange_failure(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> GrpcFailure {
    GrpcFailure::Exchange { source: error.into() }
}
