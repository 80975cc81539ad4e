//! Rules of Ingresses and IngressClasses (`networking.k8s.io/v1`): defaults, preparation of writes, and validation, as
//! upstream.

mod class;
mod validate;

use serde_json::{Value, json};

use crate::kinds::apps::begin_generation;
use crate::kinds::ports::complete_port_status;
use crate::machinery::metadata;
use crate::machinery::tree::{
    as_object_mut, child, entries, is_set, items_mut, object_mut, omit_null, omit_zero, set, set_or_clear,
};

pub use class::{
    CONTROLLER, DEFAULT_CLASS_ANNOTATION, default_class_on_write, is_default_class, prepare_class_update,
    validate_class, validate_class_update,
};
pub use validate::{validate_ingress, validate_ingress_status_update, validate_ingress_update};

/// API group of Ingresses and IngressClasses.
pub const GROUP: &str = "networking.k8s.io";
/// Annotation with the class of an Ingress, which the field `spec.ingressClassName` replaces.
pub const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Drops empty fields of an Ingress.
pub fn default_ingress_on_write(ingress: &mut Value) {
    metadata::omit_empty(ingress);
    object_mut(ingress, "spec");
    if let Some(spec) = ingress.get_mut("spec") {
        omit_null(spec, &["ingressClassName", "defaultBackend"]);
        omit_zero(spec, &["tls", "rules"]);
        if let Some(backend) = spec.get_mut("defaultBackend") {
            default_backend(backend);
        }
        for tls in items_mut(spec, "tls") {
            omit_zero(tls, &["hosts", "secretName"]);
        }
        for rule in items_mut(spec, "rules") {
            omit_zero(rule, &["host"]);
            omit_null(rule, &["http"]);
            let Some(http) = rule.get_mut("http") else {
                continue;
            };
            for path in items_mut(http, "paths") {
                omit_zero(path, &["path"]);
                omit_null(path, &["pathType"]);
                object_mut(path, "backend");
                if let Some(backend) = path.get_mut("backend") {
                    default_backend(backend);
                }
            }
        }
    }
    let status = object_mut(ingress, "status");
    let balancer = status.entry("loadBalancer").or_insert(json!({}));
    as_object_mut(balancer);
    omit_zero(balancer, &["ingress"]);
    for address in items_mut(balancer, "ingress") {
        omit_zero(address, &["ip", "hostname", "ports"]);
        complete_port_status(address);
    }
}

fn default_backend(backend: &mut Value) {
    omit_null(backend, &["service", "resource"]);
    if let Some(service) = backend.get_mut("service") {
        if let Some(port) = service.get_mut("port") {
            omit_zero(port, &["name", "number"]);
        }
        omit_zero(service, &["port"]);
    }
}

/// Prepares a new Ingress: its status is empty.
pub fn prepare_ingress_create(ingress: &mut Value) {
    set(ingress, "status", json!({"loadBalancer": {}}));
}

/// Prepares an update: the status stays, and a changed spec increments the generation.
pub fn prepare_ingress_update(new: &mut Value, old: &Value) {
    set_or_clear(new, "status", old.get("status").cloned());
    if child(new, "spec") != child(old, "spec") {
        begin_generation(new, old);
    }
}

/// Returns the warnings about a new Ingress: the annotation of the class is deprecated, unless the field is set, too.
pub fn ingress_creation_warnings(ingress: &Value) -> Vec<String> {
    let has_annotation = !is_set(child(ingress, "spec"), "ingressClassName")
        && entries(child(ingress, "metadata"), "annotations").any(|(key, _)| key == CLASS_ANNOTATION);
    let warning = format!(
        "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
    );
    has_annotation.then_some(warning).into_iter().collect()
}

#[cfg(test)]
mod tests;
