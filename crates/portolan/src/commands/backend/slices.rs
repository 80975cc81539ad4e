//! Backends in slices, and the slice of a backend. Pure.

use std::net::{IpAddr, SocketAddr};

use api::ip::Family;
use api::object::{EndpointSlice, Protocol, SERVICE_NAME_LABEL, Service, ServicePort};
use controllers::backends::{MANAGED_BY, PROBE_ANNOTATION};
use controllers::endpointslice::MANAGED_BY_LABEL;
use probe::definition::Probe;
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// Why an address cannot be put behind a Service.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// Its endpoints are Pods.
    #[error(
        "service {service:?} has a selector ({selector}), so its endpoints are the Pods that match; make a Service \
         without spec.selector for addresses that are no Pods"
    )]
    Selector {
        /// The Service.
        service: String,
        /// What it selects.
        selector: String,
    },
    /// It is only a name.
    #[error(
        "service {service:?} is of type ExternalName: it has no endpoints; make a Service of type ClusterIP"
    )]
    ExternalName {
        /// The Service.
        service: String,
    },
    /// It has no address of that family.
    #[error(
        "service {service:?} has no {wanted} address, for which nobody would reach {address}: its spec.ipFamilies is \
         [{families}]; a Service of both families has spec.ipFamilyPolicy: PreferDualStack"
    )]
    Family {
        /// The Service.
        service: String,
        /// The family that is missing.
        wanted: &'static str,
        /// The backend.
        address: IpAddr,
        /// What it has.
        families: String,
    },
    /// Several ports, and none is named.
    #[error("service {service:?} has several ports; say with --port which of them this is: {known}")]
    WhichPort {
        /// The Service.
        service: String,
        /// Their names.
        known: String,
    },
    /// No such port.
    #[error("--port: service {service:?} has no port named {name:?}; it has {known}")]
    NoSuchPort {
        /// The Service.
        service: String,
        /// What was asked for.
        name: String,
        /// Their names.
        known: String,
    },
}

/// A backend as a slice has it.
pub struct Backend {
    /// Where it is.
    pub address: SocketAddr,
    /// What the slice says.
    pub is_ready: Option<bool>,
}

/// The backends of a slice.
pub fn backends(slice: &EndpointSlice) -> impl Iterator<Item = Backend> {
    let port = slice.ports.first().and_then(|port| port.port).unwrap_or(0);
    slice.endpoints.iter().filter_map(move |endpoint| {
        let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
        Some(Backend {
            address: SocketAddr::new(address, port),
            is_ready: endpoint.conditions.ready,
        })
    })
}

/// The port of the Service that a backend is to serve.
pub fn port_of<'a>(
    service: &'a Service,
    address: IpAddr,
    name: Option<&str>,
) -> Result<Option<&'a ServicePort>, BackendError> {
    let (spec, service) = (&service.spec, service.metadata.name.clone());
    if spec.kind == "ExternalName" {
        return Err(BackendError::ExternalName { service });
    }
    if !spec.selector.is_empty() {
        let pairs = spec.selector.iter().map(|(key, value)| format!("{key}={value}"));
        let selector = pairs.collect::<Vec<_>>().join(",");
        return Err(BackendError::Selector { service, selector });
    }
    let wanted = Family::of(address).name();
    if !spec.is_headless() && !spec.ip_families.iter().any(|family| family == wanted) {
        let families = spec.ip_families.join(", ");
        return Err(BackendError::Family {
            service,
            wanted,
            address,
            families,
        });
    }
    let known = || {
        let names = spec.ports.iter().map(|port| match port.name.as_str() {
            "" => "<unset>",
            name => name,
        });
        names.collect::<Vec<_>>().join(", ")
    };
    match (name, spec.ports.as_slice()) {
        (Some(name), ports) => match ports.iter().find(|port| port.name == name) {
            Some(port) => Ok(Some(port)),
            None => Err(BackendError::NoSuchPort {
                service,
                name: name.to_owned(),
                known: known(),
            }),
        },
        // A headless Service may have none.
        (None, []) => Ok(None),
        (None, [port]) => Ok(Some(port)),
        (None, _) => Err(BackendError::WhichPort {
            service,
            known: known(),
        }),
    }
}

/// The slice with one backend. One that is checked takes no traffic until it has answered.
pub fn slice(
    service: &Service,
    name: &str,
    address: SocketAddr,
    port: Option<&ServicePort>,
    probe: Option<&Probe>,
) -> Result<Value, serde_json::Error> {
    let protocol = port.map_or(Protocol::Tcp, |port| port.protocol);
    let is_checked = probe.is_some();
    let annotation = probe.map(serde_json::to_string).transpose()?;
    let meta = &service.metadata;
    let mut served = json!({
        "name": port.map_or("", |port| port.name.as_str()),
        "protocol": protocol.as_str(),
        "port": address.port(),
    });
    if let Some(app_protocol) = port.and_then(|port| port.app_protocol.as_deref()) {
        served["appProtocol"] = app_protocol.into();
    }
    Ok(json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": meta.namespace,
            "labels": {SERVICE_NAME_LABEL: meta.name, MANAGED_BY_LABEL: MANAGED_BY},
            // Null where there is none, so that merging takes away what was there.
            "annotations": {PROBE_ANNOTATION: annotation},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": meta.name, "uid": meta.uid}],
        },
        "addressType": Family::of(address.ip()).name(),
        "endpoints": [{
            "addresses": [address.ip().to_string()],
            "conditions": {"ready": !is_checked, "serving": !is_checked, "terminating": false},
        }],
        "ports": [served],
    }))
}

/// The name of a backend's slice if none is given: another one for each address, port, and port of the Service.
pub fn name_of(service: &str, address: SocketAddr, port: Option<&ServicePort>) -> String {
    let address_part = address.ip().to_string().replace(['.', ':'], "-");
    let port_name = port.map_or("", |port| port.name.as_str());
    let port_part = if port_name.is_empty() {
        String::new()
    } else {
        format!("{port_name}-")
    };
    format!("{service}-{port_part}{address_part}-{}", address.port())
}

/// A table, with columns as wide as they need to be.
pub fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("   ").trim_end());
        text.push('\n');
    }
    text
}
