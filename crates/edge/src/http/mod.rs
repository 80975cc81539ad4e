//! Requests: listeners of [`Frontend::Http`](crate::settings::Frontend::Http) and `Https`. HTTP/1.1 and HTTP/2 end here, and
//! each request goes on to a backend of its own choice, on a connection that was kept from an earlier one where possible.
//!
//! What comes in:
//!
//! - [`head`] and [`framing`] (pure): bytes of HTTP/1 that may be passed on; `guard` holds back the others
//! - [`request`] (pure): what a request of either version must be like; [`refusal`]: why one is refused
//! - `connection`: protocols, deadlines, draining; `streams`: those of HTTP/2; `activity` and `silence`: what they look at
//!
//! What goes on:
//!
//! - [`forward`], [`cookie`], [`redirect`] (pure): headers
//! - `pass`: from a request to its answer; `send`: to which backend and when to another one; `pool`: kept connections
//! - `backend_streams`: a connection to a backend in HTTP/2
//! - `exchange`, `wire`, `request_body` and `answer_body`: what streams both ways; `interim`: answers before the answer; `tunnel`:
//!   other protocols
//! - `failure`: what clients are told when no backend answers; `account`: what is written down
//!
//! Where a Service sends a PROXY header to its backends, a connection to one belongs to a client's connection and is closed
//! with it. Bodies are never held as a whole. `Forwarded` (RFC 7239) is passed on as it is.

mod account;
mod activity;
mod answer_body;
mod backend_streams;
mod connection;
pub mod cookie;
mod exchange;
mod failure;
pub mod forward;
pub mod framing;
mod guard;
pub mod head;
mod interim;
mod pass;
mod pool;
pub mod redirect;
pub mod refusal;
pub mod request;
mod request_body;
mod requests;
mod send;
mod silence;
mod streams;
mod tunnel;
mod wire;

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::peer::Peer;
use crate::port::{Port, Seat};
use crate::relay::BreakOff;
pub use pool::Pool;
pub use requests::{Requests, metrics};

/// Serves the connection of a client until it ends. Limits, source ranges, the PROXY header and the TLS handshake are behind
/// it. The connection has its seat until its last request has ended, also where this has ended before.
///
/// Of `port` it uses its settings as they are when a request comes, its backends, and [`Port::drain`], after which no
/// connection is kept open for further requests.
pub(crate) async fn serve<S>(stream: S, peer: Peer, port: Arc<Port>, seat: Option<Seat>)
where
    S: AsyncRead + AsyncWrite + BreakOff + Unpin + Send + 'static,
{
    connection::serve(stream, peer, port, seat).await;
}
