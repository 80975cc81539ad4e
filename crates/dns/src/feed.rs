//! Keeps the index up with the API.

use api::object::{EndpointSlice, Namespace, ObjectKey, Resource, Service};
use client::{Client, Event, Query, watch};

use crate::records::Index;
use crate::wire::NameError;

/// Events that wait for the index, of each kind: enough to even out a burst.
const EVENTS_WAITING_MAX: usize = 256;

/// Applies every change to `index`, for ever. The index is synced once all three collections were told
/// completely.
pub(crate) async fn feed(index: &Index, client: &Client) {
    let mut services = watch::<Service>(client, Query::default()).into_channel(EVENTS_WAITING_MAX);
    let mut slices = watch::<EndpointSlice>(client, Query::default()).into_channel(EVENTS_WAITING_MAX);
    let mut namespaces = watch::<Namespace>(client, Query::default()).into_channel(EVENTS_WAITING_MAX);
    let mut synced = [false; 3];
    loop {
        tokio::select! {
            Some(event) = services.recv() => {
                synced[0] |= apply(event, |service| index.apply_service(&service), |key| index.remove_service(key));
            }
            Some(event) = slices.recv() => {
                synced[1] |= apply(event, |slice| index.apply_slice(&slice), |key| index.remove_slice(key));
            }
            Some(event) = namespaces.recv() => {
                synced[2] |= apply(
                    event,
                    |namespace| index.apply_namespace(&namespace.metadata.name),
                    |key| index.remove_namespace(&key.name),
                );
            }
        }
        if synced == [true; 3] && !index.is_synced() {
            tracing::info!("the DNS index is complete");
            index.set_synced();
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
