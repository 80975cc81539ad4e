//! The lines that many watches tell, put together once.
//!
//! Watches of one collection with the same selectors, in the same form, tell the same. Those that have read to the same
//! place in the log have the same lines to tell next, so the first of them to look writes these, and the others send the
//! same bytes: a change costs them a look into a small table, however their selectors look.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Parts of the table, each with a lock of its own: more than there are threads that look at it.
const SHARDS: usize = 16;
/// Frames that a shard keeps: watches that tell the same are a few frames apart, and some kinds are watched in several
/// ways.
const FRAMES_MAX: usize = 32;
/// Bytes that a shard keeps: some frames of usual size, or one of the largest objects.
const BYTES_MAX: usize = 1 << 20;

/// Lines, and how far they go.
#[derive(Clone)]
pub(super) struct Frame {
    /// The lines; none if nothing of what was read is selected.
    pub(super) bytes: Bytes,
    /// Events that they tell.
    pub(super) told: u64,
    /// The position in the log behind the last event that was read.
    pub(super) next: u64,
}

/// What watches tell: those with equal streams tell the same.
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

/// The last frames.
#[derive(Default)]
pub(crate) struct SharedFrames {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

#[derive(Default)]
struct Shard {
    newest_last: VecDeque<Kept>,
    bytes: usize,
}

struct Kept {
    stream: Arc<str>,
    position: u64,
    frame: Frame,
}

impl SharedFrames {
    /// The stream of watches that all of `name` is equal for.
    pub(super) fn stream(&self, name: &str) -> StreamName {
        let hash = self.hasher.hash_one(name);
        StreamName {
            name: name.into(),
            shard: usize::try_from(hash % SHARDS as u64).unwrap_or_default(),
        }
    }

    /// The frame of a stream from a position on, which `write` writes if nobody has yet.
    pub(super) fn get_or_write<E>(
        &self,
        stream: &mut StreamName,
        position: u64,
        write: impl FnOnce() -> Result<Frame, E>,
    ) -> Result<Frame, E> {
        // Held while the frame is written: that is what spares the others the work.
        let mut shard = self.shards[stream.shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = shard
            .newest_last
            .iter()
            .rev()
            .find(|kept| kept.position == position && stream.is(&kept.stream));
        if let Some(kept) = known {
            // One name for all: from now on it is found equal without being read.
            stream.name.clone_from(&kept.stream);
            return Ok(kept.frame.clone());
        }
        let frame = write()?;
        shard.bytes += frame.bytes.len();
        shard.newest_last.push_back(Kept {
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
}

#[cfg(test)]
mod tests;
