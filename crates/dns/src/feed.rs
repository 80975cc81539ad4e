//! Keeps the index up with the API.

use std::sync::atomic::{AtomicUsize, Ordering};

use api::object::{EndpointSlice, Namespace, ObjectKey, Resource, Service};
use client::{Client, Event, Query, watch};

use crate::records::Index;
use crate::wire::NameError;

/// Collections that must be complete before the index is.
const COLLECTIONS: usize = 3;

/// Applies every change to `index`, for ever. The index is synced once all collections were told
/// completely.
pub(crate) async fn feed(index: &Index, client: &Client) {
    let missing = AtomicUsize::new(COLLECTIONS);
    let complete = || {
        if missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            tracing::info!("the DNS index is complete");
            index.set_synced();
        }
    };
    // Each watch has a loop of its own, because a request that is dropped half-way is lost.
    tokio::join!(
        keep_up(
            client,
            |service: Service| index.apply_service(&service),
            |key| index.remove_service(key),
            complete
        ),
        keep_up(
            client,
            |slice: EndpointSlice| index.apply_slice(&slice),
            |key| index.remove_slice(key),
            complete
        ),
        keep_up(
            client,
            |namespace: Namespace| index.apply_namespace(&namespace.metadata.name),
            |key| index.remove_namespace(&key.name),
            complete,
        ),
    );
}

/// Applies every change of one collection, for ever; calls `complete` when all of it was told once.
async fn keep_up<T: Resource>(
    client: &Client,
    put: impl Fn(T) -> Result<(), NameError>,
    remove: impl Fn(&ObjectKey),
    complete: impl Fn(),
) {
    let mut objects = watch::<T>(client, Query::default());
    let mut is_complete = false;
    loop {
        if apply(objects.next().await, &put, &remove) && !is_complete {
            is_complete = true;
            complete();
        }
    }
}

/// Applies one event; returns whether it says that the collection is complete. An object that cannot be
/// read keeps the records that it had.
fn apply<T: Resource>(
    event: Event<T>,
    put: impl FnOnce(T) -> Result<(), NameError>,
    remove: impl FnOnce(&ObjectKey),
) -> bool {
    match event {
        Event::Applied(object) => {
            let key = object.metadata().key();
            if let Err(error) = put(object) {
                tracing::warn!(kind = T::KIND, %key, %error, "left out of DNS");
            }
            false
        }
        Event::Deleted(key) => {
            remove(&key);
            false
        }
        Event::Malformed { key, error } => {
            tracing::warn!(kind = T::KIND, %key, error, "cannot be read; its DNS records stay as they were");
            false
        }
        Event::Synced => true,
    }
}

#[cfg(test)]
mod tests;
