//! Consistent hashing of Maglev ("Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, section 3.4).
//! Pure: no I/O and no clock.
//!
//! Every backend gets almost the same number of entries, and every node computes the same table. An added or removed
//! backend changes few entries of the others.
//!
//! ```
//! let backends = vec!["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"];
//! let table = maglev::lookup_table(backends, |backend| backend.as_bytes().to_vec());
//! let entry = maglev::hash(b"192.0.2.7") % table.len() as u64;
//! assert!(table[entry as usize].starts_with("10.0.0."));
//! ```

/// Entries of a table: a prime, as the algorithm requires. With ten times as many entries as backends, the
/// shares differ by a few percent.
pub const TABLE_SIZE: u32 = 1_021;

/// Returns the backend of each entry; empty if there is no backend. Duplicates count once, and backends beyond
/// [`TABLE_SIZE`] get no entry. `name` identifies a backend and has to be the same on all nodes.
pub fn lookup_table<T: Copy + Ord>(mut backends: Vec<T>, name: impl Fn(&T) -> Vec<u8>) -> Vec<T> {
    backends.sort_unstable();
    backends.dedup();
    let mut permutations: Vec<(T, Permutation)> = backends
        .into_iter()
        .map(|backend| (backend, Permutation::of(&name(&backend))))
        .collect();
    let mut entries: Vec<Option<T>> = vec![None; TABLE_SIZE as usize];
    let mut free = if permutations.is_empty() { 0 } else { entries.len() };
    while free > 0 {
        for (backend, permutation) in &mut permutations {
            if free == 0 {
                break;
            }
            claim_next_free(&mut entries, *backend, permutation);
            free -= 1;
        }
    }
    entries.into_iter().flatten().collect()
}

/// Gives `backend` the first free entry of its permutation. There has to be a free one: the permutation
/// visits them all.
fn claim_next_free<T>(entries: &mut [Option<T>], backend: T, permutation: &mut Permutation) {
    loop {
        let preferred = permutation.next() as usize;
        if let Some(entry) = entries.get_mut(preferred).filter(|entry| entry.is_none()) {
            *entry = Some(backend);
            return;
        }
    }
}

/// The order in which a backend prefers entries. It visits all of them, since [`TABLE_SIZE`] is a prime.
struct Permutation {
    next: u32,
    step: u32,
}

impl Permutation {
    fn of(name: &[u8]) -> Self {
        let hash = hash(name);
        Self {
            next: (hash >> 32) as u32 % TABLE_SIZE,
            step: hash as u32 % (TABLE_SIZE - 1) + 1,
        }
    }

    fn next(&mut self) -> u32 {
        let entry = self.next;
        self.next = (entry + self.step) % TABLE_SIZE;
        entry
    }
}

/// Computes FNV-1a of 64 bits, mixed once more: names differ in few bits.
pub fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests;
