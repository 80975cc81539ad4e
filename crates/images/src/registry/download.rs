//! Downloads of layers into files, resumed after broken connections, and verified.

use std::io::{self, Read as _, Seek, SeekFrom};
use std::time::{Duration, Instant};

use reqwest::header::CONTENT_RANGE;
use reqwest::{Response, StatusCode};
use tokio::fs::File;
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};

use super::Progress;
use super::error::PullError;
use super::session::Session;
use crate::digest::{Digest, DigestHasher};
use crate::manifest::Descriptor;
use crate::store::{LockedFile, StoreError};

/// Maximum number of attempts in a row without a new byte.
const ATTEMPTS_WITHOUT_DATA_MAX: u32 = 5;
/// Maximum number of attempts for one layer on one host. A layer of 10 GiB survives a cut for each 200 MiB.
const ATTEMPTS_MAX: u32 = 50;
/// Delay before the second attempt in a row without a new byte. It doubles with each one.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// Time in which a download must get [`RATE_BYTES_MIN`]. Without this limit, a slow download would occupy a concurrent
/// download until the deadline of the pull.
pub(super) const RATE_PERIOD: Duration = Duration::from_secs(300);
/// Bytes that count as progress: 3.5 KiB a second, which the slowest links reach.
pub(super) const RATE_BYTES_MIN: u64 = 1 << 20;
/// Bytes of the buffer to read an interrupted download.
const BUFFER_BYTES: usize = 256 << 10;

/// File with the first part of a layer.
pub(super) struct PartialLayer<'a> {
    layer: &'a Descriptor,
    path: std::path::PathBuf,
    file: File,
    hasher: DigestHasher,
    bytes: u64,
}

/// Rate of a download, over its requests.
pub(super) struct Rate {
    begun: Instant,
    bytes: u64,
}

impl Rate {
    pub(super) fn new(now: Instant) -> Self {
        Self { begun: now, bytes: 0 }
    }

    /// Counts bytes. Returns `false` if a period has passed with too few of them.
    pub(super) fn add(&mut self, bytes: u64, now: Instant) -> bool {
        self.bytes += bytes;
        if now.duration_since(self.begun) < RATE_PERIOD {
            return true;
        }
        let is_sufficient = self.bytes >= RATE_BYTES_MIN;
        *self = Self::new(now);
        is_sufficient
    }
}

impl<'a> PartialLayer<'a> {
    /// Continues the download of an earlier pull, or starts one.
    pub(super) async fn open(layer: &'a Descriptor, locked: &LockedFile) -> Result<Self, PullError> {
        let path = locked.path().to_owned();
        let failed = StoreError::at(&path);
        let (file, size, algorithm) = (locked.file().try_clone(), layer.size, layer.digest.algorithm());
        let hashed = tokio::task::spawn_blocking(move || {
            let file = file?;
            if file.metadata()?.len() > size {
                file.set_len(0)?;
            }
            hash(file, DigestHasher::new(algorithm))
        });
        let (file, hasher, bytes) = hashed.await.map_err(PullError::Thread)?.map_err(failed)?;
        Ok(Self {
            layer,
            path,
            file: File::from_std(file),
            hasher,
            bytes,
        })
    }

    /// Downloads the missing bytes from a host, and verifies the whole.
    pub(super) async fn complete_from(
        &mut self,
        session: &Session,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<(), PullError> {
        let has_earlier_part = self.bytes > 0;
        match self.complete_once_from(session, progress).await {
            // The wrong part can be of an earlier pull or another host, so this host can send the whole.
            Err(PullError::Digest { .. }) if has_earlier_part => {
                self.complete_once_from(session, progress).await
            }
            completed => completed,
        }
    }

    /// Downloads the missing bytes from a host, and verifies the whole. Content with another digest is dropped.
    async fn complete_once_from(
        &mut self,
        session: &Session,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<(), PullError> {
        let mut rate = Rate::new(Instant::now());
        let mut fruitless_attempts = 0;
        let mut attempts = 0;
        while self.bytes < self.layer.size {
            let before = self.bytes;
            attempts += 1;
            if let Err(error) = self.append_from(session, &mut rate, progress).await {
                if self.bytes > before {
                    fruitless_attempts = 0;
                } else {
                    fruitless_attempts += 1;
                }
                let is_last = fruitless_attempts == ATTEMPTS_WITHOUT_DATA_MAX || attempts == ATTEMPTS_MAX;
                if is_last || !error.is_transient() {
                    return Err(error);
                }
                tokio::time::sleep(RETRY_DELAY * 2_u32.pow(fruitless_attempts)).await;
            }
        }
        self.file.flush().await.map_err(StoreError::at(&self.path))?;
        let actual = self.hasher.clone().finish();
        if actual == self.layer.digest {
            return Ok(());
        }
        self.restart().await?;
        Err(PullError::Digest {
            host: session.host.authority.clone(),
            expected: Box::new(self.layer.digest.clone()),
            actual: Box::new(actual),
        })
    }

    /// Sends one request and appends its body.
    async fn append_from(
        &mut self,
        session: &Session,
        rate: &mut Rate,
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<(), PullError> {
        let digest = self.layer.digest.to_string();
        let host = &session.host.authority;
        let mut response = session.blob_from(&digest, self.bytes).await?;
        if response.status() == StatusCode::PARTIAL_CONTENT {
            if range_start(&response) != Some(self.bytes) {
                return Err(PullError::protocol(
                    host,
                    "response with another range than requested",
                ));
            }
        } else if self.bytes > 0 {
            // The host does not resume.
            self.restart().await?;
        }
        while let Some(chunk) = response.chunk().await.map_err(|error| session.broken(error))? {
            if self.bytes + chunk.len() as u64 > self.layer.size {
                self.restart().await?;
                let reason = format!("layer {digest} has more than {} bytes", self.layer.size);
                return Err(PullError::protocol(host, reason));
            }
            self.hasher.update(&chunk);
            self.file
                .write_all(&chunk)
                .await
                .map_err(StoreError::at(&self.path))?;
            self.bytes += chunk.len() as u64;
            if !rate.add(chunk.len() as u64, Instant::now()) {
                return Err(PullError::Slow {
                    host: host.clone(),
                    bytes_min: RATE_BYTES_MIN,
                    after: RATE_PERIOD,
                });
            }
            progress(Progress::Layer {
                digest: self.layer.digest.clone(),
                downloaded_bytes: self.bytes,
                total_bytes: self.layer.size,
            });
        }
        if self.bytes < self.layer.size {
            // A body without length can end early.
            let cause = format!(
                "layer {digest} ended after {} of {} bytes",
                self.bytes, self.layer.size
            );
            let host = host.clone();
            return Err(PullError::Connection { host, cause });
        }
        Ok(())
    }

    /// Drops the downloaded bytes.
    async fn restart(&mut self) -> Result<(), PullError> {
        let restart = async {
            self.file.flush().await?;
            self.file.set_len(0).await?;
            self.file.seek(SeekFrom::Start(0)).await
        };
        restart.await.map_err(StoreError::at(&self.path))?;
        self.hasher = DigestHasher::new(self.layer.digest.algorithm());
        self.bytes = 0;
        Ok(())
    }
}

/// Returns the position of the first byte of a partial response.
fn range_start(response: &Response) -> Option<u64> {
    let range = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

/// Verifies bytes against a digest.
pub(super) fn verify(host: &str, expected: &Digest, content: &[u8]) -> Result<(), PullError> {
    let mut hasher = DigestHasher::new(expected.algorithm());
    hasher.update(content);
    let actual = hasher.finish();
    if actual == *expected {
        return Ok(());
    }
    Err(PullError::Digest {
        host: host.to_owned(),
        expected: Box::new(expected.clone()),
        actual: Box::new(actual),
    })
}

/// Reads a file from its start. Its position is at its end afterwards.
fn hash(mut file: std::fs::File, mut hasher: DigestHasher) -> io::Result<(std::fs::File, DigestHasher, u64)> {
    file.seek(SeekFrom::Start(0))?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((file, hasher, bytes));
        }
        hasher.update(&buffer[..read]);
        bytes += read as u64;
    }
}
