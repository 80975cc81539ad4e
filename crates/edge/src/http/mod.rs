//! Requests: listeners of [`Frontend::Http`](crate::settings::Frontend::Http) and `Https`.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::peer::Peer;
use crate::port::Port;

/// Serves the connection of a client until it ends. Limits, source ranges, the PROXY header and the TLS handshake are behind
/// it; the connection is counted as long as this runs. It runs on a thread of its own runtime (`current_thread`), so that
/// `tokio::spawn` stays on that thread; whoever calls aborts it when the edge's patience ends.
///
/// Of `port` it uses: [`Port::current`] (settings as they are now, asked anew for each request), [`Port::choose`] and
/// [`Port::choose_by_id`] for backends, [`crate::outbound::connect`] to reach them, [`Port::counters`], and
/// [`Port::drain`], after which no connection is kept open for further requests.
pub async fn serve<S>(stream: S, peer: Peer, port: Arc<Port>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    drop((stream, peer, port));
}
