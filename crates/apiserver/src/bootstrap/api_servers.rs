//! Records of the API servers that share a store. Each server renews its record every few seconds. The
//! records determine the endpoints of the Service `kubernetes` (KSVC-03).

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use store::{CommitError, Entry, Expectation, Revision, Store, StoreError, Transaction, Value, Write};

/// Key prefix of the records. No kind of object has it.
const PREFIX: &str = "/apiserverleases/";
/// Lifetime of a record (upstream's value): one renewal may be missed.
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// Record of one server.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ServerRecord {
    addresses: Vec<IpAddr>,
}

/// Observed records. A record expires by the local clock, from its last observed change, so the clocks of hosts can
/// differ.
#[derive(Debug, Default)]
pub(crate) struct ApiServers {
    /// Revision of each record and the time of its first observation, by key. The number of records bounds the size.
    observed: HashMap<String, (Revision, Instant)>,
}

impl ApiServers {
    /// Returns the addresses of all live servers, ascending. Deletes expired records.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn live_addresses(
        &mut self,
        store: &dyn Store,
        now: Instant,
    ) -> Result<Vec<IpAddr>, StoreError> {
        let entries = store.index().list(PREFIX, None, None, None)?.entries;
        let mut earlier = std::mem::take(&mut self.observed);
        let mut addresses = BTreeSet::new();
        for entry in entries {
            let since = match earlier.remove(&*entry.key) {
                Some((revision, since)) if revision == entry.modified => since,
                _ => now,
            };
            if now.duration_since(since) > LEASE_DURATION {
                delete_expired(store, &entry).await;
                continue;
            }
            self.observed
                .insert(entry.key.to_string(), (entry.modified, since));
            match serde_json::from_slice::<ServerRecord>(&entry.value) {
                Ok(record) => addresses.extend(record.addresses),
                Err(error) => {
                    tracing::warn!(key = %entry.key, %error, "record of an API server not valid JSON")
                }
            }
        }
        Ok(addresses.into_iter().collect())
    }
}

/// Renews the record of the server with these addresses.
///
/// # Errors
/// The store cannot be written.
pub(crate) async fn renew(store: &dyn Store, addresses: &[IpAddr]) -> Result<(), CommitError> {
    let Some(key) = key_of(addresses) else {
        return Ok(());
    };
    let record = ServerRecord {
        addresses: addresses.to_vec(),
    };
    let value = Value {
        // A list of addresses always serializes.
        bytes: serde_json::to_vec(&record).unwrap_or_default().into(),
        revision_at: None,
    };
    commit(store, Vec::new(), Write::Put(key.into(), value)).await
}

/// Deletes the record of the server with these addresses.
///
/// # Errors
/// The store cannot be written.
pub(crate) async fn leave(store: &dyn Store, addresses: &[IpAddr]) -> Result<(), CommitError> {
    let Some(key) = key_of(addresses) else {
        return Ok(());
    };
    let key = key.into();
    commit(store, Vec::new(), Write::Delete { key, last: None }).await
}

/// Deletes an expired record, unless it has changed. A failed deletion is repeated after another lifetime.
async fn delete_expired(store: &dyn Store, entry: &Entry) {
    let expectation = (entry.key.clone(), Expectation::At(entry.modified));
    let key = entry.key.clone();
    match commit(store, vec![expectation], Write::Delete { key, last: None }).await {
        Ok(()) => tracing::info!(key = %entry.key, "record of an API server expired"),
        Err(error) => {
            tracing::debug!(key = %entry.key, %error, "expired record of an API server not deleted")
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
