//! Defaults, preparation of updates and validation of IngressClasses.

use serde_json::{Value, json};

use super::validate::validate_reference;
use crate::kinds::apps::begin_generation;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::{self, NameForm, push_faults};
use crate::machinery::names;
use crate::machinery::tree::{child, entries, is_set, object_mut, omit_null, omit_zero, text, text_if_set};

/// Controller of the classes that Portolan serves.
pub const CONTROLLER: &str = "portolan.dev/ingress";
/// Annotation of the class of new Ingresses without a class.
pub const DEFAULT_CLASS_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

/// Longest name of a controller.
const CONTROLLER_BYTES_MAX: usize = 250;
const SCOPES: [&str; 2] = ["Cluster", "Namespace"];
const PATH_FORM: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";

/// Returns true if the class is a default one.
pub fn is_default_class(class: &Value) -> bool {
    entries(child(class, "metadata"), "annotations")
        .any(|(key, value)| key == DEFAULT_CLASS_ANNOTATION && value == "true")
}

/// Sets defaults and drops empty fields.
pub fn default_class_on_write(class: &mut Value) {
    metadata::omit_empty(class);
    object_mut(class, "spec");
    let Some(spec) = class.get_mut("spec") else { return };
    omit_zero(spec, &["controller"]);
    omit_null(spec, &["parameters"]);
    if let Some(parameters) = spec.get_mut("parameters") {
        omit_null(parameters, &["apiGroup", "scope", "namespace"]);
        if let Some(fields) = parameters.as_object_mut() {
            fields.entry("scope").or_insert(json!("Cluster"));
        }
    }
}

/// Prepares an update: a changed spec increments the generation.
pub fn prepare_class_update(new: &mut Value, old: &Value) {
    if child(new, "spec") != child(old, "spec") {
        begin_generation(new, old);
    }
}

/// Validates a new class.
pub fn validate_class(class: &Value) -> FieldErrors {
    let mut errors = metadata::validate(class, NameForm::DnsSubdomain, false);
    validate_spec(&mut errors, child(class, "spec"));
    errors
}

/// Validates an update. The controller is immutable. Upstream validates the rest once more as that of a new object.
pub fn validate_class_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = metadata::validate_update(new, old);
    let controller = |class| text(child(class, "spec"), "controller");
    if controller(new) != controller(old) {
        let path = Path::new("spec").child("controller");
        errors.push(FieldError::invalid(&path, controller(new), "field is immutable"));
    }
    errors.extend(validate_class(new));
    errors
}

fn validate_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = Path::new("spec");
    validate_controller(errors, text(spec, "controller"), &path.child("controller"));
    if is_set(spec, "parameters") {
        validate_parameters(errors, child(spec, "parameters"), &path.child("parameters"));
    }
}

fn validate_controller(errors: &mut FieldErrors, controller: &str, path: &Path) {
    if controller.len() > CONTROLLER_BYTES_MAX {
        errors.push(FieldError::too_long(path, CONTROLLER_BYTES_MAX));
    }
    if controller.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let parts = controller.split_once('/');
    let Some((domain, rest)) = parts.filter(|(domain, rest)| !domain.is_empty() && !rest.is_empty()) else {
        let fault = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(path, controller, fault));
        return;
    };
    push_faults(errors, path, domain, names::dns_subdomain(domain));
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !rest.bytes().all(is_valid) {
        let fault = format!("Invalid path (regex used for validation is '{PATH_FORM}')");
        errors.push(FieldError::invalid(path, rest, fault));
    }
}

fn validate_parameters(errors: &mut FieldErrors, parameters: &Value, path: &Path) {
    validate_reference(errors, parameters, path);
    let namespace = text_if_set(parameters, "namespace");
    let namespace_path = path.child("namespace");
    match (text_if_set(parameters, "scope"), namespace) {
        (None, _) => errors.push(FieldError::required(&path.child("scope"), "")),
        (Some("Namespace"), None) => {
            let detail = "`parameters.scope` is set to 'Namespace'";
            errors.push(FieldError::required(&namespace_path, detail));
        }
        (Some("Namespace"), Some(namespace)) => {
            push_faults(errors, &namespace_path, namespace, names::dns_label(namespace));
        }
        (Some("Cluster"), Some(_)) => {
            let detail = "`parameters.scope` is set to 'Cluster'";
            errors.push(FieldError::forbidden(&namespace_path, detail));
        }
        (Some("Cluster"), None) => {}
        (Some(scope), _) => errors.push(FieldError::not_supported(&path.child("scope"), scope, &SCOPES)),
    }
}
