//! A request that lasts: a watch, a log, or what is passed on to a Pod. It holds its part of what lasts, and ends early once
//! the certificate of its requester does not count any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;

use crate::access::flow_control::LongRunningPermit;
use crate::failure::Failure;

/// Resolves when what lasts on a connection has to end. It is made before the certificate is checked, so that nothing is
/// missed between the two.
#[derive(Clone, Debug)]
pub(crate) struct Cut(watch::Receiver<()>);

impl Cut {
    /// Ends what lasts when the sender signals.
    pub(crate) fn new(signal: watch::Receiver<()>) -> Cut {
        Cut(signal)
    }

    /// Resolves when what lasts has to end.
    pub(crate) async fn happened(mut self) {
        // An error: the connection has ended.
        self.0.changed().await.ok();
    }
}

/// A request that lasts, as long as this is held.
pub(crate) struct Lasting {
    _held: LongRunningPermit,
    /// Signal of an early end; `None` if only client and server end the response.
    cut: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Lasting {
    pub(crate) fn new(held: LongRunningPermit, cut: Option<Cut>) -> Lasting {
        Lasting {
            _held: held,
            cut: cut.map(|cut| Box::pin(cut.happened()) as _),
        }
    }

    /// Resolves when it has to end.
    pub(crate) async fn ended(&mut self) {
        std::future::poll_fn(|context| self.poll_ended(context)).await;
    }

    pub(crate) fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(cut) = &mut self.cut else {
            return Poll::Pending;
        };
        let polled = cut.as_mut().poll(context);
        if polled.is_ready() {
            // A future that is over is not polled again, and this one stays over.
            *cut = Box::pin(std::future::ready(()));
        }
        polled
    }

    /// The result of a step on the way to an answer.
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
