//! Objects that refer to Services as destinations: Ingresses, routes of the Gateway API, webhooks and aggregated APIs.

use std::ops::Deref;

use serde_json::Value;

use super::fields::{list, port_number, text};
use crate::kind::Kind;
use crate::object::Object;

/// Port of webhooks and aggregated APIs that name none.
const HTTPS_PORT: u16 = 443;

/// An object with Services as backends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route<'w>(pub &'w Object);

impl Deref for Route<'_> {
    type Target = Object;

    fn deref(&self) -> &Object {
        self.0
    }
}

/// Backend that names a Service.
#[derive(Clone, Debug)]
pub(crate) struct Backend<'w> {
    /// Path of the name of the Service, such as `spec.rules[0].http.paths[0].backend.service.name`.
    pub name_field: String,
    /// Path of the port number.
    pub port_field: String,
    /// Path of the port name, if the kind has one.
    pub port_name_field: Option<String>,
    /// Namespace of the Service.
    pub namespace: &'w str,
    /// Name of the Service.
    pub service: &'w str,
    /// Port number.
    pub port_number: Option<u16>,
    /// Port name, or "".
    pub port_name: &'w str,
}

impl<'w> Route<'w> {
    /// Kinds of objects with backends.
    pub(crate) const KINDS: [Kind; 9] = [
        Kind::Ingress,
        Kind::HttpRoute,
        Kind::GrpcRoute,
        Kind::TcpRoute,
        Kind::TlsRoute,
        Kind::UdpRoute,
        Kind::ValidatingWebhookConfiguration,
        Kind::MutatingWebhookConfiguration,
        Kind::ApiService,
    ];

    /// Returns the backends that name a Service.
    pub(crate) fn backends(self) -> Vec<Backend<'w>> {
        match self.0.kind {
            Kind::Ingress => self.of_ingress(),
            Kind::ValidatingWebhookConfiguration | Kind::MutatingWebhookConfiguration => {
                let webhooks = self.0.list("/webhooks").iter().enumerate();
                let read = |(index, webhook): (usize, &'w Value)| {
                    let field = format!("webhooks[{index}].clientConfig.service");
                    of_api_server(field, &webhook["clientConfig"]["service"])
                };
                webhooks.filter_map(read).collect()
            }
            Kind::ApiService => of_api_server("spec.service".to_owned(), self.0.at("/spec/service"))
                .into_iter()
                .collect(),
            _ => self.of_gateway(),
        }
    }

    fn of_ingress(self) -> Vec<Backend<'w>> {
        let mut backends = Vec::new();
        let namespace = self.0.namespace.as_str();
        backends.extend(backend_of_path(
            "spec.defaultBackend",
            namespace,
            self.0.at("/spec/defaultBackend"),
        ));
        for (rule_index, rule) in self.0.list("/spec/rules").iter().enumerate() {
            for (path_index, path) in list(&rule["http"], "paths").iter().enumerate() {
                let field = format!("spec.rules[{rule_index}].http.paths[{path_index}].backend");
                backends.extend(backend_of_path(&field, namespace, &path["backend"]));
            }
        }
        backends
    }

    fn of_gateway(self) -> Vec<Backend<'w>> {
        let mut backends = Vec::new();
        for (rule_index, rule) in self.0.list("/spec/rules").iter().enumerate() {
            for (index, backend) in list(rule, "backendRefs").iter().enumerate() {
                let kind = (text(backend, "kind"), text(backend, "group"));
                if !matches!(kind, ("" | "Service", "")) {
                    continue;
                }
                let field = format!("spec.rules[{rule_index}].backendRefs[{index}]");
                let namespace = match text(backend, "namespace") {
                    "" => self.0.namespace.as_str(),
                    namespace => namespace,
                };
                backends.push(Backend {
                    name_field: format!("{field}.name"),
                    port_field: format!("{field}.port"),
                    port_name_field: None,
                    namespace,
                    service: text(backend, "name"),
                    port_number: port_number(backend, "port"),
                    port_name: "",
                });
            }
        }
        backends
    }
}

fn backend_of_path<'w>(field: &str, namespace: &'w str, backend: &'w Value) -> Option<Backend<'w>> {
    let service = &backend["service"];
    Some(Backend {
        name_field: format!("{field}.service.name"),
        port_field: format!("{field}.service.port.number"),
        port_name_field: Some(format!("{field}.service.port.name")),
        namespace,
        service: service["name"].as_str()?,
        port_number: port_number(&service["port"], "number"),
        port_name: text(&service["port"], "name"),
    })
}

/// Returns the Service that the API server calls.
fn of_api_server(field: String, service: &Value) -> Option<Backend<'_>> {
    Some(Backend {
        name_field: format!("{field}.name"),
        port_field: format!("{field}.port"),
        port_name_field: None,
        namespace: service["namespace"].as_str()?,
        service: service["name"].as_str()?,
        port_number: Some(port_number(service, "port").unwrap_or(HTTPS_PORT)),
        port_name: "",
    })
}
