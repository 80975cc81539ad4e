//! Answers of upstream resolvers, kept for as long as they say (RFC 2308), and longer while nobody answers
//! (RFC 8767).
//!
//! The cache knows no clock: the present second comes with every call. It is divided into parts that are
//! locked apart, and reading one does not exclude other readers. Its size is bounded in bytes; what has not
//! been used for longest, among a few taken at random, makes room.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use indexmap::IndexMap;

use crate::wire::{Keep, Relayed};

/// Parts that are locked apart.
const SHARDS: usize = 64;
/// Bytes that an entry costs beside its key and its message: the map's slots, counters, allocations.
const ENTRY_OVERHEAD_BYTES: usize = 192;
/// Entries of which the one not used for longest makes room.
const CANDIDATES: usize = 8;
/// Seconds for which a stale answer may be kept by its client (RFC 8767 section 4).
const STALE_TTL_SECONDS: u32 = 30;
/// Seconds for which upstream is left in peace about a name after it failed to answer (RFC 8767 section 5).
const RECHECK_SECONDS: u32 = 30;
/// An answer is fetched anew when this part of its time is left …
const PREFETCH_PART: u32 = 10;
/// … if it was given out that often.
const PREFETCH_USES: u32 = 2;

/// A second of a clock that never goes back; only differences mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Second(pub u32);

/// What the cache may keep, and for how long.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// Bytes in all; 0 for no cache.
    pub bytes_max: usize,
    /// Seconds for which an answer with records is kept at most.
    pub success_seconds_max: u32,
    /// Seconds for which an answer without records is kept at most.
    pub denial_seconds_max: u32,
    /// Seconds for which an answer may be given out after its time, while upstream fails; 0 for never.
    pub stale_seconds_max: u32,
    /// Whether names that are asked for often are fetched anew before their time is over.
    pub prefetch: bool,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            bytes_max: 32 << 20,
            success_seconds_max: 3_600,
            denial_seconds_max: 1_800,
            stale_seconds_max: 3_600,
            prefetch: true,
        }
    }
}

/// Which kind of answer an entry is, as metrics tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// With records.
    Success,
    /// Without: the name or the record does not exist, or upstream failed.
    Denial,
}

/// What the cache has for a question.
#[derive(Debug)]
pub enum Cached {
    /// Nothing.
    Nothing,
    /// An answer to be given out, perhaps to be fetched anew as well.
    Fresh {
        /// The answer.
        answer: Served,
        /// Whether the caller is the one who should fetch it anew.
        fetch: bool,
    },
    /// An answer whose time is over: to be given out only if upstream has none.
    Stale(Served),
    /// The same, after upstream has just failed: to be given out at once.
    StaleAtOnce(Served),
}

/// An answer from the cache.
#[derive(Clone, Debug)]
pub struct Served {
    entry: Arc<Entry>,
    age_seconds: u32,
    is_stale: bool,
}

impl Served {
    /// The message.
    pub fn relayed(&self) -> &Relayed {
        &self.entry.answer
    }

    /// The TTL to be given out for one that was `seconds` when the answer came.
    pub fn ttl(&self, seconds: u32) -> u32 {
        if self.is_stale {
            return STALE_TTL_SECONDS;
        }
        // No record outlives the answer that it stands in.
        seconds.min(self.entry.seconds).saturating_sub(self.age_seconds)
    }

    /// Its kind.
    pub fn kind(&self) -> EntryKind {
        self.entry.kind
    }

    /// Seconds since it came.
    pub fn age_seconds(&self) -> u32 {
        self.age_seconds
    }
}

#[derive(Debug)]
struct Entry {
    answer: Arc<Relayed>,
    kind: EntryKind,
    /// Seconds for which it is kept.
    seconds: u32,
    stored: Second,
    used: AtomicU32,
    uses: AtomicU32,
    is_being_fetched: AtomicBool,
    /// Until when upstream is left in peace; the second itself, valid once `has_failed`.
    recheck: AtomicU32,
    has_failed: AtomicBool,
}

#[derive(Debug, Default)]
struct Shard {
    entries: IndexMap<Box<[u8]>, Arc<Entry>, RandomState>,
    bytes: usize,
}

/// The cache.
#[derive(Debug)]
pub struct Cache {
    settings: CacheSettings,
    shards: Box<[RwLock<Shard>]>,
    hasher: RandomState,
    /// Entries by kind.
    entries: [AtomicUsize; 2],
    evictions: AtomicUsize,
}

impl Cache {
    /// An empty cache.
    pub fn new(settings: CacheSettings) -> Self {
        Self {
            settings,
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::new(),
            entries: [const { AtomicUsize::new(0) }; 2],
            evictions: AtomicUsize::new(0),
        }
    }

    /// What is known of a question by its key. Takes no memory.
    pub fn get(&self, key: &[u8], now: Second) -> Cached {
        let Some(shard) = self.shard(key) else {
            return Cached::Nothing;
        };
        let entry = {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            match shard.entries.get(key) {
                Some(entry) => entry.clone(),
                None => return Cached::Nothing,
            }
        };
        let age_seconds = now.0.saturating_sub(entry.stored.0);
        entry.used.store(now.0, Ordering::Relaxed);
        let is_stale = age_seconds >= entry.seconds;
        let served = |entry| Served {
            entry,
            age_seconds,
            is_stale,
        };
        if !is_stale {
            let fetch = self.settings.prefetch && entry.wants_fetch(age_seconds);
            return Cached::Fresh {
                answer: served(entry),
                fetch,
            };
        }
        let over = age_seconds - entry.seconds;
        if over >= self.settings.stale_seconds_max || matches!(entry.answer.keep, Keep::Failure { .. }) {
            return Cached::Nothing;
        }
        let waits = entry.has_failed.load(Ordering::Relaxed) && now.0 < entry.recheck.load(Ordering::Relaxed);
        if waits {
            Cached::StaleAtOnce(served(entry))
        } else {
            Cached::Stale(served(entry))
        }
    }

    /// Keeps an answer as long as it may be kept. A failure does not take the place of an answer that may be
    /// given out while upstream fails; it is noted there.
    pub fn put(&self, key: &[u8], answer: Arc<Relayed>, now: Second) {
        let (kind, seconds) = match answer.keep {
            Keep::Success { seconds } => (EntryKind::Success, seconds.min(self.settings.success_seconds_max)),
            Keep::Denial { seconds } => (EntryKind::Denial, seconds.min(self.settings.denial_seconds_max)),
            Keep::Failure { seconds } => {
                self.note_failure(key, now);
                if !matches!(self.get(key, now), Cached::Nothing) {
                    return;
                }
                (EntryKind::Denial, seconds)
            }
            Keep::No => return,
        };
        let cost = cost(key, &answer);
        if seconds == 0 || cost > self.settings.bytes_max / SHARDS {
            return;
        }
        let entry = Arc::new(Entry {
            answer,
            kind,
            seconds,
            stored: now,
            used: AtomicU32::new(now.0),
            uses: AtomicU32::new(0),
            is_being_fetched: AtomicBool::new(false),
            recheck: AtomicU32::new(0),
            has_failed: AtomicBool::new(false),
        });
        self.insert(key, entry, cost);
    }

    /// Notes that upstream had no answer: what is there may be given out for a while without asking again.
    pub fn note_failure(&self, key: &[u8], now: Second) {
        let Some(shard) = self.shard(key) else { return };
        let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = shard.entries.get(key) {
            entry
                .recheck
                .store(now.0.saturating_add(RECHECK_SECONDS), Ordering::Relaxed);
            entry.has_failed.store(true, Ordering::Relaxed);
            entry.is_being_fetched.store(false, Ordering::Relaxed);
        }
    }

    /// Entries of a kind.
    pub fn entries(&self, kind: EntryKind) -> usize {
        let [success, denial] = &self.entries;
        match kind {
            EntryKind::Success => success,
            EntryKind::Denial => denial,
        }
        .load(Ordering::Relaxed)
    }

    /// Entries that made room for others before their time was over.
    pub fn evictions(&self) -> usize {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Bytes that all entries cost.
    pub fn bytes(&self) -> usize {
        let bytes = |shard: &RwLock<Shard>| shard.read().unwrap_or_else(PoisonError::into_inner).bytes;
        self.shards.iter().map(bytes).sum()
    }

    fn insert(&self, key: &[u8], entry: Arc<Entry>, cost: usize) {
        let Some(shard) = self.shard(key) else { return };
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        self.count(entry.kind, 1);
        shard.bytes += cost;
        if let Some(old) = shard.entries.insert(key.into(), entry) {
            shard.bytes -= self::cost(key, &old.answer);
            self.count(old.kind, -1);
        }
        while shard.bytes > self.settings.bytes_max / SHARDS && self.evict(&mut shard) {}
    }

    /// Takes one entry out; `false` if there is none.
    fn evict(&self, shard: &mut Shard) -> bool {
        let length = shard.entries.len();
        let candidates = (0..CANDIDATES.min(length)).map(|_| fastrand::usize(..length));
        let oldest = candidates.min_by_key(|at| {
            let entry = shard.entries.get_index(*at);
            entry.map_or(0, |(_, entry)| entry.used.load(Ordering::Relaxed))
        });
        let Some((key, entry)) = oldest.and_then(|at| shard.entries.swap_remove_index(at)) else {
            return false;
        };
        shard.bytes -= cost(&key, &entry.answer);
        self.count(entry.kind, -1);
        self.evictions.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn count(&self, kind: EntryKind, by: isize) {
        let [success, denial] = &self.entries;
        let counter = match kind {
            EntryKind::Success => success,
            EntryKind::Denial => denial,
        };
        counter.fetch_add(by.cast_unsigned(), Ordering::Relaxed);
    }

    fn shard(&self, key: &[u8]) -> Option<&RwLock<Shard>> {
        let at = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or(0);
        self.shards.get(at)
    }
}

impl Entry {
    /// Counts a use; whether the user should fetch the answer anew. Only one is told so.
    fn wants_fetch(&self, age_seconds: u32) -> bool {
        let uses = self.uses.fetch_add(1, Ordering::Relaxed);
        let left = self.seconds - age_seconds;
        uses >= PREFETCH_USES
            && left <= self.seconds.div_ceil(PREFETCH_PART)
            && !self.is_being_fetched.load(Ordering::Relaxed)
            && !self.is_being_fetched.swap(true, Ordering::Relaxed)
    }
}

fn cost(key: &[u8], answer: &Relayed) -> usize {
    key.len() + answer.octets() + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests;
