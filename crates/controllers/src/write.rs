//! Single requests, typed.

use api::object::{ObjectKey, ObjectMeta, Resource};
use client::{Client, ClientError, JSON};
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Creates an object; returns it as the server has it.
pub(crate) async fn create<T: Resource + Serialize>(client: &Client, object: &T) -> Result<T, ClientError> {
    let namespace = &object.metadata().namespace;
    let answer = client.create(Some(namespace), object).await?;
    decode(T::collection(Some(namespace)), answer)
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
    decode(path, answer)
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

fn path_of<T: Resource>(key: &ObjectKey) -> String {
    format!("{}/{}", T::collection(Some(&key.namespace)), key.name)
}

/// Reads an answer as the object that it is.
pub(crate) fn decode<T: Resource>(path: String, answer: Value) -> Result<T, ClientError> {
    serde_json::from_value(answer).map_err(|source| ClientError::Decode { path, source })
}
