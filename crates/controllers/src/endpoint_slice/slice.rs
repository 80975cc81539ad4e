//! Metadata, families and keys of slices.

use api::object::{
    AddressType, Endpoint, EndpointPort, EndpointSlice, Labels, ObjectMeta, OwnerReference,
    SERVICE_NAME_LABEL, Service,
};

use super::inputs::Inputs;
use super::{HEADLESS_LABEL, MANAGED_BY, MANAGED_BY_LABEL};

/// Returns an empty slice of the Service.
pub(super) fn new_slice(inputs: &Inputs<'_>, family: AddressType, ports: Vec<EndpointPort>) -> EndpointSlice {
    let service = &inputs.service.metadata;
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: format!("{}-", service.name),
            namespace: service.namespace.clone(),
            labels: labels_of(inputs.service),
            owner_references: vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Service".to_owned(),
                name: service.name.clone(),
                uid: service.uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }],
            ..ObjectMeta::default()
        },
        address_type: family,
        endpoints: Vec::new(),
        ports,
    }
}

/// Returns the metadata of a slice that receives new contents.
pub(super) fn merged_metadata(old: &EndpointSlice, desired: &EndpointSlice) -> ObjectMeta {
    ObjectMeta {
        labels: desired.metadata.labels.clone(),
        ..old.metadata.clone()
    }
}

/// Returns the labels of the Service without reserved ones, and the labels of this controller (EPS-03).
pub(super) fn labels_of(service: &Service) -> Labels {
    let reserved = [SERVICE_NAME_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL];
    let mut labels = service.metadata.labels.clone();
    labels.retain(|key, _| !reserved.contains(&key.as_str()));
    labels.insert(SERVICE_NAME_LABEL.to_owned(), service.metadata.name.clone());
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    if service.spec.is_headless() {
        labels.insert(HEADLESS_LABEL.to_owned(), String::new());
    }
    labels
}

/// Returns true if the Service is the controller of the slice.
pub(super) fn is_owned(slice: &EndpointSlice, service: &Service) -> bool {
    slice
        .metadata
        .controller()
        .is_some_and(|owner| owner.kind == "Service" && owner.uid == service.metadata.uid)
}

/// Returns the address families of a Service's slices (EPS-01).
pub(crate) fn address_types(service: &Service) -> Vec<AddressType> {
    let of = |family: &String| {
        if family == "IPv6" {
            AddressType::IPv6
        } else {
            AddressType::IPv4
        }
    };
    if !service.spec.ip_families.is_empty() {
        return service.spec.ip_families.iter().map(of).collect();
    }
    // Objects from before dual stack have no families; the cluster IP decides.
    let is_v6 = service.spec.cluster_ip.contains(':');
    vec![if is_v6 {
        AddressType::IPv6
    } else {
        AddressType::IPv4
    }]
}

/// Returns the identity of an endpoint, independent of its conditions.
pub(super) fn identity(endpoint: &Endpoint) -> String {
    let target = endpoint.target_ref.as_ref();
    format!(
        "{}|{}|{}",
        target.map_or("", |reference| &*reference.uid),
        target.map_or("", |reference| &*reference.name),
        endpoint.addresses.join(",")
    )
}

/// Returns a port set as a map key, independent of the order of ports (EPS-09).
pub(crate) fn ports_key(ports: &[EndpointPort]) -> String {
    let mut keys: Vec<String> = ports
        .iter()
        .map(|port| {
            let protocol = port.protocol.unwrap_or_default().as_str();
            let (name, app) = (
                port.name.as_deref().unwrap_or(""),
                port.app_protocol.as_deref().unwrap_or(""),
            );
            format!("{name}/{protocol}/{:?}/{app}", port.port)
        })
        .collect();
    keys.sort_unstable();
    keys.join(",")
}
