//! EndpointSlices of backends. Pure.

use std::net::{IpAddr, SocketAddr};

use api::ip::Family;
use api::object::{EndpointSlice, Protocol, SERVICE_NAME_LABEL, Service, ServicePort};
use controllers::backends::{MANAGED_BY, PROBE_ANNOTATION};
use controllers::endpoint_slice::MANAGED_BY_LABEL;
use probe::definition::Probe;
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// Reason why a Service cannot have a backend.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BackendError {
    /// The Service selects Pods.
    #[error(
        "service {service:?} has a selector ({selector}), so its endpoints are Pods; create a Service without spec.selector \
         for other backends"
    )]
    Selector {
        /// Name of the Service.
        service: String,
        /// Selector of the Service.
        selector: String,
    },
    /// The Service is a CNAME record.
    #[error("service {service:?} has type ExternalName and no endpoints; create a Service of type ClusterIP")]
    ExternalName {
        /// Name of the Service.
        service: String,
    },
    /// The Service has no cluster IP of the backend's IP family.
    #[error(
        "service {service:?} has no {family} cluster IP, so {address} would get no traffic: its spec.ipFamilies is \
         [{families}]; for both families set spec.ipFamilyPolicy: PreferDualStack"
    )]
    Family {
        /// Name of the Service.
        service: String,
        /// IP family of the backend.
        family: &'static str,
        /// Address of the backend.
        address: IpAddr,
        /// IP families of the Service.
        families: String,
    },
    /// The Service has several ports and none is named.
    #[error("service {service:?} has several ports; name one with --port: {known}")]
    WhichPort {
        /// Name of the Service.
        service: String,
        /// Names of its ports.
        known: String,
    },
    /// The Service has no port of the name.
    #[error("--port: service {service:?} has no port named {name:?}; it has {known}")]
    NoSuchPort {
        /// Name of the Service.
        service: String,
        /// Name of the flag.
        name: String,
        /// Names of its ports.
        known: String,
    },
}

/// Backend in an EndpointSlice.
pub(super) struct Backend {
    /// Address and port.
    pub address: SocketAddr,
    /// Condition `ready` of the endpoint.
    pub is_ready: Option<bool>,
}

/// Returns the backends of an EndpointSlice.
pub(super) fn backends(slice: &EndpointSlice) -> impl Iterator<Item = Backend> {
    let port = slice.ports.first().and_then(|port| port.port).unwrap_or(0);
    slice.endpoints.iter().filter_map(move |endpoint| {
        let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
        Some(Backend {
            address: SocketAddr::new(address, port),
            is_ready: endpoint.conditions.ready,
        })
    })
}

/// Returns the Service port of a backend; `None` for a headless Service without ports.
///
/// # Errors
///
/// [`BackendError`] if the Service cannot have the backend, or the port is ambiguous.
pub(super) fn port_of<'a>(
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
    let family = Family::of(address).name();
    if !spec.is_headless() && !spec.ip_families.iter().any(|one| one == family) {
        let families = spec.ip_families.join(", ");
        return Err(BackendError::Family {
            service,
            family,
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
        // A headless Service may have no ports.
        (None, []) => Ok(None),
        (None, [port]) => Ok(Some(port)),
        (None, _) => Err(BackendError::WhichPort {
            service,
            known: known(),
        }),
    }
}

/// Returns the EndpointSlice of a backend. With a probe it is not ready until the first success.
///
/// # Errors
///
/// [`serde_json::Error`] if the probe cannot be encoded.
pub(super) fn slice(
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
            // Without a probe, null removes the annotation in a merge patch.
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

/// Returns the default name of an EndpointSlice, unique for address, port and Service port.
pub(super) fn name_of(service: &str, address: SocketAddr, port: Option<&ServicePort>) -> String {
    let address_part = address.ip().to_string().replace(['.', ':'], "-");
    let port_name = port.map_or("", |port| port.name.as_str());
    let port_part = if port_name.is_empty() {
        String::new()
    } else {
        format!("{port_name}-")
    };
    format!("{service}-{port_part}{address_part}-{}", address.port())
}

/// Renders a table with aligned columns.
pub(super) fn aligned_table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
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
