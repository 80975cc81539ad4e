//! Entry points of the fuzz targets: request lines, encrypted values and audit policies.

use api::decode::Format;
use api::rbac::Action;
use http::HeaderMap;

use crate::access::audit::{AuditPolicy, Subject};
use crate::access::authentication::Identity;
use crate::request::query::{DeleteOptions, ListOptions, Query, WriteOptions};
use crate::request::route::{Route, route};

/// Parses a path with its query as the router and all verbs do.
pub fn request_line(text: &str) {
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    if let Route::Resource(target) = route(path) {
        let key = target.key();
        assert!(
            key.starts_with('/'),
            "expected a store key with a leading slash, found {key:?}"
        );
    }
    let (query, headers) = (Query::parse(query), HeaderMap::new());
    ListOptions::read(&query).ok();
    WriteOptions::read(&query, &headers, "CreateOptions").ok();
    WriteOptions::read_patch(&query, &headers, true).ok();
    DeleteOptions::read(&query, &[], Format::Json).ok();
}

/// Reads an encryption configuration, and decrypts a stored value of the Secret `default/a` with it.
pub fn encrypted_value(configuration: &[u8], stored: bytes::Bytes) {
    crate::registry::encryption::fuzz(configuration, "/secrets/default/a", stored);
}

/// Reads an audit policy, and decides about requests with and without a user.
pub fn audit_policy(text: &str) {
    let Ok(policy) = AuditPolicy::read(text) else {
        return;
    };
    let user = Identity {
        user: "ann".to_owned(),
        groups: vec!["staff".to_owned()],
        ..Identity::default()
    };
    let actions = [
        Action::Path {
            verb: "get",
            path: "/healthz/ping",
        },
        Action::Resource {
            verb: "get",
            group: "",
            resource: "pods",
            subresource: "log",
            name: "p",
        },
        Action::Resource {
            verb: "list",
            group: "apps",
            resource: "deployments",
            subresource: "",
            name: "",
        },
    ];
    for action in &actions {
        for user in [Some(&user), None] {
            policy.decide(&Subject {
                user,
                namespace: "n",
                action,
            });
        }
    }
}
