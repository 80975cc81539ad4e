//! Bodies of requests, read within bounds of size, time, rate and memory, and with a part of the memory for each user.
//!
//! A body is read before its request takes a seat, so that a client that sends slowly keeps nobody else waiting.

mod pace;
mod room;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Frame, Incoming};
use tokio::time::{Instant, timeout};

use crate::access::flow_control::Flow;
use crate::failure::Failure;
use pace::Pace;
pub(crate) use room::BodyRoom;
use room::{Opened, Room};

/// Largest body that is read, upstream's limit.
const BODY_BYTES_MAX: usize = 3 << 20;
/// What is read and thrown away of a body that is too large, so that its client comes to read the answer.
const DISCARDED_BYTES_MAX: usize = 64 << 20;
/// How long that may take.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);

/// A body, and the room it takes as long as it is held.
#[derive(Debug)]
pub(crate) struct RequestBody {
    bytes: Bytes,
    _room: Option<Room>,
}

impl RequestBody {
    /// No body.
    pub(crate) fn none() -> RequestBody {
        RequestBody {
            bytes: Bytes::new(),
            _room: None,
        }
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body. Room is taken for what has arrived, not for what is announced: clients that announce much and send
/// nothing keep nobody else waiting.
///
/// # Errors
/// 413 for a body that is too large, 408 for one that comes too slowly, 429 if there is no room for it.
pub(crate) async fn read(
    mut body: Incoming,
    rooms: &Arc<BodyRoom>,
    flow: Flow,
) -> Result<RequestBody, Failure> {
    if body.size_hint().upper() == Some(0) {
        return Ok(RequestBody::none());
    }
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        discard(body).await;
        return Err(Failure::too_large(BODY_BYTES_MAX));
    }
    match Reading::new(rooms, flow).gather(&mut body).await {
        Ok(body) => Ok(body),
        Err(Refused::TooLarge) => {
            discard(body).await;
            Err(Failure::too_large(BODY_BYTES_MAX))
        }
        Err(Refused::Other(failure)) => Err(*failure),
    }
}

/// A body that is read.
struct Reading<'r> {
    rooms: &'r Arc<BodyRoom>,
    flow: Flow,
    bytes: BytesMut,
    room: Option<Room>,
    /// Counts the body among those that are not complete yet, since the first wait for more of it.
    opened: Option<(Opened, Pace)>,
}

impl Reading<'_> {
    fn new(rooms: &Arc<BodyRoom>, flow: Flow) -> Reading<'_> {
        Reading {
            rooms,
            flow,
            bytes: BytesMut::new(),
            room: None,
            opened: None,
        }
    }

    async fn gather(mut self, body: &mut Incoming) -> Result<RequestBody, Refused> {
        while let Some(frame) = self.next(body).await? {
            let Ok(piece) = frame.into_data() else { continue };
            let length = self.bytes.len() + piece.len();
            if length > BODY_BYTES_MAX {
                return Err(Refused::TooLarge);
            }
            match &mut self.room {
                Some(room) => room.grow(length).await?,
                None => self.room = Some(self.rooms.room(self.flow, length).await?),
            }
            self.bytes.extend_from_slice(&piece);
        }
        Ok(RequestBody {
            bytes: self.bytes.freeze(),
            _room: self.room,
        })
    }

    /// The next frame. One that is there already costs nothing: most bodies come with the head of their request.
    async fn next(&mut self, body: &mut Incoming) -> Result<Option<Frame<Bytes>>, Refused> {
        let come = match body.frame().now_or_never() {
            Some(come) => come,
            None => {
                let patience = self.patience()?;
                let come = timeout(patience, body.frame()).await;
                come.map_err(|_| Refused::from(too_slow()))?
            }
        };
        come.transpose().map_err(|error| {
            let message = format!("the body could not be read: {error}");
            Failure::bad_request(message).into()
        })
    }

    /// Present limit of silence of the client.
    fn patience(&mut self) -> Result<Duration, Refused> {
        let now = Instant::now().into_std();
        let (_, pace) = match &mut self.opened {
            Some(opened) => opened,
            None => self.opened.insert((self.rooms.open(self.flow)?, Pace::new(now))),
        };
        let patience = pace.patience(self.bytes.len(), now);
        patience.ok_or_else(|| too_slow().into())
    }
}

/// Why a body is not read to its end.
enum Refused {
    /// It is larger than any may be.
    TooLarge,
    /// Anything else, as the client is told.
    Other(Box<Failure>),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused::Other(Box::new(failure))
    }
}

fn too_slow() -> Failure {
    let message = "the body of the request did not arrive in time";
    Failure::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
}

/// Reads on and throws away. An HTTP/1 client that still sends when the connection is closed never sees why.
async fn discard(body: Incoming) {
    let rest = Limited::new(body, DISCARDED_BYTES_MAX);
    let mut rest = pin!(rest);
    let all = async { while let Some(Ok(_)) = rest.frame().await {} };
    if timeout(DISCARD_TIMEOUT, all).await.is_err() {
        tracing::debug!("the rest of a body that is too large did not arrive in time");
    }
}
