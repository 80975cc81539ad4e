//! Single requests, typed.

use api::object::{ObjectKey, ObjectMeta, Resource};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Creates an object; returns it as the server has it.
pub(crate) async fn create<T: Resource + Serialize>(client: &Client, object: &T) -> Result<T, ClientError> {
    let path = T::collection(Some(&object.metadata().namespace));
    exchange(client, Method::POST, path, object).await
}

/// Replaces an object of the resourceVersion that it carries; returns it as the server has it.
pub(crate) async fn replace<T: Resource + Serialize>(client: &Client, object: &T) -> Result<T, ClientError> {
    let path = path_of::<T>(&object.metadata().key());
    exchange(client, Method::PUT, path, object).await
}

/// Sends an object and reads the answer as one. There are many writes, and some are large: they go from the object to
/// bytes and back without a tree in between.
async fn exchange<T: Resource + Serialize>(
    client: &Client,
    method: Method,
    path: String,
    object: &T,
) -> Result<T, ClientError> {
    let body = match serde_json::to_vec(&Typed::of(object)) {
        Ok(body) => body,
        Err(source) => return Err(ClientError::Decode { path, source }),
    };
    let answer = client.send(method, &path, JSON, body.into()).await?;
    serde_json::from_slice(&answer).map_err(|source| ClientError::Decode { path, source })
}

/// An object with what says of which kind it is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'a, T> {
    kind: &'static str,
    api_version: String,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T: Resource> Typed<'a, T> {
    fn of(object: &'a T) -> Self {
        Self {
            kind: T::KIND,
            api_version: api_version::<T>(),
            object,
        }
    }
}

/// The word of `apiVersion` of a kind.
pub(crate) fn api_version<T: Resource>() -> String {
    match T::GROUP {
        "" => T::VERSION.to_owned(),
        group => format!("{group}/{}", T::VERSION),
    }
}

/// Deletes an object of this UID, if nobody wrote it since; one that is gone already is as good.
pub(crate) async fn delete<T: Resource>(client: &Client, meta: &ObjectMeta) -> Result<(), ClientError> {
    let preconditions = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions});
    let path = path_of::<T>(&meta.key());
    match client.request(Method::DELETE, &path, JSON, Some(&options)).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Writes a merge patch of an object's status; returns the object as the server has it.
pub(crate) async fn patch_status<T: Resource>(
    client: &Client,
    object: &T,
    patch: &Value,
) -> Result<T, ClientError> {
    let path = format!("{}/status", path_of::<T>(&object.metadata().key()));
    let answer = client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(patch))
        .await?;
    decode(path, answer)
}

/// Reads an object as it is at the server; `None` if there is none.
pub(crate) async fn read<T: Resource>(client: &Client, key: &ObjectKey) -> Result<Option<T>, ClientError> {
    match client.get(&path_of::<T>(key)).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Some objects, and the revision at which they were all.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    pub(crate) items: Vec<T>,
    pub(crate) revision: u64,
}

/// Reads the objects of a namespace that a label selector chooses, as they are at the server.
pub(crate) async fn list<T: Resource>(
    client: &Client,
    namespace: &str,
    label_selector: &str,
) -> Result<Listed<T>, ClientError> {
    let mut path = format!("{}?labelSelector=", T::collection(Some(namespace)));
    client::push_escaped(&mut path, label_selector);
    list_at(client, &path).await
}

/// Reads the objects of all namespaces, or without one, that a label selector chooses, as they are at the server.
pub(crate) async fn list_all<T: Resource>(
    client: &Client,
    label_selector: &str,
) -> Result<Listed<T>, ClientError> {
    let mut path = format!("{}?labelSelector=", T::collection(None));
    client::push_escaped(&mut path, label_selector);
    list_at(client, &path).await
}

/// Reads the objects of all namespaces that a field selector chooses, as they are at the server.
pub(crate) async fn list_by_field<T: Resource>(
    client: &Client,
    field_selector: &str,
) -> Result<Listed<T>, ClientError> {
    let mut path = format!("{}?fieldSelector=", T::collection(None));
    client::push_escaped(&mut path, field_selector);
    list_at(client, &path).await
}

async fn list_at<T: Resource>(client: &Client, path: &str) -> Result<Listed<T>, ClientError> {
    #[derive(Deserialize)]
    #[serde(bound = "T: Resource")]
    struct List<T> {
        metadata: ListMeta,
        items: Option<Vec<T>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ListMeta {
        resource_version: String,
    }
    let list: List<T> = client.get(path).await?;
    Ok(Listed {
        items: list.items.unwrap_or_default(),
        revision: list.metadata.resource_version.parse().unwrap_or(0),
    })
}

/// The path of an object; what is in no namespace has an empty one in its key.
pub(crate) fn path_of<T: Resource>(key: &ObjectKey) -> String {
    let namespace = Some(&*key.namespace).filter(|namespace| !namespace.is_empty());
    format!("{}/{}", T::collection(namespace), key.name)
}

/// Reads an answer as the object that it is.
pub(crate) fn decode<T: Resource>(path: String, answer: Value) -> Result<T, ClientError> {
    serde_json::from_value(answer).map_err(|source| ClientError::Decode { path, source })
}

/// What the server said was wrong, without what was asked.
pub(crate) fn told(error: &ClientError) -> String {
    match error {
        ClientError::Status { status, .. } => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
