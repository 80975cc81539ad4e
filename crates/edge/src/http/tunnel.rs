//! Bytes of another protocol, after client and backend have switched to it.

use std::io;
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::access_record::AccessRecord;
use super::exchange::Exchange;
use crate::backends::ChosenBackend;
use crate::connection_age::{end_of_age, wait_until};
use crate::watch_flag::wait_until_true;

/// Bytes of one copy.
const BUFFER_BYTES: usize = 16 << 10;

/// The two connections, once both sides have switched.
#[derive(Debug)]
pub(super) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) backend: OnUpgrade,
    pub(super) exchange: std::sync::Arc<Exchange>,
    pub(super) record: AccessRecord,
    /// Counts as under way until the end.
    pub(super) chosen: ChosenBackend,
    pub(super) idle_timeout: Duration,
}

impl Tunnel {
    /// Copies bytes until both sides have ended, one of them fails, or both are idle for too long. Ends earlier if the
    /// tunnel reaches the maximum age of connections, which counts from the start of the tunnel.
    pub(super) async fn run(mut self) {
        let ends = tokio::try_join!(&mut self.client, &mut self.backend);
        let (client, backend) = match ends {
            Ok((client, backend)) => (TokioIo::new(client), TokioIo::new(backend)),
            Err(error) => {
                tracing::debug!(%error, "protocol switch failed");
                self.record.set_outcome("upgrade failed");
                return;
            }
        };
        let exchange = self.exchange.clone();
        let (from_client, to_client) = tokio::io::split(client);
        let (from_backend, to_backend) = tokio::io::split(backend);
        let mut cut = self.chosen.backend.cut_off();
        let ends_at = end_of_age(&self.record.settings().service.policy);
        let record = &mut self.record;
        let to_backend_copy = copy(from_client, to_backend, |count| exchange.received(count));
        let to_client_copy = copy(from_backend, to_client, |count| {
            record.count_sent(count);
            exchange.progress();
        });
        let outcome = tokio::select! {
            result = async { tokio::try_join!(to_backend_copy, to_client_copy) } => match result {
                Ok(_) => "ok",
                Err(error) => {
                    tracing::trace!(%error, "tunnel failed");
                    "reset"
                }
            },
            () = exchange.idle().expired(self.idle_timeout) => "idle",
            () = wait_until_true(&mut cut) => "backend left",
            () = wait_until(ends_at) => "age",
        };
        self.record.set_outcome(outcome);
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut passed: impl FnMut(usize),
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..count).unwrap_or_default()).await?;
        to.flush().await?;
        passed(count);
    }
}
