//! Ingresses.

use std::ops::Deref;

use serde_json::Value;

use super::fields::{list, port_number, text};
use crate::object::Object;

/// An Ingress.
#[derive(Clone, Copy, Debug)]
pub struct Ingress<'w>(pub &'w Object);

impl Deref for Ingress<'_> {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0
    }
}

/// Backend of an Ingress that names a Service.
#[derive(Clone, Debug)]
pub struct IngressBackend<'w> {
    /// Path of the backend, such as `spec.rules[0].http.paths[0].backend`.
    pub field: String,
    /// Name of the Service.
    pub service: &'w str,
    /// Port number.
    pub port_number: Option<u16>,
    /// Port name, or "".
    pub port_name: &'w str,
}

impl<'w> Ingress<'w> {
    /// Backends that name a Service.
    pub fn backends(self) -> Vec<IngressBackend<'w>> {
        let mut backends = Vec::new();
        backends.extend(read(
            "spec.defaultBackend".to_owned(),
            self.0.at("/spec/defaultBackend"),
        ));
        for (rule_index, rule) in self.0.list("/spec/rules").iter().enumerate() {
            for (path_index, path) in list(&rule["http"], "paths").iter().enumerate() {
                let field = format!("spec.rules[{rule_index}].http.paths[{path_index}].backend");
                backends.extend(read(field, &path["backend"]));
            }
        }
        backends
    }
}

fn read(field: String, backend: &Value) -> Option<IngressBackend<'_>> {
    let service = &backend["service"];
    Some(IngressBackend {
        field,
        service: service["name"].as_str()?,
        port_number: port_number(&service["port"], "number"),
        port_name: text(&service["port"], "name"),
    })
}
