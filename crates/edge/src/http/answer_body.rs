//! An answer's body on its way to the client, a frame at a time: nothing is read that the client does not take.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::watch;

use super::account::Account;
use super::exchange::Exchange;
use super::pool::Sender;
use super::wire::{WireBody, WireError};
use crate::backends::Chosen;

/// An answer's body on its way to the client. It ends the connection if it fails.
#[derive(Debug)]
pub enum AnswerBody {
    /// The edge's own words.
    Text(Option<Bytes>, Option<Account>),
    /// What comes from a backend.
    Passed(Box<Passed>),
}

/// An answer that is passed on.
#[derive(Debug)]
pub struct Passed {
    pub(super) inner: WireBody,
    /// Where it comes from: kept for the next request when it has ended.
    pub(super) sender: Option<Sender>,
    /// Counts as under way until it has ended.
    pub(super) chosen: Chosen,
    pub(super) exchange: Arc<Exchange>,
    pub(super) account: Account,
    pub(super) idle_timeout: Duration,
    /// Whether only the end of the connection says that the answer has ended (RFC 9112, 6.3).
    pub(super) ends_with_connection: bool,
    /// The client was given something, and has not asked for more yet.
    pub(super) is_given: bool,
    /// What ends it early; there as soon as the answer has to be waited for.
    pub(super) end: Option<EarlyEnd>,
}

/// Says when an answer is given up, and why.
pub(super) struct EarlyEnd(Pin<Box<dyn Future<Output = AnswerError> + Send>>);

impl fmt::Debug for EarlyEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EarlyEnd")
    }
}

/// An answer that broke off. Its client sees that from how the connection ends.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The backend did not send all of it.
    #[error("the backend's answer broke off: {0}")]
    Backend(#[from] WireError),
    /// Nothing was passed on for too long.
    #[error("nothing was passed on for {0:?}")]
    Silent(Duration),
    /// The backend left, and the time to finish is over.
    #[error("the backend left")]
    BackendLeft,
}

impl AnswerError {
    fn outcome(&self) -> &'static str {
        match self {
            Self::Backend(_) => "backend failed",
            Self::Silent(_) => "timeout",
            Self::BackendLeft => "backend left",
        }
    }
}

/// Returns when a flag is raised; never if nobody can raise it any more.
pub(super) async fn asked(flag: &mut watch::Receiver<bool>) {
    if flag.wait_for(|is_raised| *is_raised).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl Passed {
    /// If the answer has no body, its end is here already.
    pub fn begin(mut self) -> AnswerBody {
        if self.inner.is_end_stream() {
            self.end();
        }
        AnswerBody::Passed(Box::new(self))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        if std::mem::take(&mut self.is_given) {
            // A slow client has taken what it was given.
            self.exchange.progress();
        }
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.exchange.progress();
                self.is_given = true;
                self.account.sent(frame.data_ref().map_or(0, Bytes::len));
                if self.inner.is_end_stream() {
                    self.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(self.break_off(error.into())))),
            Poll::Ready(None) => {
                self.end();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let error = ready!(self.early_end().poll(cx));
                Poll::Ready(Some(Err(self.break_off(error))))
            }
        }
    }

    fn break_off(&mut self, error: AnswerError) -> AnswerError {
        self.account.ended(error.outcome());
        self.sender = None;
        if self.ends_with_connection {
            self.exchange.break_off();
        }
        error
    }

    fn early_end(&mut self) -> Pin<&mut (dyn Future<Output = AnswerError> + Send)> {
        let end = self.end.get_or_insert_with(|| {
            let (exchange, idle_timeout) = (self.exchange.clone(), self.idle_timeout);
            let mut cut = self.chosen.backend.cut();
            EarlyEnd(Box::pin(async move {
                tokio::select! {
                    () = exchange.silence().lasts(idle_timeout) => AnswerError::Silent(idle_timeout),
                    () = asked(&mut cut) => AnswerError::BackendLeft,
                }
            }))
        });
        end.0.as_mut()
    }

    fn end(&mut self) {
        self.account.ended("ok");
        match self.sender.take() {
            // What is still to be sent would be taken for the next request.
            Some(Sender::Http1(sender)) if self.exchange.is_received() && !self.chosen.backend.has_left() => {
                sender.keep();
            }
            other => drop(other),
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        match &mut *self {
            Self::Text(text, account) => {
                if let (Some(text), Some(account)) = (&*text, account) {
                    account.sent(text.len());
                }
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text))))
            }
            Self::Passed(passed) => passed.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text, _) => text.is_none(),
            Self::Passed(passed) => passed.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text, _) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Self::Passed(passed) => passed.inner.size_hint(),
        }
    }
}
