//! IngressClass of the edge, the default class of a cluster of `portolan up`.

use api::ingress::{CONTROLLER, DEFAULT_CLASS_ANNOTATION};
use api::object::{IngressClass, Resource};
use client::{Client, ClientError, JSON};
use http::Method;
use serde_json::json;

/// Name of the class.
const NAME: &str = "portolan";

/// Creates the class. An existing one stays as it is.
///
/// # Errors
///
/// [`ClientError`] if the request fails.
pub(super) async fn publish(client: &Client) -> Result<(), ClientError> {
    let class = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {"name": NAME, "annotations": {DEFAULT_CLASS_ANNOTATION: "true"}},
        "spec": {"controller": CONTROLLER},
    });
    let collection = IngressClass::collection(None);
    match client
        .request(Method::POST, &collection, JSON, Some(&class))
        .await
    {
        Err(error) if error.is_conflict() => Ok(()),
        created => created.map(drop),
    }
}
