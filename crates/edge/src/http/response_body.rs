//! A response's body on its way to the client, frame by frame. No frame is read before the client takes it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::access_record::AccessRecord;
use super::exchange::Exchange;
use super::pool::RequestSender;
use super::wire_body::{WireBody, WireError};
use crate::backends::ChosenBackend;
use crate::watch_flag::wait_until_true;

/// A response's body on its way to the client. An error ends the connection.
#[derive(Debug)]
pub(super) enum ResponseBody {
    /// Text of the edge itself.
    Text(Option<Bytes>, Option<AccessRecord>),
    /// Body of a backend's response.
    ForwardedBody(Box<ForwardedBody>),
}

/// Body of a backend's response.
#[derive(Debug)]
pub(super) struct ForwardedBody {
    pub(super) inner: WireBody,
    /// Connection of the response, which returns to its pool at the end.
    pub(super) sender: Option<RequestSender>,
    /// Counts as under way until the end.
    pub(super) chosen: ChosenBackend,
    pub(super) exchange: Arc<Exchange>,
    pub(super) record: AccessRecord,
    pub(super) idle_timeout: Duration,
    /// True if the end of the connection delimits the body (RFC 9112, section 6.3).
    pub(super) is_close_delimited: bool,
    /// True until the client requests the next frame.
    pub(super) awaits_client: bool,
    /// Condition that cancels the body; present once the body has to wait.
    pub(super) cancellation: Option<Cancellation>,
}

/// Completes when a body has to be cancelled.
pub(super) struct Cancellation(Pin<Box<dyn Future<Output = ResponseError> + Send>>);

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cancellation")
    }
}

/// Reason why a response is truncated. The client detects the truncation by the end of the connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResponseError {
    /// The backend did not send all of it.
    #[error("response of the backend truncated: {0}")]
    Backend(#[from] WireError),
    /// No data was forwarded for the idle timeout.
    #[error("no data forwarded for {0:?}")]
    Idle(Duration),
    /// The backend was removed, and its drain time is over.
    #[error("backend removed")]
    BackendRemoved,
}

impl ResponseError {
    fn outcome(&self) -> &'static str {
        match self {
            Self::Backend(_) => "backend failed",
            Self::Idle(_) => "timeout",
            Self::BackendRemoved => "backend left",
        }
    }
}

impl ForwardedBody {
    /// Starts the body. A response without content ends here.
    pub(super) fn into_body(mut self) -> ResponseBody {
        if self.inner.is_end_stream() {
            self.finish();
        }
        ResponseBody::ForwardedBody(Box::new(self))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ResponseError>>> {
        if std::mem::take(&mut self.awaits_client) {
            // A slow client has taken the last frame.
            self.exchange.progress();
        }
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.exchange.progress();
                self.awaits_client = true;
                self.record.count_sent(frame.data_ref().map_or(0, Bytes::len));
                if self.inner.is_end_stream() {
                    self.finish();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(self.fail(error.into())))),
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let error = ready!(self.cancellation().poll(cx));
                Poll::Ready(Some(Err(self.fail(error))))
            }
        }
    }

    fn fail(&mut self, error: ResponseError) -> ResponseError {
        self.record.set_outcome(error.outcome());
        self.sender = None;
        if self.is_close_delimited {
            self.exchange.set_truncated();
        }
        error
    }

    fn cancellation(&mut self) -> Pin<&mut (dyn Future<Output = ResponseError> + Send)> {
        let cancellation = self.cancellation.get_or_insert_with(|| {
            let (exchange, idle_timeout) = (self.exchange.clone(), self.idle_timeout);
            let mut cut = self.chosen.backend.cut_off();
            Cancellation(Box::pin(async move {
                tokio::select! {
                    () = exchange.idle().expired(idle_timeout) => ResponseError::Idle(idle_timeout),
                    () = wait_until_true(&mut cut) => ResponseError::BackendRemoved,
                }
            }))
        });
        cancellation.0.as_mut()
    }

    fn finish(&mut self) {
        self.record.set_outcome("ok");
        match self.sender.take() {
            // The parser would read the unsent rest of a request as the next request.
            Some(RequestSender::Http1(sender))
                if self.exchange.is_received() && !self.chosen.backend.is_removed() =>
            {
                sender.release();
            }
            other => drop(other),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ResponseError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseError>>> {
        match &mut *self {
            Self::Text(text, record) => {
                if let (Some(text), Some(record)) = (&*text, record) {
                    record.count_sent(text.len());
                }
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text))))
            }
            Self::ForwardedBody(passed) => passed.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text, _) => text.is_none(),
            Self::ForwardedBody(passed) => passed.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text, _) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Self::ForwardedBody(passed) => passed.inner.size_hint(),
        }
    }
}
