//! Lines of an open watch, in batches.

use std::borrow::Cow;
use std::time::Duration;

use api::object::Resource;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::FutureExt;
use http::Method;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{ClientError, Status};
use crate::request::Client;
use crate::transport::Body;

/// Limit of a line in bytes: an object of 3 MB, the largest that servers accept, with room for escapes.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Maximum number of lines of a batch: enough for a burst, few enough to buffer.
const BATCH_LINES_MAX: usize = 1_000;
/// Number of bytes after which a batch has no further line. The backlog of a watch can have lines of several megabytes.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Idle timeout of a watch: servers send bookmarks about once per minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(360);

/// A line of a watch.
#[derive(Deserialize)]
pub(super) struct WatchEvent<'a> {
    /// ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    /// Object, or Status.
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

impl WatchEvent<'_> {
    /// Returns the resourceVersion of the object, if it has one.
    pub(super) fn resource_version(&self) -> Option<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Meta {
            resource_version: String,
        }
        #[derive(Deserialize)]
        struct Object {
            metadata: Meta,
        }
        serde_json::from_str::<Object>(self.object.get())
            .ok()
            .map(|object| object.metadata.resource_version)
    }

    /// Returns the error of an ERROR event.
    pub(super) fn failure<T: Resource>(&self) -> ClientError {
        let status: Status = serde_json::from_str(self.object.get()).unwrap_or_default();
        ClientError::Status {
            method: Method::GET,
            path: T::collection(None),
            status,
        }
    }
}

/// A body that is split into lines.
pub(super) struct Lines {
    path: String,
    body: Body,
    /// True after the end of the body, which must not be polled again.
    is_ended: bool,
    buffer: BytesMut,
    /// Part of the buffer that was searched for the end of a line.
    searched: usize,
}

impl Lines {
    pub(super) fn new(path: String, body: Body) -> Self {
        Self {
            path,
            body,
            is_ended: false,
            buffer: BytesMut::new(),
            searched: 0,
        }
    }

    /// Waits for a line, and returns it with further ones that have arrived; none at the end of the body. Cancelling
    /// loses nothing.
    pub(super) async fn next_batch(&mut self, client: &Client) -> Result<Vec<Bytes>, ClientError> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut next = self.next(client).await?;
        while let Some(line) = next {
            bytes += line.len();
            batch.push(line);
            let has_room = batch.len() < BATCH_LINES_MAX && bytes < BATCH_BYTES_MAX;
            next = if has_room { self.next_ready() } else { None };
        }
        Ok(batch)
    }

    /// Returns the next line; `None` at the end of the body. Cancelling loses nothing.
    async fn next(&mut self, client: &Client) -> Result<Option<Bytes>, ClientError> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.is_ended {
                return Ok(None);
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(ClientError::TooLarge {
                    path: self.path.clone(),
                    limit_bytes: LINE_BYTES_MAX,
                });
            }
            let frame = tokio::time::timeout(IDLE_TIMEOUT, self.body.frame())
                .await
                .map_err(|_| ClientError::Timeout {
                    method: Method::GET,
                    path: self.path.clone(),
                    limit: IDLE_TIMEOUT,
                })?;
            match frame {
                None => self.is_ended = true,
                Some(Ok(frame)) => self.take(frame),
                Some(Err(error)) => {
                    self.is_ended = true;
                    return Err(client.transport(&Method::GET, &self.path, error));
                }
            }
        }
    }

    /// Returns a line that has arrived.
    fn next_ready(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.take_line() {
                return Some(line);
            }
            if self.is_ended || self.buffer.len() > LINE_BYTES_MAX {
                return None;
            }
            match self.body.frame().now_or_never()? {
                Some(Ok(frame)) => self.take(frame),
                // The watch is resumed after its last event, however it ended.
                None | Some(Err(_)) => self.is_ended = true,
            }
        }
    }

    fn take(&mut self, frame: hyper::body::Frame<Bytes>) {
        if let Ok(part) = frame.into_data() {
            self.buffer.extend_from_slice(&part);
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        let Some(end) = self.buffer[self.searched..]
            .iter()
            .position(|&byte| byte == b'\n')
        else {
            self.searched = self.buffer.len();
            return None;
        };
        let line = self.buffer.split_to(self.searched + end).freeze();
        self.buffer.advance(1);
        self.searched = 0;
        Some(line)
    }
}

#[cfg(test)]
mod tests;
