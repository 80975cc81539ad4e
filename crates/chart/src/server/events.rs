//! Stream of changes (server-sent events). The reader pulls: a slow one has no queue here, and falls behind the log
//! instead.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::header::HeaderMap;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::watch;

use super::access::User;
use super::query::parameter;
use super::response::{Body, Refusal, with_body};
use super::sessions::SessionId;
use super::shared_state::SharedState;
use crate::feed::Reader;
use crate::feed::change_log::NextPart;

/// Time without changes after which a comment keeps the connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Maximum number of streams of all sessions.
pub(super) const STREAMS_MAX: usize = 64;
/// Comment of the stream, which readers ignore.
const COMMENT: &str = ": keep-alive\n\n";

/// Reader of the stream.
struct Stream {
    state: Arc<SharedState>,
    session: SessionId,
    user: User,
    revision: u64,
    revisions: watch::Receiver<u64>,
    has_begun: bool,
    _reader: Reader,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.state.sessions.end_stream(&self.user);
    }
}

/// Returns the stream of the changes after the revision of the request.
///
/// # Errors
///
/// A [`Refusal`] if a limit is reached, or the request has no revision.
pub(super) fn respond(
    state: &Arc<SharedState>,
    session: SessionId,
    headers: &HeaderMap,
    query: &str,
) -> Result<Response<Body>, Refusal> {
    let latest = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let text = latest.map(str::to_owned).or_else(|| parameter(query, "revision"));
    let revision = text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        Refusal::new(
            StatusCode::BAD_REQUEST,
            "expected the parameter revision, the number of a snapshot",
        )
    })?;
    if state.feed.readers() >= STREAMS_MAX {
        return Err(Refusal::too_many(
            "the chart has too many readers: close another page",
        ));
    }
    let user = state.sessions.begin_stream(session)?;
    let stream = Stream {
        state: Arc::clone(state),
        session,
        user,
        revision,
        revisions: state.feed.revisions(),
        has_begun: false,
        _reader: state.feed.reader(),
    };
    let frames = unfold(stream, |mut stream| async move {
        let bytes = stream.next().await?;
        Some((Ok(Frame::data(bytes)), stream))
    });
    let body = StreamBody::new(frames).boxed_unsync();
    Ok(with_body(StatusCode::OK, "text/event-stream", body))
}

impl Stream {
    /// Returns the next part of the stream; `None` when the session has ended.
    async fn next(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.has_begun, true) {
            // Proxies pass the headers on with the first bytes.
            return Some(Bytes::from_static(COMMENT.as_bytes()));
        }
        loop {
            self.state
                .sessions
                .check(self.session, &self.state.access)
                .await
                .ok()?;
            self.revisions.borrow_and_update();
            // Without caches there are no changes; the reader has begun them again.
            let following = self.state.feed.changes_after(self.revision);
            match following.unwrap_or(NextPart::Nothing) {
                // One by one: a slow reader would keep the memory of a former log otherwise.
                NextPart::Change(event, revision) => {
                    self.revision = revision;
                    return Some(event);
                }
                NextPart::Reload(revision) => {
                    self.revision = revision;
                    self.state.metrics.count_reload();
                    let event =
                        format!("id: {revision}\nevent: reload\ndata: {{\"revision\":{revision}}}\n\n");
                    return Some(event.into());
                }
                NextPart::Nothing => {}
            }
            let changed = tokio::time::timeout(KEEP_ALIVE, self.revisions.changed()).await;
            if changed.is_err() {
                return Some(Bytes::from_static(COMMENT.as_bytes()));
            }
        }
    }
}
