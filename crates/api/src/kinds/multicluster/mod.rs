//! Rules of ServiceExports and ServiceImports (`multicluster.x-k8s.io`, KEP-1645), and the names that the clusters of a
//! set share.
//!
//! The versions v1beta1 and v1alpha1 have the same fields. Objects are stored in v1beta1.

mod import;
mod status;

use serde_json::{Value, json};

use crate::kinds::condition::default_conditions;
use crate::machinery::field::FieldErrors;
use crate::machinery::metadata::{self, NameForm};
use crate::machinery::tree::{child, number, object_mut, omit_zero, set, set_or_clear};

pub use import::{default_import_on_write, validate_import, validate_import_update};

/// API group.
pub const GROUP: &str = "multicluster.x-k8s.io";
/// Version of the stored objects.
pub const VERSION: &str = "v1beta1";
/// Version for earlier clients.
pub const EARLIER_VERSION: &str = "v1alpha1";

/// Label of an EndpointSlice with the name of its ServiceImport, and of the derived Service.
pub const SERVICE_NAME_LABEL: &str = "multicluster.kubernetes.io/service-name";
/// Label of an EndpointSlice with the cluster of its endpoints.
pub const SOURCE_CLUSTER_LABEL: &str = "multicluster.kubernetes.io/source-cluster";

/// Returns an object in another version of the group.
pub fn in_version(mut object: Value, version: &str) -> Value {
    set(&mut object, "apiVersion", format!("{GROUP}/{version}"));
    object
}

/// Sets the defaults of a ServiceExport and drops empty fields.
pub fn default_export_on_write(export: &mut Value) {
    metadata::omit_empty(export);
    if let Some(spec) = export.get_mut("spec") {
        omit_zero(spec, &["exportedLabels", "exportedAnnotations"]);
    }
    default_status(export);
}

fn default_status(object: &mut Value) {
    if let Some(status) = object.get_mut("status").filter(|status| status.is_object()) {
        default_conditions(status);
    }
}

/// Prepares a new object: only its controller writes the status.
pub fn prepare_create(object: &mut Value) {
    set_or_clear(object, "status", None);
}

/// Prepares an update: the status stays, and a changed spec increments the generation.
pub fn prepare_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "status", old.get("status").cloned());
    if child(new, "spec") != child(old, "spec") {
        let generation = number(child(old, "metadata"), "generation");
        object_mut(new, "metadata").insert("generation".to_owned(), json!(generation + 1));
    }
}

/// Validates a new ServiceExport. Its name is that of a Service.
pub fn validate_export(export: &Value) -> FieldErrors {
    metadata::validate(export, NameForm::DnsSubdomain, true)
}

/// Validates an update of a ServiceExport.
pub fn validate_export_update(new: &Value, old: &Value) -> FieldErrors {
    metadata::validate_update(new, old)
}

/// Validates an update of the status of a ServiceExport.
pub fn validate_export_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    status::validate_conditions(&mut errors, child(new, "status"));
    errors
}

/// Validates an update of the status of a ServiceImport.
pub fn validate_import_status_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    let status = child(new, "status");
    status::validate_conditions(&mut errors, status);
    status::validate_clusters(&mut errors, status);
    errors
}

#[cfg(test)]
mod tests;
