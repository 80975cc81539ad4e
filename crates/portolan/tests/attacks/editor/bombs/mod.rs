//! Requests that are small and cause much memory, depth or work: each ends in a refusal, and the server goes on.

mod bodies;
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
/// The largest body that the server reads.
const BODY_BYTES_MAX: usize = 3 << 20;
/// Memory that the server may have had at any time: a few requests of the largest size, read into trees.
const PEAK_KIB_MAX: u64 = 768 << 10;

/// A server, and the editor of the namespace `default`, who has an object there.
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
        bound.expect("a role");
        let editor = access::with_certificate(&api, "ann", "");
        let object = json!({"metadata": {"name": "own"}, "data": {"a": "b"}});
        let created = editor
            .request(Method::POST, OBJECTS, client::JSON, Some(&object))
            .await;
        created.expect("an object");
        Self {
            api,
            editor,
            administrator,
        }
    }

    /// The code of the answer to a request of the editor.
    async fn code(&self, method: Method, path: &str, content_type: &str, body: impl Into<Bytes>) -> u16 {
        let sent = self.editor.send(method, path, content_type, body.into()).await;
        match sent {
            Ok(_) => 200,
            Err(ClientError::Status { status, .. }) => status.code,
            Err(other) => panic!("the server did not answer: {other}"),
        }
    }

    /// The code of the answer to a patch. A dry run needs no other right.
    async fn patch(&self, content_type: &str, patch: impl Into<Bytes>) -> u16 {
        let path = match content_type {
            client::APPLY_PATCH => format!("{OBJECT}?dryRun=All&fieldManager=ann&force=true"),
            _ => format!("{OBJECT}?dryRun=All"),
        };
        self.code(Method::PATCH, &path, content_type, patch).await
    }

    /// Expects that the process lives, answers, has the object unchanged and has never had too much memory.
    async fn expect_survival(&self) {
        let own: Value = self
            .administrator
            .get(OBJECT)
            .await
            .expect("a server that goes on");
        assert_eq!(own["data"], json!({"a": "b"}));
        let peak = self.api.peak_kib();
        assert!(peak < PEAK_KIB_MAX, "the server has had {peak} KiB");
    }
}

/// Objects in each other, as JSON.
fn nest(levels: usize) -> String {
    format!("{}{{}}{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}
