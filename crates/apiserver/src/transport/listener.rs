//! TCP listener: accepts connections until the server shuts down.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{JoinError, JoinSet};

use super::connection::limits::{ACCEPT_RETRY_DELAY, BACKLOG};
use super::connection::{ListenerState, serve};

/// Listens on an address; port 0 selects a free one.
///
/// # Errors
/// The address cannot be bound, for example because another process listens on it.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restarted server must not wait for connections of the old one to time out.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections until the server shuts down, then waits for those that are open.
pub(crate) async fn accept(listener: TcpListener, shared: ListenerState) {
    let mut shutdown = shared.shutdown.clone();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = shutdown.requested() => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => report(ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => match shared.connections.accept(peer) {
                    Some(handshaking) => {
                        connections.spawn(serve(stream, peer, handshaking, shared.clone()));
                    }
                    None => tracing::debug!(%peer, "connection refused; the limit of connections is reached"),
                },
                Err(error) => {
                    tracing::warn!(%error, "connection not accepted");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
        }
    }
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        report(ended);
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "connection task panicked");
    }
}
