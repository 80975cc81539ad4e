//! Tells the API a Pod's status: the latest, again until it was heard, and beside everything else, so that an API
//! server that is away holds up no container.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::object::{ObjectKey, Resource};
use client::{Client, ClientError, STRATEGIC_PATCH};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::mirror::Mirror;
use crate::object::Pod;
use crate::status;

/// The pause after a failure; it doubles up to the maximum.
const BACK_OFF_MIN: Duration = Duration::from_millis(200);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);
/// How often the deletion of an ended Pod is tried before it is left to the next agent.
const DELETE_TRIES_MAX: usize = 20;

/// Tells the API the status of one Pod.
pub struct Reporter {
    latest: watch::Sender<Latest>,
    heard: Arc<Mutex<Heard>>,
    task: JoinHandle<()>,
}

/// What is to be told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Latest {
    pub(crate) status: Option<Value>,
    /// How often somebody else had written over it: each time it is told once more.
    corrections: u64,
}

/// What the API has answered.
#[derive(Debug, Default)]
struct Heard {
    latest: Latest,
    /// The Pod's revision since then.
    revision: u64,
}

impl Reporter {
    /// Starts with nothing to tell.
    pub fn start(client: Client, key: &ObjectKey, uid: &str) -> Self {
        let (latest, told) = watch::channel(Latest::default());
        let heard = Arc::<Mutex<Heard>>::default();
        let path = format!("{}/status", path(key));
        let task = tokio::spawn(report(client, path, uid.to_owned(), told, Arc::clone(&heard)));
        Self { latest, heard, task }
    }

    /// The same for a Pod that the API has only a mirror of, which is kept there.
    pub fn start_mirror(client: Client, key: &ObjectKey, mirror: Mirror) -> Self {
        let (latest, told) = watch::channel(Latest::default());
        let task = tokio::spawn(mirror.keep(client, path(key), told));
        Self {
            latest,
            heard: Arc::default(),
            task,
        }
    }

    /// The status from now on. One that was told already is not told again.
    pub fn tell(&self, status: Value) {
        self.latest.send_if_modified(|latest| {
            let changed = latest.status.as_ref() != Some(&status);
            if changed {
                latest.status = Some(status);
            }
            changed
        });
    }

    /// Whether somebody else has written over what was told last, by what the API says of the Pod. Then it is told once
    /// more. An older state of the Pod is no news, and what is being told now is written over it anyway.
    pub fn correct(&self, pod: &Pod) -> bool {
        let revision: u64 = pod.metadata.resource_version.parse().unwrap_or(0);
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let is_foreign = |status: &Value| !status::has_all(&pod.status.raw, status);
        let is_settled = heard.latest == *self.latest.borrow() && revision > heard.revision;
        if !is_settled || !heard.latest.status.as_ref().is_some_and(is_foreign) {
            return false;
        }
        drop(heard);
        self.latest.send_modify(|latest| latest.corrections += 1);
        true
    }

    /// Waits until the last status was heard, for `patience` at most.
    pub async fn finish(self, patience: Duration) {
        drop(self.latest);
        let abort = self.task.abort_handle();
        if tokio::time::timeout(patience, self.task).await.is_err() {
            tracing::warn!("the last status of a Pod was not heard");
            abort.abort();
        }
    }
}

/// Takes a Pod that has ended out of the API, if it is still the one with that UID.
pub async fn delete(client: &Client, key: &ObjectKey, uid: &str) {
    let options = json!({
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": uid},
    });
    let path = path(key);
    let mut pause = BACK_OFF_MIN;
    for _ in 0..DELETE_TRIES_MAX {
        match client
            .request(Method::DELETE, &path, client::JSON, Some(&options))
            .await
        {
            Ok(_) => return,
            // Gone already, or another Pod has its name now.
            Err(error) if error.is_not_found() || error.is_conflict() => return,
            Err(error) => tracing::warn!(pod = %key, %error, "deleting an ended Pod"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(BACK_OFF_MAX);
    }
}

async fn report(
    client: Client,
    path: String,
    uid: String,
    mut told: watch::Receiver<Latest>,
    heard: Arc<Mutex<Heard>>,
) {
    let mut pause = BACK_OFF_MIN;
    loop {
        let latest = told.borrow_and_update().clone();
        let is_news = heard.lock().unwrap_or_else(PoisonError::into_inner).latest != latest;
        if let (true, Some(status)) = (is_news, &latest.status) {
            match patch(&client, &path, &uid, status).await {
                Ok(revision) => {
                    *heard.lock().unwrap_or_else(PoisonError::into_inner) = Heard { latest, revision };
                    pause = BACK_OFF_MIN;
                }
                // The Pod is gone, or another one has its name: nobody is left to be told.
                Err(error) if error.is_not_found() || error.is_conflict() => return,
                Err(error) => {
                    tracing::warn!(%path, %error, "telling a Pod's status");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(BACK_OFF_MAX);
                    continue;
                }
            }
        }
        if told.changed().await.is_err() {
            return;
        }
    }
}

/// Writes a status; the Pod's revision with it.
pub(crate) async fn patch(
    client: &Client,
    path: &str,
    uid: &str,
    status: &Value,
) -> Result<u64, ClientError> {
    // The UID makes the server refuse if another Pod has the name now.
    let mut body = json!({"metadata": {"uid": uid}, "status": status});
    for list in ["hostIPs", "podIPs"] {
        // Without that the list would be merged, and addresses that somebody else has put there would stay.
        if let Some(addresses) = body["status"].get_mut(list).and_then(Value::as_array_mut) {
            addresses.insert(0, json!({"$patch": "replace"}));
        }
    }
    let written = client
        .request(Method::PATCH, path, STRATEGIC_PATCH, Some(&body))
        .await?;
    let revision = written["metadata"]["resourceVersion"].as_str();
    Ok(revision.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Where a Pod is in the API.
pub(crate) fn path(key: &ObjectKey) -> String {
    format!("{}/{}", Pod::collection(Some(&key.namespace)), key.name)
}
