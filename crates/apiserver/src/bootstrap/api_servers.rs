//! Which API servers there are: each of those that share a store says every few seconds that it is there, and what
//! they say makes the endpoints of the `kubernetes` Service (KSVC-03).

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use store::{CommitError, Entry, Expectation, Revision, Store, StoreError, Transaction, Value, Write};

/// Where the records are; no kind of object has this prefix.
const PREFIX: &str = "/apiserverleases/";
/// How long a server counts as there that says nothing more: one renewal may be missed, upstream's time.
const LEASE: Duration = Duration::from_secs(15);

/// What one server says of itself.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Presence {
    addresses: Vec<IpAddr>,
}

/// What is known of the servers. Whether one is there is judged by this machine's clock alone, from when its record
/// was last seen to be another one: clocks of several machines need not agree.
#[derive(Debug, Default)]
pub(crate) struct ApiServers {
    /// By key, what was seen last and when that was seen first. Bounded by the records that there are.
    seen: HashMap<String, (Revision, Instant)>,
}

impl ApiServers {
    /// The addresses of all servers that are there, ascending. The records of those that fell silent are removed.
    pub(crate) async fn present(
        &mut self,
        store: &dyn Store,
        now: Instant,
    ) -> Result<Vec<IpAddr>, StoreError> {
        let entries = store.index().list(PREFIX, None, None, None)?.entries;
        let mut before = std::mem::take(&mut self.seen);
        let mut addresses = BTreeSet::new();
        for entry in entries {
            let since = match before.remove(&*entry.key) {
                Some((revision, since)) if revision == entry.modified => since,
                _ => now,
            };
            if now.duration_since(since) > LEASE {
                forget(store, &entry).await;
                continue;
            }
            self.seen.insert(entry.key.to_string(), (entry.modified, since));
            match serde_json::from_slice::<Presence>(&entry.value) {
                Ok(presence) => addresses.extend(presence.addresses),
                Err(error) => {
                    tracing::warn!(key = %entry.key, %error, "what an API server says of itself cannot be read")
                }
            }
        }
        Ok(addresses.into_iter().collect())
    }
}

/// Says that the server with these addresses is there.
pub(crate) async fn renew(store: &dyn Store, addresses: &[IpAddr]) -> Result<(), CommitError> {
    let Some(key) = key_of(addresses) else {
        return Ok(());
    };
    let presence = Presence {
        addresses: addresses.to_vec(),
    };
    let value = Value {
        // A list of addresses is always JSON.
        bytes: serde_json::to_vec(&presence).unwrap_or_default().into(),
        revision_at: None,
    };
    commit(store, Vec::new(), Write::Put(key.into(), value)).await
}

/// Says that it is not any more.
pub(crate) async fn leave(store: &dyn Store, addresses: &[IpAddr]) -> Result<(), CommitError> {
    let Some(key) = key_of(addresses) else {
        return Ok(());
    };
    let key = key.into();
    commit(store, Vec::new(), Write::Delete { key, last: None }).await
}

/// Removes the record of a server that fell silent, unless it has spoken meanwhile. If that fails, the next look
/// does it: until then the record is new again.
async fn forget(store: &dyn Store, entry: &Entry) {
    let expectation = (entry.key.clone(), Expectation::At(entry.modified));
    let key = entry.key.clone();
    match commit(store, vec![expectation], Write::Delete { key, last: None }).await {
        Ok(()) => tracing::info!(key = %entry.key, "an API server is not there any more"),
        Err(error) => {
            tracing::debug!(key = %entry.key, %error, "the record of a silent API server was not removed")
        }
    }
}

fn key_of(addresses: &[IpAddr]) -> Option<String> {
    addresses.first().map(|address| format!("{PREFIX}{address}"))
}

async fn commit(
    store: &dyn Store,
    expectations: Vec<(store::Key, Expectation)>,
    write: Write,
) -> Result<(), CommitError> {
    let transaction = Transaction {
        expectations,
        writes: vec![write],
    };
    store.commit(transaction).await.map(|_| ())
}

#[cfg(test)]
mod tests;
