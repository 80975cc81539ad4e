//! Which API servers there are: each of those that share a store says every few seconds that it is there, and what
//! they say makes the endpoints of the `kubernetes` Service (KSVC-03).

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use store::{CommitError, Store, StoreError, Transaction, Value, Write};

/// Where the records are; no kind of object has this prefix.
const PREFIX: &str = "/apiserverleases/";
/// How long a server counts as there that says nothing more: one renewal may be missed, upstream's time.
const LEASE_SECONDS: i64 = 15;

/// What one server says of itself.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Presence {
    addresses: Vec<IpAddr>,
    /// Seconds since 1970.
    renewed_at_seconds: i64,
}

/// Says that the server with these addresses is there.
pub(crate) async fn renew(
    store: &dyn Store,
    addresses: &[IpAddr],
    now: Timestamp,
) -> Result<(), CommitError> {
    let Some(key) = key_of(addresses) else {
        return Ok(());
    };
    let presence = Presence {
        addresses: addresses.to_vec(),
        renewed_at_seconds: now.as_second(),
    };
    let value = Value {
        // A list of addresses and a time are always JSON.
        bytes: serde_json::to_vec(&presence).unwrap_or_default().into(),
        revision_at: None,
    };
    commit(store, Write::Put(key.into(), value)).await
}

/// Says that it is not any more.
pub(crate) async fn leave(store: &dyn Store, addresses: &[IpAddr]) -> Result<(), CommitError> {
    let Some(key) = key_of(addresses) else {
        return Ok(());
    };
    let key = key.into();
    commit(store, Write::Delete { key, last: None }).await
}

/// The addresses of all servers that are there, ascending.
pub(crate) fn present(store: &dyn Store, now: Timestamp) -> Result<Vec<IpAddr>, StoreError> {
    let listing = store.index().list(PREFIX, None, None, None)?;
    let mut addresses = BTreeSet::new();
    for entry in listing.entries {
        match serde_json::from_slice::<Presence>(&entry.value) {
            Ok(presence) if now.as_second() - presence.renewed_at_seconds <= LEASE_SECONDS => {
                addresses.extend(presence.addresses);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(key = %entry.key, %error, "what an API server says of itself cannot be read")
            }
        }
    }
    Ok(addresses.into_iter().collect())
}

fn key_of(addresses: &[IpAddr]) -> Option<String> {
    addresses.first().map(|address| format!("{PREFIX}{address}"))
}

async fn commit(store: &dyn Store, write: Write) -> Result<(), CommitError> {
    let transaction = Transaction {
        expectations: Vec::new(),
        writes: vec![write],
    };
    store.commit(transaction).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use store::{SqliteOptions, SqliteStore};

    use super::*;

    #[tokio::test]
    async fn a_server_is_there_until_it_leaves_or_falls_silent() {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path().join("store"), SqliteOptions::default()).unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let (one, two) = ([ip("192.0.2.1"), ip("fd00::1")], [ip("192.0.2.2")]);
        let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let after = |seconds| begin + jiff::SignedDuration::from_secs(seconds);
        let later = after(10);
        renew(&store, &one, begin).await.unwrap();
        renew(&store, &two, later).await.unwrap();
        let all = [ip("192.0.2.1"), ip("192.0.2.2"), ip("fd00::1")];
        assert_eq!(present(&store, later).unwrap(), all);
        assert_eq!(present(&store, after(10 + LEASE_SECONDS)).unwrap(), two);
        leave(&store, &two).await.unwrap();
        assert_eq!(present(&store, later).unwrap(), one);
        renew(&store, &[], later).await.unwrap();
    }
}
