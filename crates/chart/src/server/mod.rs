//! The web server. It only reads, and listens on the loopback interface: it has no TLS.
//!
//! - [`access`], `login`, [`sessions`], `secrets`: rights of readers
//! - `origin`: no page of another site reads through the browser of a user
//! - `router`, `query`, `response`: paths, parameters, and headers of all responses
//! - `assets`, `events`, `delivery`: the page, its stream of changes, and its other responses
//! - `rate`, `stalled_connections`, `metrics`: limits and metrics
//! - `shared_state`: state that all requests share

pub mod access;
mod assets;
mod delivery;
mod events;
mod login;
mod metrics;
mod origin;
mod query;
mod rate;
mod response;
mod router;
mod secrets;
pub mod sessions;
mod shared_state;
mod stalled_connections;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use access::Access;
use shared_state::SharedState;
use stalled_connections::StallGuard;

use crate::feed::Feed;

/// Default listen address.
pub const ADDRESS: &str = "127.0.0.1:10280";

/// Maximum number of open connections. The server closes further ones at once. A browser opens up to 6.
const CONNECTIONS_MAX: usize = 128;
/// Time for the header of a request to arrive; also the limit for an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time in which a reader receives nothing of a response. The browser resumes a stream.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum age of a connection, so that a slow reader does not hold one forever. The browser resumes a stream.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(3_600);
/// Maximum size of the headers of a request in bytes. Other programs of the host set cookies, too.
const HEADER_BYTES_MAX: usize = 32 << 10;

/// The server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address is not of the loopback interface.
    #[error(
        "the chart listens on loopback addresses only, such as {ADDRESS}, because it has no TLS: expected one, found {0}"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be used. A retry helps when it is free.
    #[error("the chart cannot listen on {address}: {source}")]
    Listen {
        /// Address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    state: Arc<SharedState>,
}

impl Server {
    /// Listens on a loopback address. Returns the listener with its address, which has the port that the kernel chose
    /// for port 0.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the address is not of the loopback interface or cannot be used.
    pub fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServerError> {
        if !address.ip().is_loopback() {
            return Err(ServerError::NotLoopback(address));
        }
        let failed = |source| ServerError::Listen { address, source };
        let listener = telemetry::listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok((listener, address))
    }

    /// Returns a server of a feed at a listener.
    pub fn new(
        (listener, address): (TcpListener, SocketAddr),
        feed: Feed,
        access: Access,
        cluster_domain: &str,
    ) -> Self {
        let state = SharedState::new(feed, access, address.port(), cluster_domain);
        Self {
            listener,
            address,
            state: Arc::new(state),
        }
    }

    /// Serves requests, and fills the caches while there are readers. Never returns.
    pub async fn run(self) {
        tracing::info!(address = %self.address, "chart listening");
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let feed = self.state.feed.clone();
        let state = self.state;
        let serve = |stream| serve_connection(Arc::clone(&state), stream);
        tokio::join!(
            feed.run(),
            telemetry::accept_connections(self.listener, permits, serve, drop),
        );
    }
}

async fn serve_connection(state: Arc<SharedState>, stream: TcpStream) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(router::respond(&state, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(StallGuard::new(stream, STALL_TIMEOUT)), service);
    match tokio::time::timeout(CONNECTION_TIMEOUT, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::trace!(%error, "connection failed"),
        Err(_) => tracing::debug!(timeout = ?CONNECTION_TIMEOUT, "connection timed out"),
    }
}

#[cfg(test)]
mod tests;
