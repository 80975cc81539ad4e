//! Defaults of ServiceAccounts.

use serde_json::{Value, json};

use crate::machinery::metadata;
use crate::machinery::tree::{child, is_set, items_mut, omit_zero, text};

/// Annotation that restricts Pods to the Secrets of their ServiceAccount.
const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// Drops empty fields.
pub fn default_service_account_on_write(service_account: &mut Value) {
    metadata::omit_empty(service_account);
    omit_zero(service_account, &["secrets", "imagePullSecrets"]);
}

/// Prepares a write: references to Secrets have names only (upstream's `cleanSecretReferences`).
pub fn prepare_service_account(service_account: &mut Value) {
    for secret in items_mut(service_account, "secrets") {
        *secret = match text(secret, "name") {
            "" => json!({}),
            name => json!({ "name": name }),
        };
    }
}

/// Returns the warning about a deprecated annotation of a new ServiceAccount.
pub fn service_account_creation_warnings(service_account: &Value) -> Vec<String> {
    if !has_deprecated_annotation(service_account) {
        return Vec::new();
    }
    vec![format!(
        "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate \
         access to mounted secrets"
    )]
}

/// Returns the warning about a deprecated annotation that an update adds.
pub fn service_account_update_warnings(new: &Value, old: &Value) -> Vec<String> {
    if has_deprecated_annotation(old) {
        return Vec::new();
    }
    service_account_creation_warnings(new)
}

fn has_deprecated_annotation(service_account: &Value) -> bool {
    let annotations = child(child(service_account, "metadata"), "annotations");
    is_set(annotations, ENFORCE_MOUNTABLE_SECRETS)
}
