//! A set of taken offsets in a range of up to 2^64 - 1. Its memory grows with the number of taken offsets, and the
//! search for a free offset skips full chunks.

use std::collections::BTreeMap;
use std::ops::Range;

/// Offsets per chunk; 64 words of 64 bits when dense.
const CHUNK_BITS: u32 = 12;
const CHUNK_OFFSETS: usize = 1 << CHUNK_BITS;
const WORD_BITS: usize = 64;
const CHUNK_WORDS: usize = CHUNK_OFFSETS / WORD_BITS;
/// Limit of a sparse chunk: a sorted list of fewer two-byte offsets is smaller than the 512 bytes of a dense chunk.
const SPARSE_MAX: usize = 256;

/// A set of taken offsets.
#[derive(Clone, Debug, Default)]
pub(crate) struct OffsetSet {
    chunks: BTreeMap<u64, Chunk>,
    len: u64,
}

/// Offsets of a part of the range.
#[derive(Clone, Debug)]
enum Chunk {
    Sparse(Vec<u16>),
    Dense {
        words: Box<[u64; CHUNK_WORDS]>,
        len: u16,
    },
}

impl OffsetSet {
    /// Returns the number of taken offsets.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if `offset` is taken.
    pub(crate) fn contains(&self, offset: u64) -> bool {
        let (chunk, at) = split(offset);
        self.chunks.get(&chunk).is_some_and(|chunk| chunk.contains(at))
    }

    /// Takes `offset`; returns false if it was taken already.
    pub(crate) fn insert(&mut self, offset: u64) -> bool {
        let (chunk, at) = split(offset);
        let is_new = self
            .chunks
            .entry(chunk)
            .or_insert_with(|| Chunk::Sparse(Vec::new()))
            .insert(at);
        self.len += u64::from(is_new);
        is_new
    }

    /// Frees `offset`; returns false if it was free already.
    pub(crate) fn remove(&mut self, offset: u64) -> bool {
        let (key, at) = split(offset);
        let Some(chunk) = self.chunks.get_mut(&key) else {
            return false;
        };
        let was_taken = chunk.remove(at);
        if chunk.len() == 0 {
            self.chunks.remove(&key);
        }
        self.len -= u64::from(was_taken);
        was_taken
    }

    /// Returns the smallest free offset in `range`.
    pub(crate) fn first_free(&self, range: Range<u64>) -> Option<u64> {
        let mut offset = range.start;
        while offset < range.end {
            let (key, at) = split(offset);
            let Some(chunk) = self.chunks.get(&key) else {
                return Some(offset);
            };
            if let Some(free) = chunk.first_free(at) {
                let found = (key << CHUNK_BITS) + u64::from(free);
                return (found < range.end).then_some(found);
            }
            offset = (key + 1).checked_shl(CHUNK_BITS).filter(|next| *next > offset)?;
        }
        None
    }
}

impl Chunk {
    fn len(&self) -> usize {
        match self {
            Self::Sparse(taken) => taken.len(),
            Self::Dense { len, .. } => usize::from(*len),
        }
    }

    fn contains(&self, at: u16) -> bool {
        match self {
            Self::Sparse(taken) => taken.binary_search(&at).is_ok(),
            Self::Dense { words, .. } => words[word_of(at)] & bit_of(at) != 0,
        }
    }

    fn insert(&mut self, at: u16) -> bool {
        match self {
            Self::Sparse(taken) => {
                let Err(place) = taken.binary_search(&at) else {
                    return false;
                };
                taken.insert(place, at);
                if taken.len() > SPARSE_MAX {
                    *self = Self::dense(taken);
                }
                true
            }
            Self::Dense { words, len } => {
                let is_new = words[word_of(at)] & bit_of(at) == 0;
                words[word_of(at)] |= bit_of(at);
                *len += u16::from(is_new);
                is_new
            }
        }
    }

    fn remove(&mut self, at: u16) -> bool {
        match self {
            Self::Sparse(taken) => taken.binary_search(&at).map(|place| taken.remove(place)).is_ok(),
            Self::Dense { words, len } => {
                let was_taken = words[word_of(at)] & bit_of(at) != 0;
                words[word_of(at)] &= !bit_of(at);
                *len -= u16::from(was_taken);
                was_taken
            }
        }
    }

    /// Returns the smallest free offset from `from` on.
    fn first_free(&self, from: u16) -> Option<u16> {
        match self {
            Self::Sparse(taken) => {
                // Taken offsets are distinct and sorted, so the first gap after `from` ends the run.
                let start = taken.partition_point(|&at| at < from);
                let run = taken[start..]
                    .iter()
                    .zip(from..)
                    .take_while(|(at, expected)| **at == *expected)
                    .count();
                let free = usize::from(from) + run;
                (free < CHUNK_OFFSETS).then(|| as_u16(free))
            }
            Self::Dense { words, len } => {
                if usize::from(*len) == CHUNK_OFFSETS {
                    return None;
                }
                let first = word_of(from);
                let before_from = bit_of(from) - 1;
                (first..CHUNK_WORDS).find_map(|index| {
                    let taken = words[index] | if index == first { before_from } else { 0 };
                    let bit = taken.trailing_ones() as usize;
                    (bit < WORD_BITS).then(|| as_u16(index * WORD_BITS + bit))
                })
            }
        }
    }

    fn dense(taken: &[u16]) -> Self {
        let mut words = Box::new([0; CHUNK_WORDS]);
        for &at in taken {
            words[word_of(at)] |= bit_of(at);
        }
        Self::Dense {
            words,
            len: as_u16(taken.len()),
        }
    }
}

fn split(offset: u64) -> (u64, u16) {
    (
        offset >> CHUNK_BITS,
        as_u16(offset as usize & (CHUNK_OFFSETS - 1)),
    )
}

/// Offsets in a chunk and its length are at most 4096.
fn as_u16(value: usize) -> u16 {
    value as u16
}

fn word_of(at: u16) -> usize {
    usize::from(at) / WORD_BITS
}

fn bit_of(at: u16) -> u64 {
    1 << (usize::from(at) % WORD_BITS)
}

#[cfg(test)]
mod tests;
