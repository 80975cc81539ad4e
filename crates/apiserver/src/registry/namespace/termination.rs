//! Termination of Namespaces: deletes their content, then removes their finalizer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::kind::{self, Kind};
use api::object::Namespace;
use http::StatusCode;
use store::{Entry, Event, StoreError};
use tokio::time::{Instant, sleep_until};

use super::content::Content;
use super::{finalized, namespace_kind};
use crate::failure::Failure;
use crate::request::query::{DeleteOptions, ListOptions, Propagation};
use crate::request::route::Target;
use crate::verbs::resource::{Resources, WriteContext, WriteError};

/// First delay before a Namespace with remaining content is processed again; doubled each time, up to `RETRY_MAX`.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(15);

/// The next attempt on a Namespace.
struct NextAttempt {
    at: Instant,
    delay: Duration,
}

/// Terminates Namespaces that are being deleted, until shutdown. A Namespace that cannot be terminated delays
/// others only by one pass over its content.
pub(crate) async fn run(resources: Arc<Resources>) {
    let mut shutdown = resources.shutdown.clone();
    tokio::select! {
        () = shutdown.requested() => {}
        result = watch(&resources) => if let Err(error) = result {
            tracing::error!(%error, "termination of namespaces stopped");
        }
    }
}

async fn watch(resources: &Arc<Resources>) -> Result<(), StoreError> {
    let prefix = "/namespaces/";
    let index = resources.store.index();
    let mut waiting: HashMap<String, NextAttempt> = HashMap::new();
    loop {
        // The list is read again whenever the watch has lagged.
        let listing = index.list(prefix, None, None, None)?;
        for entry in &listing.entries {
            record_terminating(&mut waiting, &entry.value);
        }
        let mut watch = index.watch(prefix, listing.revision)?;
        loop {
            let next_due = waiting.values().map(|due| due.at).min();
            tokio::select! {
                event = watch.next() => match event {
                    Ok(event) => apply_event(&mut waiting, &event),
                    Err(StoreError::Lagged { .. }) => break,
                    Err(other) => return Err(other),
                },
                () = sleep_until(next_due.unwrap_or_else(Instant::now)), if next_due.is_some() => {
                    terminate_due(resources, &mut waiting).await;
                }
            }
        }
    }
}

fn apply_event(waiting: &mut HashMap<String, NextAttempt>, event: &Event) {
    if event.kind == store::EventKind::Deleted {
        if let Some(name) = event.key.rsplit('/').next() {
            waiting.remove(name);
        }
        return;
    }
    record_terminating(waiting, &event.value);
}

fn record_terminating(waiting: &mut HashMap<String, NextAttempt>, bytes: &[u8]) {
    let Ok(namespace) = serde_json::from_slice::<Namespace>(bytes) else {
        tracing::error!("stored Namespace not readable");
        return;
    };
    if namespace.metadata.deletion_timestamp.is_some() {
        let due = || NextAttempt {
            at: Instant::now(),
            delay: RETRY_FIRST,
        };
        waiting.entry(namespace.metadata.name).or_insert_with(due);
    }
}

async fn terminate_due(resources: &Resources, waiting: &mut HashMap<String, NextAttempt>) {
    let now = Instant::now();
    let due: Vec<String> = waiting
        .iter()
        .filter(|(_, due)| due.at <= now)
        .map(|(name, _)| name.clone())
        .collect();
    for name in due {
        match terminate(resources, &name).await {
            Ok(true) => {
                waiting.remove(&name);
            }
            Ok(false) => postpone(waiting, &name),
            Err(failure) => {
                tracing::warn!(namespace = %name, error = failure.message(), "namespace not terminated yet");
                postpone(waiting, &name);
            }
        }
    }
}

fn postpone(waiting: &mut HashMap<String, NextAttempt>, name: &str) {
    if let Some(due) = waiting.get_mut(name) {
        due.at = Instant::now() + due.delay;
        due.delay = (due.delay * 2).min(RETRY_MAX);
    }
}

/// Deletes the content of a Namespace, then removes its finalizer. If content remains, the conditions of the Namespace
/// report it. Returns true when no step is left.
async fn terminate(resources: &Resources, name: &str) -> Result<bool, Failure> {
    let mut content = Content::default();
    for kind in kind::all()
        .iter()
        .filter(|kind| kind.namespaced && kind.is_stored() && kind.is_stored_form())
    {
        // A kind that cannot be deleted does not delay others.
        match delete_all(resources, kind, name).await {
            Ok(entries) => content.add(kind, &entries),
            Err(failure) => content
                .failures
                .push(format!("{}: {}", kind.plural, failure.message())),
        }
    }
    let target = Target::object(namespace_kind()?, "", name);
    let Some(stored) = resources.stored(&target).await? else {
        return Ok(true);
    };
    let (target, changed) = if content.is_empty() {
        (
            target.with_subresource("finalize"),
            Some(finalized(&stored.object)),
        )
    } else {
        (
            target.with_subresource("status"),
            content.with_conditions(&stored.object, jiff::Timestamp::now()),
        )
    };
    let Some(changed) = changed else { return Ok(false) };
    match resources
        .replace(&target, stored, changed, Vec::new(), WriteContext::SERVER)
        .await
    {
        Ok(_) => Ok(content.is_empty()),
        Err(WriteError::Conflict) => Ok(false),
        Err(WriteError::Failed(failure)) => Err(failure),
    }
}

/// Deletes the objects of a kind in a Namespace; returns those that remain.
async fn delete_all(
    resources: &Resources,
    kind: &'static Kind,
    namespace: &str,
) -> Result<Vec<Entry>, Failure> {
    let collection = Target::collection(kind, Some(namespace));
    let everything = ListOptions::default();
    let options = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    match resources
        .delete_collection(&collection, &options, &everything, None, |_| Ok(()))
        .await
    {
        Ok(page) if page.entries.is_empty() => return Ok(Vec::new()),
        Ok(_) => {}
        Err(failure) if failure.code() == StatusCode::NOT_FOUND => {}
        Err(failure) => return Err(failure),
    }
    Ok(resources.list(&collection, &everything).await?.entries)
}
