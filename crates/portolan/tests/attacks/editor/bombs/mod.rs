//! Small requests that could cause high memory use, deep recursion or long computation. The server rejects
//! them and continues.

mod bodies;
mod collections;
mod list_items;
mod long_lists;
mod patches;

use bytes::Bytes;
use client::{Client, ClientError};
use http::Method;
use serde_json::{Value, json};

use crate::access;
use crate::support::Api;

const JSON_PATCH: &str = "application/json-patch+json";
const OBJECTS: &str = "/api/v1/namespaces/default/configmaps";
const OBJECT: &str = "/api/v1/namespaces/default/configmaps/own";
/// Size limit of the server for a body.
const BODY_BYTES_MAX: usize = 3 << 20;
/// Limit for the peak of the resident memory: a few parsed requests of the largest size.
const PEAK_KIB_MAX: u64 = 768 << 10;

/// API server, and an editor of the namespace `default` with an object.
struct Target {
    api: Api,
    editor: Client,
    administrator: Client,
}

impl Target {
    async fn start() -> Self {
        let api = Api::start();
        let administrator = access::administrator(&api);
        let binding = json!({"metadata": {"name": "edit"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]});
        let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
        let bound = administrator
            .request(Method::POST, bindings, client::JSON, Some(&binding))
            .await;
        bound.expect("a role binding");
        let editor = access::with_certificate(&api, "ann", "");
        let object = json!({"metadata": {"name": "own"}, "data": {"a": "b"}});
        let created = editor
            .request(Method::POST, OBJECTS, client::JSON, Some(&object))
            .await;
        created.expect("a ConfigMap");
        Self {
            api,
            editor,
            administrator,
        }
    }

    /// Sends a request of the editor and returns the status code.
    async fn code(&self, method: Method, path: &str, content_type: &str, body: impl Into<Bytes>) -> u16 {
        let sent = self.editor.send(method, path, content_type, body.into()).await;
        match sent {
            Ok(_) => 200,
            Err(ClientError::Status { status, .. }) => status.code,
            Err(other) => panic!("expected a response: {other}"),
        }
    }

    /// Sends a patch of the editor and returns the status code. A dry run needs the same rights.
    async fn patch(&self, content_type: &str, patch: impl Into<Bytes>) -> u16 {
        let path = match content_type {
            client::APPLY_PATCH => format!("{OBJECT}?dryRun=All&fieldManager=ann&force=true"),
            _ => format!("{OBJECT}?dryRun=All"),
        };
        self.code(Method::PATCH, &path, content_type, patch).await
    }

    /// Expects that the server responds with the unchanged object, and that its memory stayed below the limit.
    async fn expect_survival(&self) {
        let own: Value = self
            .administrator
            .get(OBJECT)
            .await
            .expect("the ConfigMap of the editor");
        assert_eq!(own["data"], json!({"a": "b"}));
        let peak = self.api.peak_kib();
        assert!(peak < PEAK_KIB_MAX, "peak of the resident memory: {peak} KiB");
    }
}

/// Returns nested JSON objects.
fn nest(levels: usize) -> String {
    format!("{}{{}}{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}
