//! What follows when client and backend have changed the protocol: bytes, both ways.

use std::io;
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::account::Account;
use super::answer_body::asked;
use super::exchange::Exchange;
use crate::backends::Chosen;

/// Passed on at once, in each direction.
const BUFFER_BYTES: usize = 16 << 10;

/// The two ends, as soon as both sides have changed.
#[derive(Debug)]
pub struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) backend: OnUpgrade,
    pub(super) exchange: std::sync::Arc<Exchange>,
    pub(super) account: Account,
    /// Counts as under way until it has ended.
    pub(super) chosen: Chosen,
    pub(super) idle_timeout: Duration,
}

impl Tunnel {
    /// Passes bytes on until both sides have ended, one of them breaks off, or nothing comes for too long.
    pub async fn run(mut self) {
        let ends = tokio::try_join!(&mut self.client, &mut self.backend);
        let (client, backend) = match ends {
            Ok((client, backend)) => (TokioIo::new(client), TokioIo::new(backend)),
            Err(error) => {
                tracing::debug!(%error, "a connection did not change its protocol");
                self.account.ended("upgrade failed");
                return;
            }
        };
        let exchange = self.exchange.clone();
        let (from_client, to_client) = tokio::io::split(client);
        let (from_backend, to_backend) = tokio::io::split(backend);
        let mut cut = self.chosen.backend.cut();
        let account = &mut self.account;
        let upwards = pump(from_client, to_backend, |count| exchange.received(count));
        let downwards = pump(from_backend, to_client, |count| {
            account.sent(count);
            exchange.progress();
        });
        let outcome = tokio::select! {
            ended = async { tokio::try_join!(upwards, downwards) } => match ended {
                Ok(_) => "ok",
                Err(error) => {
                    tracing::trace!(%error, "a changed protocol broke off");
                    "reset"
                }
            },
            () = exchange.silence().lasts(self.idle_timeout) => "idle",
            () = asked(&mut cut) => "backend left",
        };
        self.account.ended(outcome);
    }
}

async fn pump(
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
