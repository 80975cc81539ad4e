//! Mirror Pods: the representation of static Pods in the API (kubelet's `mirror_client.go`).
//!
//! A change or deletion of the mirror Pod does not affect the static Pod.

use std::sync::Arc;

use api::object::{Node, ObjectKey, Resource};
use client::{Client, ClientError};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use crate::object::Pod;
use crate::object::rfc3339::whole_seconds;
use crate::pods::pod_api::{self, BACK_OFF_MAX, BACK_OFF_MIN, patch_status};
use crate::pods::status;
use crate::pods::status_writer::{LatestStatus, StatusWriter};
use crate::static_pods::manifests::StaticPod;

/// Annotation of a mirror Pod: the UID of its static Pod.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
/// Annotation with the UID of a static Pod.
pub(crate) const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// Annotation with the kind of source of a static Pod: `file`.
pub(crate) const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// Annotation with the time at which the agent first read the static Pod.
const CONFIG_SEEN: &str = "kubernetes.io/config.seen";

/// Reason why a mirror Pod is not up to date. Retries succeed once the cause is removed.
#[derive(Debug, thiserror::Error)]
enum MirrorError {
    #[error(transparent)]
    Api(#[from] ClientError),
    #[error("the API has a Pod of that name, which is not a mirror Pod; delete it")]
    NameTaken,
}

/// Mirror Pod of one static Pod.
pub(crate) struct MirrorPod {
    object: Value,
    uid: String,
    changed: Arc<Notify>,
}

impl MirrorPod {
    /// Returns the mirror Pod of a static Pod that was first read at `now`.
    pub(crate) fn new(pod: &StaticPod, now: Timestamp) -> Self {
        let mut object = (*pod.mirror).clone();
        object["metadata"]["annotations"][CONFIG_SEEN] = whole_seconds(now).into();
        Self {
            object,
            uid: pod.pod.metadata.uid.clone(),
            changed: Arc::clone(&pod.mirror_changed),
        }
    }

    /// Starts a task that keeps the mirror Pod up to date in the API. Returns the writer of its status.
    pub(crate) fn start(self, client: Client, key: &ObjectKey) -> StatusWriter {
        let (latest, receiver) = watch::channel(LatestStatus::default());
        let task = tokio::spawn(self.reconcile_until_closed(client, pod_api::path(key), receiver));
        StatusWriter::with_task(latest, task)
    }

    async fn reconcile_until_closed(
        self,
        client: Client,
        path: String,
        mut receiver: watch::Receiver<LatestStatus>,
    ) {
        let mut delay = BACK_OFF_MIN;
        loop {
            let latest = receiver.borrow_and_update().clone();
            match self.reconcile(&client, &path, latest.status.as_ref()).await {
                Ok(()) => delay = BACK_OFF_MIN,
                Err(error) => {
                    tracing::warn!(%path, %error, "mirror Pod not up to date");
                    tokio::select! {
                        () = tokio::time::sleep(delay) => {}
                        changed = receiver.changed() => if changed.is_err() { return },
                    }
                    delay = (delay * 2).min(BACK_OFF_MAX);
                    continue;
                }
            }
            tokio::select! {
                changed = receiver.changed() => if changed.is_err() { return },
                () = self.changed.notified() => {}
            }
        }
    }

    /// Creates or replaces the mirror Pod if needed, and writes the status if it differs.
    async fn reconcile(
        &self,
        client: &Client,
        path: &str,
        status: Option<&Value>,
    ) -> Result<(), MirrorError> {
        let present = match client.get::<Value>(path).await {
            Ok(present) => Some(present),
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(error.into()),
        };
        let present = match present {
            Some(present) if is_current(&present, &self.uid) => present,
            Some(other) => {
                if mirrored_uid(&other).is_none() {
                    return Err(MirrorError::NameTaken);
                }
                delete(client, path, &other).await?;
                self.create(client, path).await?
            }
            None => self.create(client, path).await?,
        };
        let Some(status) = status.filter(|status| !status::contains(&present["status"], status)) else {
            return Ok(());
        };
        let uid = present["metadata"]["uid"].as_str().unwrap_or_default();
        patch_status(client, path, uid, status).await?;
        Ok(())
    }

    /// Creates the mirror Pod with the Node as its owner, which the admission plugin NodeRestriction requires.
    async fn create(&self, client: &Client, path: &str) -> Result<Value, MirrorError> {
        let node_name = self.object["spec"]["nodeName"].as_str().unwrap_or_default();
        let node: Node = client
            .get(&format!("{}/{node_name}", Node::collection(None)))
            .await?;
        let mut object = self.object.clone();
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node.metadata.uid, "controller": true,
        }]);
        let collection = path.rsplit_once('/').map_or(path, |(collection, _)| collection);
        client
            .request(Method::POST, collection, client::JSON, Some(&object))
            .await
            .map_err(|error| {
                if error.is_conflict() {
                    MirrorError::NameTaken
                } else {
                    error.into()
                }
            })
    }
}

/// Returns true if the path has no Pod of this node. The node authorizer responds with 403 to a request for a
/// Pod that is missing.
fn is_absent(error: &ClientError) -> bool {
    error.is_not_found() || error.is_forbidden()
}

/// Returns the UID of the static Pod that a Pod of the API mirrors.
fn mirrored_uid(pod: &Value) -> Option<&str> {
    pod["metadata"]["annotations"][MIRROR].as_str()
}

/// Returns true if a Pod mirrors the static Pod with the UID and is not being deleted.
fn is_current(pod: &Value, uid: &str) -> bool {
    mirrored_uid(pod) == Some(uid) && pod["metadata"]["deletionTimestamp"].is_null()
}

/// Deletes the mirror Pod of a removed static Pod. Keeps the mirror Pod of another static Pod.
///
/// # Errors
/// Errors of the requests.
pub(crate) async fn delete_orphan(client: &Client, key: &ObjectKey, uid: &str) -> Result<(), ClientError> {
    let path = pod_api::path(key);
    match client.get::<Value>(&path).await {
        Ok(present) if mirrored_uid(&present) == Some(uid) => delete(client, &path, &present).await,
        Ok(_) => Ok(()),
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn delete(client: &Client, path: &str, present: &Value) -> Result<(), ClientError> {
    let uid = present["metadata"]["uid"].as_str().unwrap_or_default();
    pod_api::delete(client, path, uid).await
}

/// Returns the UID of the static Pod that a watched Pod mirrors.
pub(crate) fn mirrored_uid_of(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.get(MIRROR).map(String::as_str)
}
