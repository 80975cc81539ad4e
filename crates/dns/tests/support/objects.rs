//! Objects of the namespace `ns`.

use api::object::{Endpoint, EndpointSlice, SERVICE_NAME_LABEL, Service, ServicePort};

/// A Service with one cluster IP, or `None` for a headless one, and without ports.
pub(crate) fn service(name: &str, cluster_ip: &str) -> Service {
    let mut service = Service::default();
    service.metadata.name = name.to_owned();
    service.metadata.namespace = "ns".to_owned();
    service.spec.cluster_ip = cluster_ip.to_owned();
    service
}

/// An ExternalName Service.
pub(crate) fn alias(name: &str, of: &str) -> Service {
    let mut alias = service(name, "");
    alias.spec.kind = "ExternalName".to_owned();
    alias.spec.external_name = of.to_owned();
    alias
}

/// Port 80 with the name `http`.
pub(crate) fn http() -> ServicePort {
    ServicePort {
        name: "http".to_owned(),
        port: 80,
        ..ServicePort::default()
    }
}

/// Slice of a Service with that many endpoints: 10.1.0.0, 10.1.0.1 and so on.
pub(crate) fn slice(service: &str, endpoints: u8) -> EndpointSlice {
    let mut slice = EndpointSlice::default();
    slice.metadata.name = format!("{service}-1");
    slice.metadata.namespace = "ns".to_owned();
    let label = (SERVICE_NAME_LABEL.to_owned(), service.to_owned());
    slice.metadata.labels.extend([label]);
    slice.endpoints = (0..endpoints)
        .map(|last| Endpoint {
            addresses: vec![format!("10.1.0.{last}").into()],
            ..Endpoint::default()
        })
        .collect();
    slice
}
