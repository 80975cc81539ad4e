//! Cache of the responses of resolvers, including negative ones (RFC 2308), with serve-stale (RFC 8767).
//!
//! The cache has no clock: each call passes the current second. It consists of shards with a lock each; readers of one
//! shard do not exclude each other. Its size is bounded in bytes. A full cache evicts the least recently used one of a
//! few random entries.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use indexmap::IndexMap;

use crate::wire::{CachePolicy, ResolverResponse};

/// Number of shards, each with a lock.
const SHARDS: usize = 64;
/// Memory of an entry in bytes in addition to its key and its message: map slots, counters, allocations.
const ENTRY_OVERHEAD_BYTES: usize = 192;
/// Number of random entries, of which the least recently used one is evicted.
const EVICTION_CANDIDATES: usize = 8;
/// TTL of stale answers in seconds (RFC 8767 section 4).
const STALE_TTL_SECONDS: u32 = 30;
/// Seconds without forwarded queries for a name after a failure (RFC 8767 section 5: failure recheck timer).
const FAILURE_RECHECK_SECONDS: u32 = 30;
/// An entry is prefetched in the last tenth of its lifetime …
const PREFETCH_PART: u32 = 10;
/// Minimum number of uses of an entry that is refreshed.
const PREFETCH_USES: u32 = 2;

/// A second of a monotonic clock with an arbitrary origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CacheSecond(pub u32);

/// Settings of the cache.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// Size in bytes; 0 disables the cache.
    pub bytes_max: usize,
    /// Lifetime limit of positive entries in seconds.
    pub success_seconds_max: u32,
    /// Lifetime limit of negative entries in seconds.
    pub denial_seconds_max: u32,
    /// Seconds for which expired entries are served while resolvers fail; 0 disables serve-stale.
    pub stale_seconds_max: u32,
    /// Refreshes frequently used entries before they expire.
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

/// Kind of an entry, as metrics count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Response with records.
    Success,
    /// Response without records: the name or record does not exist, or the resolvers failed.
    Denial,
}

/// Result of a cache lookup.
#[derive(Debug)]
pub enum CacheLookup {
    /// No usable entry.
    Miss,
    /// A valid entry.
    Fresh {
        /// Response from the cache.
        answer: ServedEntry,
        /// True if the caller is to refresh the entry; only one caller gets true.
        prefetch: bool,
    },
    /// An expired entry, to be served only if the resolvers fail.
    Stale(ServedEntry),
    /// An expired entry, to be served at once because the resolvers have just failed.
    StaleAfterFailure(ServedEntry),
}

/// An entry that is served at a certain age.
#[derive(Clone, Debug)]
pub struct ServedEntry {
    entry: Arc<Entry>,
    age_seconds: u32,
    is_stale: bool,
}

impl ServedEntry {
    /// Returns the message.
    pub fn relayed(&self) -> &ResolverResponse {
        &self.entry.answer
    }

    /// Returns the TTL to send for a record that arrived with `seconds`.
    pub fn ttl(&self, seconds: u32) -> u32 {
        if self.is_stale {
            return STALE_TTL_SECONDS;
        }
        // No record is sent after the expiry of the response that contains it.
        seconds.min(self.entry.seconds).saturating_sub(self.age_seconds)
    }

    /// Returns the kind of the entry.
    pub fn kind(&self) -> EntryKind {
        self.entry.kind
    }

    /// Returns the seconds since the response arrived.
    pub fn age_seconds(&self) -> u32 {
        self.age_seconds
    }
}

/// A cached response, and its use.
#[derive(Debug)]
struct Entry {
    answer: Arc<ResolverResponse>,
    kind: EntryKind,
    /// Lifetime in seconds.
    seconds: u32,
    stored_at: CacheSecond,
    last_used: AtomicU32,
    uses: AtomicU32,
    is_prefetching: AtomicBool,
    /// CacheSecond of the next forwarded query after a failure; valid if `has_failed`.
    recheck: AtomicU32,
    has_failed: AtomicBool,
}

/// Part of the cache.
#[derive(Debug, Default)]
struct Shard {
    entries: IndexMap<Box<[u8]>, Arc<Entry>, RandomState>,
    bytes: usize,
}

/// A cache of the responses of resolvers.
#[derive(Debug)]
pub struct Cache {
    settings: CacheSettings,
    shards: Box<[RwLock<Shard>]>,
    hasher: RandomState,
    /// Number of entries by kind.
    entries: [AtomicUsize; 2],
    evictions: AtomicUsize,
}

impl Cache {
    /// Creates an empty cache.
    pub fn new(settings: CacheSettings) -> Self {
        Self {
            settings,
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::new(),
            entries: [const { AtomicUsize::new(0) }; 2],
            evictions: AtomicUsize::new(0),
        }
    }

    /// Looks up an entry by the key of its question. Does not allocate.
    pub fn get(&self, key: &[u8], now: CacheSecond) -> CacheLookup {
        let Some(shard) = self.shard(key) else {
            return CacheLookup::Miss;
        };
        let entry = {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            match shard.entries.get(key) {
                Some(entry) => entry.clone(),
                None => return CacheLookup::Miss,
            }
        };
        let age_seconds = now.0.saturating_sub(entry.stored_at.0);
        entry.last_used.store(now.0, Ordering::Relaxed);
        let is_stale = age_seconds >= entry.seconds;
        let served = |entry| ServedEntry {
            entry,
            age_seconds,
            is_stale,
        };
        if !is_stale {
            let prefetch = self.settings.prefetch && entry.should_prefetch(age_seconds);
            return CacheLookup::Fresh {
                answer: served(entry),
                prefetch,
            };
        }
        let over = age_seconds - entry.seconds;
        if over >= self.settings.stale_seconds_max
            || matches!(entry.answer.cache_policy, CachePolicy::Failure { .. })
        {
            return CacheLookup::Miss;
        }
        let is_rechecking_later =
            entry.has_failed.load(Ordering::Relaxed) && now.0 < entry.recheck.load(Ordering::Relaxed);
        if is_rechecking_later {
            CacheLookup::StaleAfterFailure(served(entry))
        } else {
            CacheLookup::Stale(served(entry))
        }
    }

    /// Stores a response. A failure does not replace an entry that may be served while resolvers fail; the entry then
    /// records the failure.
    pub fn put(&self, key: &[u8], answer: Arc<ResolverResponse>, now: CacheSecond) {
        let (kind, seconds) = match answer.cache_policy {
            CachePolicy::Success { seconds } => {
                (EntryKind::Success, seconds.min(self.settings.success_seconds_max))
            }
            CachePolicy::Denial { seconds } => {
                (EntryKind::Denial, seconds.min(self.settings.denial_seconds_max))
            }
            CachePolicy::Failure { seconds } => {
                self.record_failure(key, now);
                if !matches!(self.get(key, now), CacheLookup::Miss) {
                    return;
                }
                (EntryKind::Denial, seconds)
            }
            CachePolicy::Uncacheable => return,
        };
        let cost = cost(key, &answer);
        if seconds == 0 || cost > self.settings.bytes_max / SHARDS {
            return;
        }
        let entry = Arc::new(Entry {
            answer,
            kind,
            seconds,
            stored_at: now,
            last_used: AtomicU32::new(now.0),
            uses: AtomicU32::new(0),
            is_prefetching: AtomicBool::new(false),
            recheck: AtomicU32::new(0),
            has_failed: AtomicBool::new(false),
        });
        self.insert(key, entry, cost);
    }

    /// Records a failure of the resolvers: the entry is served for a while without another forwarded query.
    pub fn record_failure(&self, key: &[u8], now: CacheSecond) {
        let Some(shard) = self.shard(key) else { return };
        let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = shard.entries.get(key) {
            entry
                .recheck
                .store(now.0.saturating_add(FAILURE_RECHECK_SECONDS), Ordering::Relaxed);
            entry.has_failed.store(true, Ordering::Relaxed);
            entry.is_prefetching.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the number of entries of a kind.
    pub fn entries(&self, kind: EntryKind) -> usize {
        let [success, denial] = &self.entries;
        match kind {
            EntryKind::Success => success,
            EntryKind::Denial => denial,
        }
        .load(Ordering::Relaxed)
    }

    /// Returns the number of entries evicted before they expired.
    pub fn evictions(&self) -> usize {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Returns the memory of all entries in bytes.
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

    /// Evicts one entry; returns `false` if the shard is empty.
    fn evict(&self, shard: &mut Shard) -> bool {
        let length = shard.entries.len();
        let candidates = (0..EVICTION_CANDIDATES.min(length)).map(|_| fastrand::usize(..length));
        let oldest = candidates.min_by_key(|at| {
            let entry = shard.entries.get_index(*at);
            entry.map_or(0, |(_, entry)| entry.last_used.load(Ordering::Relaxed))
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
    /// Counts a use. Returns true if the caller is to prefetch; only one caller gets true.
    fn should_prefetch(&self, age_seconds: u32) -> bool {
        let uses = self.uses.fetch_add(1, Ordering::Relaxed);
        let left = self.seconds - age_seconds;
        uses >= PREFETCH_USES
            && left <= self.seconds.div_ceil(PREFETCH_PART)
            && !self.is_prefetching.load(Ordering::Relaxed)
            && !self.is_prefetching.swap(true, Ordering::Relaxed)
    }
}

fn cost(key: &[u8], answer: &ResolverResponse) -> usize {
    key.len() + answer.size_bytes() + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests;
