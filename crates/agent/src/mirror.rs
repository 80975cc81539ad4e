//! Mirrors: what the API shows of Pods that a node runs by itself. Changing or deleting one changes nothing of the Pod.

use std::sync::Arc;
use std::time::Duration;

use api::object::{Node, ObjectKey, Resource};
use client::{Client, ClientError};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use crate::manifests::StaticPod;
use crate::object::Pod;
use crate::reporter::{Latest, patch};
use crate::status::{has_all, seconds};

/// The annotation of a mirror, with the UID of its static Pod.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotation with the UID of a static Pod.
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// The annotation that says where a static Pod is from.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// The annotation that says when it was first seen.
const CONFIG_SEEN: &str = "kubernetes.io/config.seen";

/// The pause after a failure; it doubles up to the maximum.
const BACK_OFF_MIN: Duration = Duration::from_millis(200);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);

/// Why a mirror is not as it should be. Trying again helps once the cause is gone.
#[derive(Debug, thiserror::Error)]
enum MirrorError {
    #[error(transparent)]
    Api(#[from] ClientError),
    #[error("the API has another Pod of that name, which is no mirror; delete it")]
    Taken,
}

/// The mirror of one static Pod.
pub struct Mirror {
    object: Value,
    uid: String,
    changed: Arc<Notify>,
}

impl Mirror {
    /// The mirror of a Pod that was seen now.
    pub fn of(pod: &StaticPod, now: Timestamp) -> Self {
        let mut object = (*pod.mirror).clone();
        object["metadata"]["annotations"][CONFIG_SEEN] = seconds(now).into();
        Self {
            object,
            uid: pod.pod.metadata.uid.clone(),
            changed: Arc::clone(&pod.mirror_changed),
        }
    }

    /// Keeps the mirror in the API with the latest status, until nobody has any more to tell.
    pub(crate) async fn keep(self, client: Client, path: String, mut told: watch::Receiver<Latest>) {
        let mut pause = BACK_OFF_MIN;
        loop {
            let latest = told.borrow_and_update().clone();
            match self.settle(&client, &path, latest.status.as_ref()).await {
                Ok(()) => pause = BACK_OFF_MIN,
                Err(error) => {
                    tracing::warn!(%path, %error, "the mirror of a static Pod");
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        changed = told.changed() => if changed.is_err() { return },
                    }
                    pause = (pause * 2).min(BACK_OFF_MAX);
                    continue;
                }
            }
            tokio::select! {
                changed = told.changed() => if changed.is_err() { return },
                () = self.changed.notified() => {}
            }
        }
    }

    async fn settle(&self, client: &Client, path: &str, status: Option<&Value>) -> Result<(), MirrorError> {
        let present = match client.get::<Value>(path).await {
            Ok(present) => Some(present),
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(error.into()),
        };
        let present = match present {
            Some(present) if is_of(&present, &self.uid) => present,
            Some(other) => {
                if mirror_of(&other).is_none() {
                    return Err(MirrorError::Taken);
                }
                delete(client, path, &other).await?;
                self.create(client, path).await?
            }
            None => self.create(client, path).await?,
        };
        let Some(status) = status.filter(|status| !has_all(&present["status"], status)) else {
            return Ok(());
        };
        let uid = present["metadata"]["uid"].as_str().unwrap_or_default();
        patch(client, &format!("{path}/status"), uid, status).await?;
        Ok(())
    }

    /// Creates the mirror, owned by the Node as NodeRestriction wants it: it goes when the Node goes.
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
            .map_err(|error| match error.is_conflict() {
                true => MirrorError::Taken,
                false => error.into(),
            })
    }
}

/// Whether there is no Pod of this node at a path. Of a Pod that is not there, a server that decides by the Pods of a node
/// only says that the node may not read it.
fn is_absent(error: &ClientError) -> bool {
    error.is_not_found() || error.is_forbidden()
}

/// The UID of the static Pod that a Pod of the API is the mirror of.
fn mirror_of(pod: &Value) -> Option<&str> {
    pod["metadata"]["annotations"][MIRROR].as_str()
}

/// Whether it is a mirror that stays.
fn is_of(pod: &Value, uid: &str) -> bool {
    mirror_of(pod) == Some(uid) && pod["metadata"]["deletionTimestamp"].is_null()
}

/// Takes the mirror of a Pod that is not there any more out of the API; one of another Pod stays.
pub async fn withdraw(client: &Client, key: &ObjectKey, uid: &str) -> Result<(), ClientError> {
    let path = crate::reporter::path(key);
    match client.get::<Value>(&path).await {
        Ok(present) if mirror_of(&present) == Some(uid) => delete(client, &path, &present).await,
        Ok(_) => Ok(()),
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn delete(client: &Client, path: &str, present: &Value) -> Result<(), ClientError> {
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
                         "preconditions": {"uid": present["metadata"]["uid"]}});
    match client
        .request(Method::DELETE, path, client::JSON, Some(&options))
        .await
    {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// The UID of the static Pod that a watched Pod is the mirror of.
pub fn of_watched(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.get(MIRROR).map(String::as_str)
}
