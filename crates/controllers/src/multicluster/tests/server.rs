//! API server in the process of the test: objects of the namespace `shop` by path.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use api::multicluster::{SERVICE_NAME_LABEL, SOURCE_CLUSTER_LABEL};
use api::object::{ObjectKey, Resource};
use bytes::Bytes;
use client::{Body, Client, Exchange, TransportError};
use futures_util::FutureExt;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use serde_json::{Value, json};

use super::merge;
use crate::api_requests::path_of;

/// The server. Clones share its objects.
#[derive(Clone)]
pub(in crate::multicluster) struct ApiServer {
    objects: Arc<Mutex<BTreeMap<String, Value>>>,
    writes: Arc<AtomicUsize>,
    /// Returns the status code for an object that the server rejects.
    rejection: fn(&Value) -> Option<u16>,
    /// True if patches change nothing.
    ignores_patches: bool,
    /// Status code of each response, for a server without service.
    failure: Option<u16>,
}

impl ApiServer {
    pub(in crate::multicluster) fn new() -> Self {
        Self {
            objects: Arc::default(),
            writes: Arc::default(),
            rejection: |_| None,
            ignores_patches: false,
            failure: None,
        }
    }

    /// Returns the server with the objects that it rejects.
    pub(in crate::multicluster) fn rejecting(&self, rejection: fn(&Value) -> Option<u16>) -> Self {
        Self {
            rejection,
            ..self.clone()
        }
    }

    /// Returns the server without effect of patches.
    pub(in crate::multicluster) fn ignoring_patches(&self) -> Self {
        Self {
            ignores_patches: true,
            ..self.clone()
        }
    }

    /// Returns the server with this status code in each response.
    pub(in crate::multicluster) fn failing(&self, code: u16) -> Self {
        Self {
            failure: Some(code),
            ..self.clone()
        }
    }

    /// Returns a client of the server.
    pub(in crate::multicluster) fn client(&self) -> Client {
        let server = self.clone();
        let exchange: Exchange = Arc::new(move |request: Request<Bytes>| {
            let (code, body) = server.respond(&request);
            async move {
                let body = Full::new(Bytes::from(body.to_string())).map_err(TransportError::from);
                let response: Result<Response<Body>, _> =
                    Response::builder().status(code).body(body.boxed_unsync());
                response.map_err(TransportError::from)
            }
            .boxed()
        });
        Client::in_process(exchange)
    }

    /// Returns the number of writes.
    pub(in crate::multicluster) fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    /// Returns an object.
    pub(in crate::multicluster) fn object<T: Resource>(&self, name: &str) -> Option<T> {
        let path = path_of::<T>(&ObjectKey::new("shop", name));
        let object = self.objects.lock().expect("no panic").get(&path).cloned()?;
        Some(serde_json::from_value(object).expect("an object"))
    }

    /// Returns all objects of a kind.
    pub(in crate::multicluster) fn all<T: Resource>(&self) -> Vec<T> {
        let prefix = format!("{}/", T::collection(Some("shop")));
        let objects = self.objects.lock().expect("no panic");
        objects
            .iter()
            .filter(|(path, _)| path.starts_with(&prefix))
            .map(|(_, object)| serde_json::from_value(object.clone()).expect("an object"))
            .collect()
    }

    /// Stores an object as a user.
    pub(in crate::multicluster) fn put<T: Resource + Serialize>(&self, object: &T) {
        let path = path_of::<T>(&object.metadata().key());
        self.objects.lock().expect("no panic").insert(path, json!(object));
    }

    fn respond(&self, request: &Request<Bytes>) -> (u16, Value) {
        if let Some(code) = self.failure {
            return failure(code);
        }
        let mut objects = self.objects.lock().expect("no panic");
        let path = request.uri().path().to_owned();
        if *request.method() == Method::GET {
            return match (request.uri().query(), objects.get(&path)) {
                (Some(_), _) => (200, mirrored(&objects, &path)),
                (None, Some(object)) => (200, object.clone()),
                (None, None) => failure(404),
            };
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        if *request.method() == Method::DELETE {
            objects.remove(&path);
            return (200, json!({}));
        }
        let mut sent: Value = serde_json::from_slice(request.body()).expect("JSON");
        if let Some(code) = (self.rejection)(&sent) {
            return failure(code);
        }
        if *request.method() == Method::PATCH {
            let path = path.trim_end_matches("/status");
            let Some(object) = objects.get_mut(path) else {
                return failure(404);
            };
            if !self.ignores_patches {
                merge(object, &sent);
            }
            return (200, object.clone());
        }
        if *request.method() == Method::PUT {
            objects.insert(path, sent.clone());
            return (200, sent);
        }
        let name = sent["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{path}/{name}");
        if objects.contains_key(&path) {
            return failure(409);
        }
        if sent["kind"] == "Service" {
            sent["spec"]["clusterIP"] = json!("10.97.0.1");
            sent["spec"]["clusterIPs"] = json!(["10.97.0.1"]);
        }
        objects.insert(path, sent.clone());
        (201, sent)
    }
}

/// Returns the list of the objects below a path that have the labels of mirrored slices.
fn mirrored(objects: &BTreeMap<String, Value>, path: &str) -> Value {
    let prefix = format!("{path}/");
    let is_meant = |(path, object): &(&String, &Value)| {
        let labels = &object["metadata"]["labels"];
        let has = |label: &str| labels[label].is_string();
        path.starts_with(&prefix)
            && has(SERVICE_NAME_LABEL)
            && has(SOURCE_CLUSTER_LABEL)
            && has(crate::endpoint_slice::MANAGED_BY_LABEL)
    };
    let items: Vec<&Value> = objects
        .iter()
        .filter(is_meant)
        .map(|(_, object)| object)
        .collect();
    json!({"metadata": {"resourceVersion": "1"}, "items": items})
}

fn failure(code: u16) -> (u16, Value) {
    let message = format!("failure {code}");
    (code, json!({"kind": "Status", "code": code, "message": message}))
}
