//! Expiry of Events after an hour, as upstream's `--event-ttl` has it by default.

use std::sync::Arc;
use std::time::Duration;

use api::kind::{self, Kind};
use api::tree::{child, text};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::failure::Failure;
use crate::request::query::ListOptions;
use crate::request::route::Target;
use crate::verbs::resource::Resources;

/// Time to live of an Event after its last occurrence.
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);
/// Interval of the passes.
const PERIOD: Duration = Duration::from_secs(60);
/// Page size of a pass, which bounds its memory.
const PAGE_EVENTS: usize = 500;

/// Removes expired Events periodically, until shutdown.
pub(crate) async fn run(resources: Arc<Resources>) {
    let mut shutdown = resources.shutdown.clone();
    let Some(kind) = kind::find("", "v1", "events") else {
        return;
    };
    loop {
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        if let Err(failure) = remove_expired(&resources, kind, Timestamp::now()).await {
            tracing::warn!(error = failure.message(), "expired Events not removed");
        }
    }
}

async fn remove_expired(resources: &Resources, kind: &'static Kind, now: Timestamp) -> Result<(), Failure> {
    let all = Target::collection(kind, None);
    let mut options = ListOptions {
        limit: Some(PAGE_EVENTS),
        ..ListOptions::default()
    };
    loop {
        let page = resources.list(&all, &options).await?;
        for entry in page.entries.iter().filter(|entry| is_expired(&entry.value, now)) {
            // An Event that occurred again in the meantime stays. Finalizers do not keep one: anybody may set them.
            let target = Target::at_key(kind, &entry.key);
            resources.expire(&target, entry.modified).await?;
        }
        match page.continue_token {
            Some(token) => options.continue_token = token,
            None => return Ok(()),
        }
    }
}

/// Returns true if the last occurrence of an Event is longer ago than [`EVENT_TTL`]. An Event without times counts from
/// its creation. Clients choose the other times: those that are further ahead than clocks can be do not count.
fn is_expired(bytes: &[u8], now: Timestamp) -> bool {
    let Ok(event) = serde_json::from_slice::<Value>(bytes) else {
        return true;
    };
    let times = [
        text(child(&event, "series"), "lastObservedTime"),
        text(&event, "lastTimestamp"),
        text(&event, "eventTime"),
        text(child(&event, "metadata"), "creationTimestamp"),
    ];
    let newest = times
        .iter()
        .filter_map(|time| time.parse::<Timestamp>().ok())
        .filter(|time| time.duration_since(now) <= EVENT_TTL)
        .max();
    newest.is_none_or(|time| now.duration_since(time) > EVENT_TTL)
}

#[cfg(test)]
mod tests;
