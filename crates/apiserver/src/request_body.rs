//! Bodies of requests, read within bounds of size, time and memory.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::failure::Failure;

/// Largest body that is read, upstream's limit.
const BODY_BYTES_MAX: usize = 3 << 20;
/// How long a body may take to arrive: 3 MB over a slow line, and less than clients wait for an answer.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Bodies held at a time, all together, in KiB: ten of the largest or some ten thousand of usual size. Decoded they
/// take some times as much, so this bounds what writes cost in memory.
const BODIES_KIB_MAX: usize = 32 << 10;
/// How long a client may send nothing in the middle of a body: some lost packets.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request waits for room: longer than bodies that have stalled can keep it.
const ROOM_TIMEOUT: Duration = Duration::from_secs(15);
/// What is read and thrown away of a body that is too large, so that its client comes to read the answer.
const DISCARDED_BYTES_MAX: usize = 64 << 20;
/// How long that may take.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);

/// The room that bodies may take, shared by all requests.
#[derive(Debug)]
pub(crate) struct BodyRoom {
    kib: Arc<Semaphore>,
}

/// A body, and the room it takes as long as it is held.
#[derive(Debug)]
pub(crate) struct RequestBody {
    bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
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

impl BodyRoom {
    pub(crate) fn new() -> BodyRoom {
        BodyRoom {
            kib: Arc::new(Semaphore::new(BODIES_KIB_MAX)),
        }
    }

    /// Reads a body. Room is taken for what has arrived, not for what is announced: clients that announce much and
    /// send nothing keep nobody else waiting.
    pub(crate) async fn read(&self, mut body: Incoming) -> Result<RequestBody, Failure> {
        if body.size_hint().upper() == Some(0) {
            return Ok(RequestBody::none());
        }
        if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
            discard(body).await;
            return Err(Failure::too_large(BODY_BYTES_MAX));
        }
        match timeout(BODY_TIMEOUT, self.gather(&mut body)).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(Refused::TooLarge)) => {
                discard(body).await;
                Err(Failure::too_large(BODY_BYTES_MAX))
            }
            Ok(Err(Refused::Other(failure))) => Err(*failure),
            Err(_) => Err(too_slow()),
        }
    }

    async fn gather(&self, body: &mut Incoming) -> Result<RequestBody, Refused> {
        let mut bytes = BytesMut::new();
        let mut room: Option<OwnedSemaphorePermit> = None;
        loop {
            let frame = match timeout(STALL_TIMEOUT, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    let message = format!("the body could not be read: {error}");
                    return Err(Failure::bad_request(message).into());
                }
                Ok(None) => break,
                Err(_) => return Err(too_slow().into()),
            };
            let Ok(piece) = frame.into_data() else { continue };
            let length = bytes.len() + piece.len();
            if length > BODY_BYTES_MAX {
                return Err(Refused::TooLarge);
            }
            let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let missing = length.div_ceil(1024).saturating_sub(held);
            if missing > 0 {
                let more = self.take(missing).await?;
                match &mut room {
                    Some(room) => room.merge(more),
                    None => room = Some(more),
                }
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(RequestBody {
            bytes: bytes.freeze(),
            _room: room,
        })
    }

    async fn take(&self, kib: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        match timeout(ROOM_TIMEOUT, self.kib.clone().acquire_many_owned(kib)).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => Err(Failure::too_many_requests()),
        }
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
