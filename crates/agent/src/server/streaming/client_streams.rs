//! Streams of a client for one command: input, output, error, result and sizes of the terminal.

use std::time::Duration;

use bytes::Bytes;
use streams::protocol::{Stream, TerminalSize};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

/// Message of a stream to the client.
pub(super) type Outgoing = (Stream, Bytes);

/// Streams of a client.
pub(super) struct ClientStreams {
    /// Standard input, which ends with the channel.
    pub input: Option<mpsc::Receiver<Bytes>>,
    /// Latest size of the terminal.
    pub sizes: watch::Receiver<Option<TerminalSize>>,
    /// Output to the client.
    pub output: mpsc::Sender<Outgoing>,
    /// Resolves when the client has disconnected.
    pub gone: oneshot::Receiver<()>,
}

/// Waits for the end of a task, for a bounded time.
pub(super) async fn finish_within<T>(limit: Duration, task: impl Future<Output = T>) {
    if timeout(limit, task).await.is_err() {
        tracing::debug!("client did not close its streams in time");
    }
}
