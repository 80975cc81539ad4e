//! An API server with controllers, and requests to it.

use client::{Client, Config, JSON, MERGE_PATCH};
use http::Method;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::support::{Api, Component, portolan, wait_for};

/// A server, its controllers, and a client.
pub struct Driver {
    runtime: Runtime,
    client: Client,
    /// They end with this value.
    controllers: Option<Component>,
    /// The server.
    pub api: Api,
}

impl Driver {
    /// Starts both; the controllers with these flags.
    pub fn start(flags: &[&str]) -> Self {
        let mut this = Self::without_controllers();
        let kubeconfig = format!("--kubeconfig={}", this.api.kubeconfig().display());
        let usual = ["controllers", &kubeconfig, "--metrics-bind-address="];
        this.controllers = Some(portolan(&[&usual, flags].concat()));
        this
    }

    /// Starts the server alone.
    pub fn without_controllers() -> Self {
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

    /// Creates an object; returns it.
    pub fn create(&self, collection: &str, object: &Value) -> Value {
        self.must(Method::POST, collection, JSON, object)
    }

    /// Merges a patch into an object; returns it.
    pub fn merge(&self, path: &str, patch: &Value) -> Value {
        self.must(Method::PATCH, path, MERGE_PATCH, patch)
    }

    /// Deletes an object with these `DeleteOptions`.
    pub fn delete(&self, path: &str, options: &Value) {
        self.must(Method::DELETE, path, JSON, options);
    }

    /// Merges a patch into an object that may be gone, or another one by now.
    pub fn try_merge(&self, path: &str, patch: &Value) {
        self.attempt(Method::PATCH, path, MERGE_PATCH, patch);
    }

    /// Deletes an object that may be gone.
    pub fn try_delete(&self, path: &str, options: &Value) {
        self.attempt(Method::DELETE, path, JSON, options);
    }

    /// The object at a path, or nothing.
    pub fn get(&self, path: &str) -> Option<Value> {
        match self.runtime.block_on(self.client.get(path)) {
            Ok(object) => Some(object),
            Err(error) if error.is_not_found() => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// Waits until the object at a path is as it should be; `None` is one that is not there.
    pub fn wait_until(&self, what: &str, path: &str, holds: impl Fn(Option<&Value>) -> bool) {
        wait_for(what, || holds(self.get(path).as_ref()));
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

/// The status of an object's condition, "" if it has none.
pub fn condition<'a>(object: Option<&'a Value>, kind: &str) -> &'a str {
    let conditions = object.and_then(|object| object["status"]["conditions"].as_array());
    let found = conditions.into_iter().flatten().find(|c| c["type"] == kind);
    found.and_then(|c| c["status"].as_str()).unwrap_or_default()
}
