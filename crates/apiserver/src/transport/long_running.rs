//! Lifetime of long-running requests: watches, logs and proxied requests.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;

use crate::access::flow_control::LongRunningPermit;
use crate::failure::Failure;

/// Signal that the client certificate of a connection is no longer valid. The request subscribes to the signal before
/// the certificate is checked, so that it receives each later revocation.
#[derive(Clone, Debug)]
pub(crate) struct Revocation(watch::Receiver<()>);

impl Revocation {
    /// Creates a revocation by the next value of the channel.
    pub(crate) fn new(signal: watch::Receiver<()>) -> Revocation {
        Revocation(signal)
    }

    /// Resolves with the revocation, or when the connection ends.
    pub(crate) async fn received(mut self) {
        // An error means that the connection has ended.
        self.0.changed().await.ok();
    }
}

/// Lifetime of a long-running request. It is counted among those of its user until the value is dropped.
pub(crate) struct RequestLifetime {
    _permit: LongRunningPermit,
    /// Revocation of the client certificate; `None` if only client and server end the request.
    revocation: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl RequestLifetime {
    pub(crate) fn new(permit: LongRunningPermit, revocation: Option<Revocation>) -> RequestLifetime {
        RequestLifetime {
            _permit: permit,
            revocation: revocation.map(|revocation| Box::pin(revocation.received()) as _),
        }
    }

    /// Resolves when the request has to end.
    pub(crate) async fn ended(&mut self) {
        std::future::poll_fn(|context| self.poll_ended(context)).await;
    }

    /// Is ready when the request has to end.
    pub(crate) fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(revocation) = &mut self.revocation else {
            return Poll::Pending;
        };
        let polled = revocation.as_mut().poll(context);
        if polled.is_ready() {
            // A completed future must not be polled again, and the end is final.
            *revocation = Box::pin(std::future::ready(()));
        }
        polled
    }

    /// Runs one step of the request.
    ///
    /// # Errors
    /// Errors of the step, or 401 if the request has to end first.
    pub(crate) async fn during<T>(
        &mut self,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            result = step => result,
            () = self.ended() => Err(Failure::unauthorized()),
        }
    }
}
