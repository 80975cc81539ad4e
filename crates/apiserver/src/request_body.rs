//! Bodies of requests, read within bounds of size, time and memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
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
/// How long a request waits for room.
const ROOM_TIMEOUT: Duration = Duration::from_secs(10);

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

    /// Reads a body.
    pub(crate) async fn read(&self, body: Incoming) -> Result<RequestBody, Failure> {
        let (least, most) = (body.size_hint().lower(), body.size_hint().upper());
        if least > BODY_BYTES_MAX as u64 {
            return Err(Failure::too_large(BODY_BYTES_MAX));
        }
        if most == Some(0) {
            return Ok(RequestBody::none());
        }
        let room = self.take(most.unwrap_or(BODY_BYTES_MAX as u64)).await?;
        match timeout(BODY_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect()).await {
            Ok(Ok(body)) => Ok(RequestBody {
                bytes: body.to_bytes(),
                _room: Some(room),
            }),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failure::too_large(BODY_BYTES_MAX)),
            Ok(Err(error)) => Err(Failure::bad_request(format!(
                "the body could not be read: {error}"
            ))),
            Err(_) => {
                let message = "the body of the request did not arrive in time";
                Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message))
            }
        }
    }

    async fn take(&self, bytes: u64) -> Result<OwnedSemaphorePermit, Failure> {
        let kib = u32::try_from(bytes.min(BODY_BYTES_MAX as u64) / 1024 + 1).unwrap_or(u32::MAX);
        match timeout(ROOM_TIMEOUT, self.kib.clone().acquire_many_owned(kib)).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => Err(Failure::too_many_requests()),
        }
    }
}
