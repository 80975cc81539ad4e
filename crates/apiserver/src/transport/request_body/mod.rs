//! Request bodies, read with limits of size, time, rate and memory, and with a memory limit for each user.
//!
//! A body is read before its request takes a seat, so that slow clients hold no seats.

mod memory;
mod minimum_rate;

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
pub(crate) use memory::BodyMemory;
use memory::{OpenBody, Reservation};
use minimum_rate::MinimumRate;

/// Size of a body (upstream's limit).
const BODY_BYTES_MAX: usize = 3 << 20;
/// Maximum number of bytes of an oversized body that are read and discarded, so that its client reads the response.
const DISCARDED_BYTES_MAX: usize = 64 << 20;
/// Duration of the discard.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);

/// Body with the memory that it occupies.
#[derive(Debug)]
pub(crate) struct RequestBody {
    bytes: Bytes,
    _memory: Option<Reservation>,
}

impl RequestBody {
    /// Creates an empty body.
    pub(crate) fn none() -> RequestBody {
        RequestBody {
            bytes: Bytes::new(),
            _memory: None,
        }
    }

    /// Returns the content of the body.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body. Memory is reserved for bytes that have arrived, and not for the Content-Length. A client that sends no
/// bytes therefore occupies no memory.
///
/// # Errors
/// 413 for a body that is too large, 408 for one that arrives too slowly, 429 if no memory is free.
pub(crate) async fn read(
    mut body: Incoming,
    memory: &Arc<BodyMemory>,
    flow: Flow,
) -> Result<RequestBody, Failure> {
    if body.size_hint().upper() == Some(0) {
        return Ok(RequestBody::none());
    }
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        discard(body).await;
        return Err(Failure::too_large(BODY_BYTES_MAX));
    }
    match BodyReader::new(memory, flow).read(&mut body).await {
        Ok(body) => Ok(body),
        Err(ReadError::TooLarge) => {
            discard(body).await;
            Err(Failure::too_large(BODY_BYTES_MAX))
        }
        Err(ReadError::Other(failure)) => Err(*failure),
    }
}

/// Reader of one body.
struct BodyReader<'m> {
    memory: &'m Arc<BodyMemory>,
    flow: Flow,
    bytes: BytesMut,
    reservation: Option<Reservation>,
    /// Count among the incomplete bodies, since the first wait for a frame.
    open: Option<(OpenBody, MinimumRate)>,
}

impl BodyReader<'_> {
    fn new(memory: &Arc<BodyMemory>, flow: Flow) -> BodyReader<'_> {
        BodyReader {
            memory,
            flow,
            bytes: BytesMut::new(),
            reservation: None,
            open: None,
        }
    }

    async fn read(mut self, body: &mut Incoming) -> Result<RequestBody, ReadError> {
        while let Some(frame) = self.next(body).await? {
            let Ok(piece) = frame.into_data() else { continue };
            let length = self.bytes.len() + piece.len();
            if length > BODY_BYTES_MAX {
                return Err(ReadError::TooLarge);
            }
            match &mut self.reservation {
                Some(reservation) => reservation.grow(length).await?,
                None => self.reservation = Some(self.memory.reserve(self.flow, length).await?),
            }
            self.bytes.extend_from_slice(&piece);
        }
        Ok(RequestBody {
            bytes: self.bytes.freeze(),
            _memory: self.reservation,
        })
    }

    /// Returns the next frame. Most bodies arrive with the head of their request, so the first poll needs no timer.
    async fn next(&mut self, body: &mut Incoming) -> Result<Option<Frame<Bytes>>, ReadError> {
        let frame = match body.frame().now_or_never() {
            Some(frame) => frame,
            None => {
                let frame = timeout(self.frame_timeout()?, body.frame()).await;
                frame.map_err(|_| ReadError::from(too_slow()))?
            }
        };
        frame.transpose().map_err(|error| {
            let message = format!("the body could not be read: {error}");
            Failure::bad_request(message).into()
        })
    }

    /// Returns the time for the next frame.
    fn frame_timeout(&mut self) -> Result<Duration, ReadError> {
        let now = Instant::now().into_std();
        let (_, rate) = match &mut self.open {
            Some(open) => open,
            None => self
                .open
                .insert((self.memory.open(self.flow)?, MinimumRate::new(now))),
        };
        let timeout = rate.next_timeout(self.bytes.len(), now);
        timeout.ok_or_else(|| too_slow().into())
    }
}

/// Failure to read a body.
enum ReadError {
    /// The body exceeds [`BODY_BYTES_MAX`].
    TooLarge,
    /// Any other failure, as the client receives it.
    Other(Box<Failure>),
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> ReadError {
        ReadError::Other(Box::new(failure))
    }
}

fn too_slow() -> Failure {
    let message = "the body of the request did not arrive in time";
    Failure::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
}

/// Discards the rest of a body. An HTTP/1 client that still sends while the connection closes does not read
/// the response.
async fn discard(body: Incoming) {
    let rest = Limited::new(body, DISCARDED_BYTES_MAX);
    let mut rest = pin!(rest);
    let discarding = async { while let Some(Ok(_)) = rest.frame().await {} };
    if timeout(DISCARD_TIMEOUT, discarding).await.is_err() {
        tracing::debug!("rest of an oversized body not received in time");
    }
}
