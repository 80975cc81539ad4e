//! Typed requests to the API: create, replace, delete, patch and read. Objects that a job replaces or patches count
//! ([`rewrites`]).

use api::object::{ObjectKey, ObjectMeta, Resource};
use client::{Client, ClientError, JSON, MERGE_PATCH, PageSize};
use http::Method;
use reconcile::events::api_version;
use reconcile::rewrites;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Objects of one page of a list.
const PAGE_OBJECTS: usize = 500;

/// Creates an object; returns it as the server stored it.
pub(crate) async fn create<T: Resource + Serialize>(client: &Client, object: &T) -> Result<T, ClientError> {
    let path = T::collection(Some(&object.metadata().namespace));
    exchange(client, Method::POST, path, object).await
}

/// Replaces an object with this resourceVersion; returns it as the server stored it.
pub(crate) async fn replace<T: Resource + Serialize>(client: &Client, object: &T) -> Result<T, ClientError> {
    let path = path_of::<T>(&object.metadata().key());
    exchange(client, Method::PUT, path, object).await
}

/// Sends an object and reads the response as one. Writes are frequent and may be large, so the object is
/// serialized without an intermediate JSON tree.
async fn exchange<T: Resource + Serialize>(
    client: &Client,
    method: Method,
    path: String,
    object: &T,
) -> Result<T, ClientError> {
    let body = match serde_json::to_vec(&ObjectWithKind::of(object)) {
        Ok(body) => body,
        Err(source) => return Err(ClientError::Decode { path, source }),
    };
    let is_rewrite = method == Method::PUT;
    let response = client.send(method, &path, JSON, body.into()).await?;
    if is_rewrite {
        rewrites::count(response.len());
    }
    serde_json::from_slice(&response).map_err(|source| ClientError::Decode { path, source })
}

/// An object with its `kind` and `apiVersion`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectWithKind<'a, T> {
    kind: &'static str,
    api_version: String,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T: Resource> ObjectWithKind<'a, T> {
    fn of(object: &'a T) -> Self {
        Self {
            kind: T::KIND,
            api_version: api_version::<T>(),
            object,
        }
    }
}

/// Deletes the object with this UID and resourceVersion. An object that is deleted already is not an error.
pub(crate) async fn delete<T: Resource>(client: &Client, meta: &ObjectMeta) -> Result<(), ClientError> {
    let preconditions = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions});
    let path = path_of::<T>(&meta.key());
    match client.request(Method::DELETE, &path, JSON, Some(&options)).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Patches the status of an object; returns the object as the server stored it.
pub(crate) async fn patch_status<T: Resource>(
    client: &Client,
    object: &T,
    patch: &Value,
) -> Result<T, ClientError> {
    let path = format!("{}/status", path_of::<T>(&object.metadata().key()));
    merge(client, path, patch).await
}

/// Merges a patch into the object at `path`; returns the object as the server stored it.
pub(crate) async fn merge<T: Resource>(
    client: &Client,
    path: String,
    patch: &Value,
) -> Result<T, ClientError> {
    let body = match serde_json::to_vec(patch) {
        Ok(body) => body,
        Err(source) => return Err(ClientError::Decode { path, source }),
    };
    let response = client
        .send(Method::PATCH, &path, MERGE_PATCH, body.into())
        .await?;
    rewrites::count(response.len());
    serde_json::from_slice(&response).map_err(|source| ClientError::Decode { path, source })
}

/// Reads an object; `None` if it does not exist.
pub(crate) async fn read<T: Resource>(client: &Client, key: &ObjectKey) -> Result<Option<T>, ClientError> {
    match client.get(&path_of::<T>(key)).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Objects of a list, with its revision.
#[derive(Debug)]
pub(crate) struct ObjectList<T> {
    pub(crate) items: Vec<T>,
    pub(crate) revision: u64,
}

/// Lists the objects of a namespace that match a label selector.
pub(crate) async fn list<T: Resource>(
    client: &Client,
    namespace: &str,
    label_selector: &str,
) -> Result<ObjectList<T>, ClientError> {
    let mut path = format!("{}?labelSelector=", T::collection(Some(namespace)));
    client::push_escaped(&mut path, label_selector);
    list_at(client, &path).await
}

/// Lists the objects of all namespaces that match a label selector.
pub(crate) async fn list_all<T: Resource>(
    client: &Client,
    label_selector: &str,
) -> Result<ObjectList<T>, ClientError> {
    let mut path = format!("{}?labelSelector=", T::collection(None));
    client::push_escaped(&mut path, label_selector);
    list_at(client, &path).await
}

/// Lists the objects of all namespaces that match a field selector.
pub(crate) async fn list_by_field<T: Resource>(
    client: &Client,
    field_selector: &str,
) -> Result<ObjectList<T>, ClientError> {
    let mut path = format!("{}?fieldSelector=", T::collection(None));
    client::push_escaped(&mut path, field_selector);
    list_at(client, &path).await
}

/// Lists in pages: a node, for example, can have more Pods than a response may have bytes.
async fn list_at<T: Resource>(client: &Client, path: &str) -> Result<ObjectList<T>, ClientError> {
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
        #[serde(rename = "continue", default)]
        continue_token: Option<String>,
    }
    let (mut items, mut token) = (Vec::new(), String::new());
    let mut size = PageSize::new(PAGE_OBJECTS);
    loop {
        let mut path = format!("{path}&limit={}", size.objects());
        if !token.is_empty() {
            path.push_str("&continue=");
            client::push_escaped(&mut path, &token);
        }
        let list: List<T> = match client.get(&path).await {
            Err(error) if size.shrink(&error) => continue,
            list => list?,
        };
        items.extend(list.items.unwrap_or_default());
        token = list.metadata.continue_token.unwrap_or_default();
        if token.is_empty() {
            return Ok(ObjectList {
                items,
                revision: list.metadata.resource_version.parse().unwrap_or(0),
            });
        }
    }
}

/// Returns the path of an object. Cluster-scoped objects have an empty namespace in their key.
pub(crate) fn path_of<T: Resource>(key: &ObjectKey) -> String {
    let namespace = Some(&*key.namespace).filter(|namespace| !namespace.is_empty());
    let mut path = T::collection(namespace);
    path.push('/');
    // Names from fields of objects can be any text.
    client::push_escaped(&mut path, &key.name);
    path
}

/// Decodes a response.
pub(crate) fn decode<T: Resource>(path: String, response: Value) -> Result<T, ClientError> {
    serde_json::from_value(response).map_err(|source| ClientError::Decode { path, source })
}

/// Returns the message of a status without the request.
pub(crate) fn status_message(error: &ClientError) -> String {
    match error {
        ClientError::Status { status, .. } => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
