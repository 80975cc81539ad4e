//! Single writes, typed.

use api::object::{ObjectKey, Resource};
use client::{Client, ClientError, JSON};
use http::Method;
use serde::Serialize;
use serde_json::{Value, json};

/// Creates an object; returns it as the server has it.
pub(crate) async fn create<T: Resource + Serialize>(client: &Client, object: &T) -> Result<T, ClientError> {
    let namespace = &object.metadata().namespace;
    let answer = client.create(Some(namespace), object).await?;
    read(T::collection(Some(namespace)), answer)
}

/// Replaces an object of the resourceVersion that it carries; returns it as the server has it.
pub(crate) async fn replace<T: Resource + Serialize>(client: &Client, object: &T) -> Result<T, ClientError> {
    let path = path_of::<T>(&object.metadata().key());
    let mut body = match serde_json::to_value(object) {
        Ok(body) => body,
        Err(source) => return Err(ClientError::Decode { path, source }),
    };
    body["kind"] = T::KIND.into();
    body["apiVersion"] = if T::GROUP.is_empty() {
        T::VERSION.into()
    } else {
        format!("{}/{}", T::GROUP, T::VERSION).into()
    };
    let answer = client.request(Method::PUT, &path, JSON, Some(&body)).await?;
    read(path, answer)
}

/// Deletes an object of a UID, or whichever has the name if the UID is ""; one that is gone already is
/// as good.
pub(crate) async fn delete<T: Resource>(
    client: &Client,
    key: &ObjectKey,
    uid: &str,
) -> Result<(), ClientError> {
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
    let body = (!uid.is_empty()).then_some(&options);
    match client
        .request(Method::DELETE, &path_of::<T>(key), JSON, body)
        .await
    {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

fn path_of<T: Resource>(key: &ObjectKey) -> String {
    format!("{}/{}", T::collection(Some(&key.namespace)), key.name)
}

fn read<T: Resource>(path: String, answer: Value) -> Result<T, ClientError> {
    serde_json::from_value(answer).map_err(|source| ClientError::Decode { path, source })
}
