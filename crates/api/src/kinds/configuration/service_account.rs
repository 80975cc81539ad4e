//! Defaults of ServiceAccounts.

use serde_json::Value;

use crate::machinery::metadata;
use crate::machinery::tree::omit_zero;

/// Drops empty fields.
pub fn default_service_account_on_write(service_account: &mut Value) {
    metadata::omit_empty(service_account);
    omit_zero(service_account, &["secrets", "imagePullSecrets"]);
}
