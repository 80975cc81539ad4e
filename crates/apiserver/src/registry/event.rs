//! Events that the server writes about objects.

use api::kind;
use serde_json::json;

use crate::failure::Failure;
use crate::registry::service::repair::RegardingObject;
use crate::request::route::Target;
use crate::verbs::resource::{Resources, WriteContext, retry_on_conflict};

/// Writes an Event of type `Warning` about an object. Events are best effort: a failure is logged, without a
/// retry.
pub(crate) async fn warn(
    resources: &Resources,
    component: &str,
    regarding: &RegardingObject,
    reason: &str,
    message: &str,
) {
    let written = write(resources, component, regarding, reason, message).await;
    if let Err(failure) = written {
        let error = failure.message();
        tracing::warn!(reason, object = regarding.name, error, "Event not written");
    }
}

/// Creates an Event.
async fn write(
    resources: &Resources,
    component: &str,
    regarding: &RegardingObject,
    reason: &str,
    message: &str,
) -> Result<(), Failure> {
    let Some(kind) = kind::find("", "v1", "events") else {
        return Ok(());
    };
    let now = jiff::Timestamp::now();
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    // Events about cluster-scoped objects are in the namespace `default`.
    let namespace = match &*regarding.namespace {
        "" => "default",
        namespace => namespace,
    };
    let mut event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{}.{:x}", regarding.name.replace(':', "-"), now.as_nanosecond()),
            "namespace": namespace,
        },
        "involvedObject": {
            "apiVersion": regarding.api_version, "kind": regarding.kind, "name": regarding.name, "uid": regarding.uid,
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": {"component": component},
    });
    if !regarding.namespace.is_empty() {
        event["involvedObject"]["namespace"] = json!(regarding.namespace);
    }
    let target = Target::collection(kind, Some(namespace));
    retry_on_conflict(&target, || async {
        resources
            .create_object(&target, event.clone(), Vec::new(), WriteContext::SERVER)
            .await
            .map(drop)
    })
    .await
}
