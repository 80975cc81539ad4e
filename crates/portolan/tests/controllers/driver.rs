//! API server with controllers, and a client for requests.

use client::{Client, Config, JSON, MERGE_PATCH};
use http::Method;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::support::{Api, Component, portolan, wait_for};

/// API server, controllers and client.
pub(crate) struct Driver {
    runtime: Runtime,
    client: Client,
    /// Process of the controllers.
    controllers: Option<Component>,
    /// Process of the API server.
    pub api: Api,
}

impl Driver {
    /// Starts the API server, and the controllers with flags.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let mut this = Self::without_controllers();
        let kubeconfig = format!("--kubeconfig={}", this.api.kubeconfig().display());
        let defaults = ["controllers", &kubeconfig, "--metrics-bind-address="];
        this.controllers = Some(portolan(&[&defaults, flags].concat()));
        this
    }

    /// Starts the API server alone.
    pub(crate) fn without_controllers() -> Self {
        let api = Api::start();
        let config = Config::from_kubeconfig(&api.kubeconfig()).expect("a kubeconfig");
        let runtime = Runtime::new().expect("a runtime");
        let client = runtime.block_on(async { Client::new(config) }).expect("a client");
        Self {
            controllers: None,
            api,
            runtime,
            client,
        }
    }

    /// Creates an object and returns it.
    pub(crate) fn create(&self, collection: &str, object: &Value) -> Value {
        self.must(Method::POST, collection, JSON, object)
    }

    /// Merges a patch into an object and returns it.
    pub(crate) fn merge(&self, path: &str, patch: &Value) -> Value {
        self.must(Method::PATCH, path, MERGE_PATCH, patch)
    }

    /// Deletes an object with `DeleteOptions`.
    pub(crate) fn delete(&self, path: &str, options: &Value) {
        self.must(Method::DELETE, path, JSON, options);
    }

    /// Merges a patch into an object that may be deleted or replaced.
    pub(crate) fn try_merge(&self, path: &str, patch: &Value) {
        self.attempt(Method::PATCH, path, MERGE_PATCH, patch);
    }

    /// Deletes an object that may not exist.
    pub(crate) fn try_delete(&self, path: &str, options: &Value) {
        self.attempt(Method::DELETE, path, JSON, options);
    }

    /// Returns the object at a path, or `None`.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        match self.runtime.block_on(self.client.get(path)) {
            Ok(object) => Some(object),
            Err(error) if error.is_not_found() => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Waits until a condition holds for the object at a path; `None` if it does not exist.
    pub(crate) fn wait_until(&self, subject: &str, path: &str, holds: impl Fn(Option<&Value>) -> bool) {
        wait_for(subject, || holds(self.get(path).as_ref()));
    }

    fn attempt(&self, method: Method, path: &str, content: &str, body: &Value) {
        let request = self.client.request(method, path, content, Some(body));
        match self.runtime.block_on(request) {
            Err(error) if !error.is_not_found() && !error.is_conflict() => panic!("{error}"),
            _ => {}
        }
    }

    fn must(&self, method: Method, path: &str, content: &str, body: &Value) -> Value {
        let request = self.client.request(method, path, content, Some(body));
        self.runtime
            .block_on(request)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Returns the status of a condition; empty if the object does not have it.
pub(crate) fn condition<'a>(object: Option<&'a Value>, kind: &str) -> &'a str {
    let conditions = object.and_then(|object| object["status"]["conditions"].as_array());
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind);
    found
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or_default()
}
