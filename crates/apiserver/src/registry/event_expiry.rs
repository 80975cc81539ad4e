//! Events are news, not state: they go after an hour, as upstream has it (`--event-ttl`).

use std::sync::Arc;
use std::time::Duration;

use api::kind::{self, Kind};
use api::tree::{child, text};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use store::Entry;

use crate::failure::Failure;
use crate::request::query::{DeleteOptions, ListOptions};
use crate::request::route::Target;
use crate::verbs::resource::Resources;

/// How long an Event is kept after it happened last.
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);
/// How often old ones are looked for.
const PERIOD: Duration = Duration::from_secs(60);
/// Events looked at in one go, so that a pass holds few in memory.
const PAGE_EVENTS: usize = 500;

/// Removes old Events, until the server ends.
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
        if let Err(failure) = remove_old(&resources, kind, Timestamp::now()).await {
            tracing::warn!(error = failure.message(), "old Events could not be removed");
        }
    }
}

async fn remove_old(resources: &Resources, kind: &'static Kind, now: Timestamp) -> Result<(), Failure> {
    let all = Target::collection(kind, None);
    let mut options = ListOptions {
        limit: Some(PAGE_EVENTS),
        ..ListOptions::default()
    };
    loop {
        let page = resources.list(&all, &options).await?;
        for entry in page.entries.iter().filter(|entry| is_old(&entry.value, now)) {
            remove(resources, kind, entry).await?;
        }
        match page.continue_token {
            Some(token) => options.continue_token = token,
            None => return Ok(()),
        }
    }
}

async fn remove(resources: &Resources, kind: &'static Kind, entry: &Entry) -> Result<(), Failure> {
    let target = Target::at_key(kind, &entry.key);
    // One that has changed meanwhile is news again.
    let unchanged = DeleteOptions {
        resource_version: Some(entry.modified.to_string()),
        ..DeleteOptions::default()
    };
    match resources.delete_object(&target, &unchanged).await {
        Err(failure) if failure.reason() != "Conflict" && failure.reason() != "NotFound" => Err(failure),
        _ => Ok(()),
    }
}

/// Whether an Event happened last long ago; one that does not say when is as old as the object.
fn is_old(bytes: &[u8], now: Timestamp) -> bool {
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
        .max();
    newest.is_none_or(|time| now.duration_since(time) > EVENT_TTL)
}

#[cfg(test)]
mod tests;
