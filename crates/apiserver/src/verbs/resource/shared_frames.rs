//! A cache of watch frames.
//!
//! Watches of one collection with equal selectors and form send equal lines. Watches at the same position in the log
//! need the same next frame. The first of them writes it, and later ones send the same bytes. The cost of encoding an
//! event therefore does not grow with the number of equal watches.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Shards, each with its own lock: more than the threads that use the cache.
const SHARDS: usize = 16;
/// Maximum number of cached frames of a shard: equal watches are few frames apart, and some kinds have several groups
/// of equal watches.
const FRAMES_MAX: usize = 32;
/// Cached bytes of a shard: some frames of common size, or one of the largest objects.
const BYTES_MAX: usize = 1 << 20;

/// Encoded lines and their end position in the log.
#[derive(Clone)]
pub(super) struct Frame {
    /// The encoded lines; empty if no event matches.
    pub(super) bytes: Bytes,
    /// Number of events.
    pub(super) event_count: u64,
    /// Position in the log behind the last event that was read.
    pub(super) next: u64,
}

/// The identity of a watch. Watches with equal identities send equal lines.
#[derive(Clone)]
pub(super) struct StreamName {
    name: Arc<str>,
    shard: usize,
}

impl StreamName {
    fn is(&self, other: &Arc<str>) -> bool {
        Arc::ptr_eq(&self.name, other) || self.name == *other
    }
}

/// The latest frames.
#[derive(Default)]
pub(crate) struct SharedFrames {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

/// Part of the cache.
#[derive(Default)]
struct Shard {
    newest_last: VecDeque<CachedFrame>,
    bytes: usize,
}

/// Frame at a position of a stream.
struct CachedFrame {
    stream: Arc<str>,
    position: u64,
    frame: Frame,
}

impl SharedFrames {
    /// Returns the identity of watches with this description.
    pub(super) fn stream(&self, name: &str) -> StreamName {
        let hash = self.hasher.hash_one(name);
        StreamName {
            name: name.into(),
            shard: usize::try_from(hash % SHARDS as u64).unwrap_or_default(),
        }
    }

    /// Returns the frame of a stream at a position, and writes it with `write` if it is not cached.
    pub(super) fn get_or_write<E>(
        &self,
        stream: &mut StreamName,
        position: u64,
        write: impl FnOnce() -> Result<Frame, E>,
    ) -> Result<Frame, E> {
        if let Some(frame) = self.shard(stream).find(stream, position) {
            return Ok(frame);
        }
        // Without the lock: a frame of a selector that matches few events takes long to write, and watches of other
        // clients use the shard. A frame is written at most once for each thread.
        let frame = write()?;
        let mut shard = self.shard(stream);
        if shard.find(stream, position).is_some() {
            // The other frame may be shorter, and the caller has read up to the end of its own.
            return Ok(frame);
        }
        shard.bytes += frame.bytes.len();
        shard.newest_last.push_back(CachedFrame {
            stream: stream.name.clone(),
            position,
            frame: frame.clone(),
        });
        while shard.newest_last.len() > FRAMES_MAX || shard.bytes > BYTES_MAX {
            let Some(oldest) = shard.newest_last.pop_front() else {
                break;
            };
            shard.bytes -= oldest.frame.bytes.len();
        }
        Ok(frame)
    }

    fn shard(&self, stream: &StreamName) -> MutexGuard<'_, Shard> {
        self.shards[stream.shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Returns the cached frame of a stream at a position.
    fn find(&self, stream: &mut StreamName, position: u64) -> Option<Frame> {
        let known = self
            .newest_last
            .iter()
            .rev()
            .find(|cached| cached.position == position && stream.is(&cached.stream))?;
        // Equal streams share one name, so that later comparisons are of pointers.
        stream.name.clone_from(&known.stream);
        Some(known.frame.clone())
    }
}

#[cfg(test)]
mod tests;
