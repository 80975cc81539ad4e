//! Tells the API a Pod's status: the latest, again until it was heard, and beside everything else, so that an API
//! server that is away holds up no container.

use std::time::Duration;

use api::object::{ObjectKey, Resource};
use client::{Client, ClientError, STRATEGIC_PATCH};
use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::object::Pod;

/// The pause after a failure; it doubles up to the maximum.
const BACK_OFF_MIN: Duration = Duration::from_millis(200);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);
/// How often the deletion of an ended Pod is tried before it is left to the next agent.
const DELETE_TRIES_MAX: usize = 20;

/// Tells the API the status of one Pod.
pub struct Reporter {
    latest: watch::Sender<Option<Value>>,
    task: JoinHandle<()>,
}

impl Reporter {
    /// Starts with nothing to tell.
    pub fn start(client: Client, key: &ObjectKey, uid: &str) -> Self {
        let (latest, told) = watch::channel(None);
        let path = format!("{}/status", path(key));
        let task = tokio::spawn(report(client, path, uid.to_owned(), told));
        Self { latest, task }
    }

    /// The status from now on. One that was told already is not told again.
    pub fn tell(&self, status: Value) {
        self.latest.send_if_modified(|latest| {
            let changed = latest.as_ref() != Some(&status);
            if changed {
                *latest = Some(status);
            }
            changed
        });
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

async fn report(client: Client, path: String, uid: String, mut told: watch::Receiver<Option<Value>>) {
    let mut pause = BACK_OFF_MIN;
    let mut heard = None;
    loop {
        let status = told.borrow_and_update().clone();
        if status != heard {
            match patch(&client, &path, &uid, status.as_ref()).await {
                Ok(()) => {
                    heard = status;
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

async fn patch(client: &Client, path: &str, uid: &str, status: Option<&Value>) -> Result<(), ClientError> {
    let Some(status) = status else { return Ok(()) };
    // The UID makes the server refuse if another Pod has the name now.
    let body = json!({"metadata": {"uid": uid}, "status": status});
    client
        .request(Method::PATCH, path, STRATEGIC_PATCH, Some(&body))
        .await
        .map(drop)
}

fn path(key: &ObjectKey) -> String {
    format!("{}/{}", Pod::collection(Some(&key.namespace)), key.name)
}
