//! HTTP server and client of listeners with [`Frontend::Http`](crate::settings::Frontend::Http) or `Https`.
//!
//! HTTP/1.1 and HTTP/2 are terminated here. Each request goes to a backend of its own, on a pooled connection if
//! there is one.
//!
//! From the client:
//!
//! - [`head`] and [`framing`] (pure): admissible bytes of HTTP/1; `request_smuggling_guard` applies them to a
//!   connection
//! - [`request`] (pure): checks for requests of all versions; [`rejection`]: reasons why requests are rejected
//! - `connection`: protocols, timeouts and draining; `http2_server` and `http2_frames`: HTTP/2; `activity` and
//!   `idle_clock`: their inputs
//!
//! To the backend and back:
//!
//! - `header_rewrite`, [`redirect`] (pure): headers
//! - `respond`: from a request to its response; `send`: backends and retries; `pool`: pooled connections;
//!   `http2_client`: HTTP/2
//! - `exchange`, `wire_body`, `request_body`, `response_body`: both directions; `informational`: 1xx; `tunnel`: other
//!   protocols
//! - `gateway_error`: responses of the edge itself; `access_record`: the access log; `request_metrics`: metrics
//!
//! A connection to a backend that begins with a PROXY header belongs to one connection of a client, and closes with it.
//! No body is buffered as a whole. `Forwarded` (RFC 7239) passes unchanged.

mod access_record;
mod activity;
mod connection;
mod exchange;
pub mod framing;
mod gateway_error;
pub mod head;
mod header_rewrite;
mod http2_client;
mod http2_frames;
mod http2_server;
mod idle_clock;
mod informational;
pub(crate) mod pool;
pub mod redirect;
pub mod rejection;
pub mod request;
mod request_body;
pub(crate) mod request_metrics;
mod request_smuggling_guard;
mod respond;
mod response_body;
mod send;
mod tunnel;
mod wire_body;

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::admission::ConnectionPermit;
use crate::peer::Peer;
use crate::port::Port;
use crate::stream::AbortiveClose;

/// Serves the connection of an admitted client until it ends. The permit counts until the last request has ended, also
/// if the connection ends earlier.
///
/// Each request uses the settings of `port` at its start. After [`Port::drain`] no connection stays open for further
/// requests.
pub(crate) async fn serve<S>(stream: S, peer: Peer, port: Arc<Port>, permit: Option<ConnectionPermit>)
where
    S: AsyncRead + AsyncWrite + AbortiveClose + Unpin + Send + 'static,
{
    connection::serve(stream, peer, port, permit).await;
}
