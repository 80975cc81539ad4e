//! A request that lasts: a watch, a log, or what is passed on to a Pod. It holds its part of what lasts, and ends early once
//! the certificate of its requester does not count any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::failure::Failure;
use crate::flow_control::Held;
use crate::server::node_connections::Cut;

/// A request that lasts, as long as this is held.
pub(crate) struct Lasting {
    _held: Held,
    /// Signal of an early end; `None` if only client and server end the response.
    cut: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Lasting {
    pub(crate) fn new(held: Held, cut: Option<Cut>) -> Lasting {
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
