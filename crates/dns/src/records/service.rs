//! Data of Services and EndpointSlices that the index keeps: only the fields that answers need.

use std::borrow::Borrow;
use std::net::IpAddr;
use std::sync::Arc;

use api::multicluster;
use api::object::{AddressType, EndpointSlice, ObjectKey, Protocol, Service, ServiceImport};

use super::{Settings, ZoneKind};
use crate::wire::{Name, NameError};

/// Name and namespace of a Service as two labels in wire form and lower case, as in every name below the Service. A
/// part of the query name is the key, so a lookup copies nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ServiceKey(Arc<[u8]>);

impl ServiceKey {
    pub(super) fn new(key: &ObjectKey) -> Result<Self, NameError> {
        let mut name = Name::ROOT;
        name.push_label(key.name.as_bytes())?;
        name.push_label(key.namespace.as_bytes())?;
        let wire = name.to_lower();
        Ok(Self(wire.as_wire().strip_suffix(&[0]).unwrap_or_default().into()))
    }

    /// Returns the key for two labels in wire form and lower case; `None` for other input.
    pub(super) fn from_labels(labels: &[u8]) -> Option<Self> {
        let mut name = Name::ROOT;
        name.push_wire(labels).ok()?;
        let is_key =
            name.labels().count() == 2 && name.to_lower().as_wire().strip_suffix(&[0]) == Some(labels);
        is_key.then(|| Self(labels.into()))
    }

    /// Returns the two labels.
    pub(super) fn labels(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for ServiceKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// A Service and its slices. Slices may arrive before their Service.
#[derive(Debug, Default)]
pub(super) struct ServiceEntry {
    pub(super) service: Option<ServiceData>,
    pub(super) slices: Vec<Slice>,
}

impl ServiceEntry {
    /// Returns true if endpoints that are not ready have names too (DNS-03).
    pub(super) fn publishes_not_ready(&self) -> bool {
        self.service
            .as_ref()
            .is_some_and(|service| service.publish_not_ready)
    }

    /// Returns true if any endpoint has a name.
    pub(super) fn has_published_endpoint(&self) -> bool {
        let with_not_ready = self.publishes_not_ready();
        let mut endpoints = self.slices.iter().flat_map(Slice::endpoints);
        endpoints.any(|endpoint| endpoint.is_published(with_not_ready))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty()
    }
}

/// Data of a Service.
#[derive(Debug)]
pub(super) struct ServiceData {
    pub(super) kind: ServiceKind,
    /// Never empty.
    pub(super) ports: Box<[Port]>,
    pub(super) publish_not_ready: bool,
}

/// Kinds of Services that differ in DNS.
#[derive(Debug)]
pub(super) enum ServiceKind {
    /// Cluster IPs, one per IP family (DNS-05).
    ClusterIp(Box<[IpAddr]>),
    /// Headless: answers contain the endpoints (DNS-08).
    Headless,
    /// ExternalName (DNS-12); `None` if the target is an address (DNS-21) or no valid name.
    External(Option<Box<[u8]>>),
}

impl ServiceData {
    pub(super) fn from_service(service: &Service) -> Self {
        let spec = &service.spec;
        let kind = if spec.kind == "ExternalName" {
            ServiceKind::External(external_target(&spec.external_name))
        } else if spec.is_headless() {
            ServiceKind::Headless
        } else {
            let primary = std::slice::from_ref(&spec.cluster_ip);
            let texts = if spec.cluster_ips.is_empty() {
                primary
            } else {
                &spec.cluster_ips
            };
            ServiceKind::ClusterIp(texts.iter().filter_map(|text| text.parse().ok()).collect())
        };
        let ports = spec.ports.iter().map(|port| Port {
            name: port.name.as_str().into(),
            protocol: Some(port.protocol),
            number: Some(port.port),
        });
        Self {
            kind,
            ports: or_all_ports(ports.collect()),
            publish_not_ready: spec.publish_not_ready_addresses,
        }
    }

    /// Converts an import. The zone of the set serves clusterset IPs as the zone of the cluster serves cluster IPs.
    pub(super) fn from_import(import: &ServiceImport) -> Self {
        let spec = &import.spec;
        let kind = if spec.is_headless() {
            ServiceKind::Headless
        } else {
            ServiceKind::ClusterIp(spec.ips.iter().filter_map(|text| text.parse().ok()).collect())
        };
        let ports = spec.ports.iter().map(|port| Port {
            name: port.name.as_str().into(),
            protocol: Some(port.protocol),
            number: Some(port.port),
        });
        Self {
            kind,
            ports: or_all_ports(ports.collect()),
            publish_not_ready: false,
        }
    }

    /// Returns the addresses whose PTR record is the name of the Service (DNS-07).
    pub(super) fn cluster_ips(&self) -> &[IpAddr] {
        match &self.kind {
            ServiceKind::ClusterIp(addresses) => addresses,
            ServiceKind::Headless | ServiceKind::External(_) => &[],
        }
    }
}

/// A port of a Service or of a slice.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) name: Box<str>,
    pub(super) protocol: Option<Protocol>,
    /// Port number; without one there is no SRV record, but address records exist (DNS-20).
    pub(super) number: Option<u16>,
}

/// Replaces an empty list of ports by one entry for all ports, so that every list has an entry.
fn or_all_ports(ports: Box<[Port]>) -> Box<[Port]> {
    if ports.is_empty() {
        Box::new([Port {
            name: "".into(),
            protocol: None,
            number: None,
        }])
    } else {
        ports
    }
}

/// Returns the Service of a slice, or its ServiceImport in the zone of a set.
pub(super) fn owner_of(slice: &EndpointSlice, zone: ZoneKind) -> Option<&str> {
    match zone {
        ZoneKind::Cluster => slice.service_name(),
        ZoneKind::ClusterSet => {
            let labels = &slice.metadata.labels;
            let has_cluster = labels.contains_key(multicluster::SOURCE_CLUSTER_LABEL);
            let name = labels.get(multicluster::SERVICE_NAME_LABEL).map(String::as_str);
            name.filter(|name| has_cluster && !name.is_empty())
        }
    }
}

/// Endpoints of one slice.
#[derive(Debug)]
pub(super) struct Slice {
    /// Name of the slice.
    pub(super) name: Box<str>,
    /// Never empty.
    pub(super) ports: Box<[Port]>,
    /// Cluster of the endpoints, a label in wire form and lower case; empty in the zone of the cluster.
    cluster: Box<[u8]>,
    /// Sorted by [`Endpoint::order`].
    endpoints: Box<[Endpoint]>,
}

/// One address of an endpoint.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) address: IpAddr,
    pub(super) ready: bool,
    /// Host name in lower case; without one, the name is the address (DNS-02).
    pub(super) hostname: Option<Arc<str>>,
}

impl Slice {
    /// Converts a slice. A slice with address type FQDN has no endpoints in DNS.
    pub(super) fn from_object(slice: &EndpointSlice, settings: &Settings) -> Self {
        let with_pod_names = settings.endpoint_pod_names;
        let mut endpoints = Vec::with_capacity(slice.endpoints.len());
        if slice.address_type != AddressType::Fqdn {
            for endpoint in &slice.endpoints {
                let pod_name = endpoint
                    .target_ref
                    .as_ref()
                    .filter(|target| with_pod_names && !target.name.is_empty())
                    .map(|target| &*target.name);
                let name = endpoint.hostname.as_deref().filter(|name| !name.is_empty());
                let hostname = name.or(pod_name).and_then(hostname_label);
                let ready = endpoint.conditions.ready.unwrap_or(true);
                let addresses = endpoint.addresses.iter().filter_map(|text| text.parse().ok());
                endpoints.extend(addresses.map(|address| Endpoint {
                    address,
                    ready,
                    hostname: hostname.clone(),
                }));
            }
        }
        let ports = slice.ports.iter().map(|port| Port {
            name: port.name.as_deref().unwrap_or_default().into(),
            protocol: port.protocol,
            number: port.port,
        });
        Self {
            cluster: match settings.kind {
                ZoneKind::Cluster => Box::default(),
                ZoneKind::ClusterSet => cluster_label(slice),
            },
            ..Self::from_parts(&slice.metadata.name, or_all_ports(ports.collect()), endpoints)
        }
    }

    /// Creates a slice from its parts; `ports` is not empty.
    pub(super) fn from_parts(name: &str, ports: Box<[Port]>, mut endpoints: Vec<Endpoint>) -> Self {
        endpoints.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        Self {
            name: name.into(),
            ports,
            cluster: Box::default(),
            endpoints: endpoints.into(),
        }
    }

    pub(super) fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Returns true if the endpoints belong to a cluster of the set.
    pub(super) fn is_of_cluster(&self, label: &[u8]) -> bool {
        self.cluster.get(1..) == Some(label)
    }

    /// Returns the labels of an endpoint below its Service.
    pub(super) fn labels_of(&self, endpoint: &Endpoint) -> EndpointLabels {
        let mut labels = EndpointLabels {
            octets: [0; 128],
            length: 0,
        };
        for part in [endpoint.label().as_wire(), &self.cluster] {
            let end = labels.length + part.len();
            // Two labels have 128 bytes with their lengths.
            if let Some(octets) = labels.octets.get_mut(labels.length..end) {
                octets.copy_from_slice(part);
                labels.length = end;
            }
        }
        labels
    }

    /// Returns the endpoints that a label in lower case names, by host name and by address.
    pub(super) fn named(&self, label: &[u8]) -> [&[Endpoint]; 2] {
        let by_hostname = std::str::from_utf8(label).map_or(&[][..], |text| self.range((Some(text), None)));
        let by_address = address_of_label(label).map_or(&[][..], |address| self.range((None, Some(address))));
        [by_hostname, by_address]
    }

    fn range(&self, order: (Option<&str>, Option<IpAddr>)) -> &[Endpoint] {
        let start = self
            .endpoints
            .partition_point(|endpoint| endpoint.order() < order);
        let tail = self.endpoints.get(start..).unwrap_or_default();
        let length = tail
            .iter()
            .take_while(|endpoint| endpoint.order() == order)
            .count();
        tail.get(..length).unwrap_or_default()
    }
}

impl Endpoint {
    /// Returns the sort key: the part of the endpoint that determines its name. Endpoints with the same name are
    /// therefore adjacent.
    fn order(&self) -> (Option<&str>, Option<IpAddr>) {
        match &self.hostname {
            Some(hostname) => (Some(hostname), None),
            None => (None, Some(self.address)),
        }
    }

    pub(super) fn is_published(&self, with_not_ready: bool) -> bool {
        self.ready || with_not_ready
    }

    pub(super) fn label(&self) -> Label {
        Label::of_endpoint(self.hostname.as_deref(), self.address)
    }
}

/// The labels of an endpoint below its Service, in wire form and on the stack. In the zone of a set, the label of its
/// cluster follows its own.
#[derive(Clone, Copy)]
pub(super) struct EndpointLabels {
    octets: [u8; 128],
    length: usize,
}

impl EndpointLabels {
    /// Returns the labels without the root label.
    pub(super) fn as_wire(&self) -> &[u8] {
        self.octets.get(..self.length).unwrap_or_default()
    }
}

/// A label in wire form, on the stack.
#[derive(Clone, Copy)]
pub(super) struct Label {
    /// The first byte is the length of the label.
    octets: [u8; 64],
}

impl Label {
    /// Returns the label of an endpoint: its host name, or its address with dashes (DNS-02).
    pub(super) fn of_endpoint(hostname: Option<&str>, address: IpAddr) -> Self {
        use std::fmt::Write;
        let mut label = Self { octets: [0; 64] };
        // Host names are checked when they are read, and the longest address has 45 characters.
        let written = match (hostname, address) {
            (Some(hostname), _) => label.write_str(hostname),
            // As in CoreDNS, `0` follows an address that ends with `::`. A host name does not end with a dash.
            (None, address) => write!(label, "{address}").and_then(|()| match label.as_wire() {
                [.., b'-'] => label.write_str("0"),
                _ => Ok(()),
            }),
        };
        debug_assert!(written.is_ok(), "a label of an endpoint fits");
        label
    }

    /// Returns the label with its length prefix.
    pub(super) fn as_wire(&self) -> &[u8] {
        let [length, ..] = self.octets;
        self.octets.get(..=usize::from(length)).unwrap_or(&[0])
    }
}

impl std::fmt::Write for Label {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for byte in text.bytes() {
            let [length, octets @ ..] = &mut self.octets;
            let octet = octets.get_mut(usize::from(*length)).ok_or(std::fmt::Error)?;
            *octet = if matches!(byte, b'.' | b':') { b'-' } else { byte };
            *length += 1;
        }
        Ok(())
    }
}

/// Returns the address that a label with dashes spells, if it has the form of [`Label::of_endpoint`].
fn address_of_label(label: &[u8]) -> Option<IpAddr> {
    let address = super::pod_label::address_of_label(label)?;
    (Label::of_endpoint(None, address).as_wire().get(1..)? == label).then_some(address)
}

/// Returns the label of the cluster of a mirrored slice; empty if it is invalid.
fn cluster_label(slice: &EndpointSlice) -> Box<[u8]> {
    let cluster = slice.metadata.labels.get(multicluster::SOURCE_CLUSTER_LABEL);
    let mut name = Name::ROOT;
    match cluster.map(|cluster| name.push_label(cluster.as_bytes())) {
        Some(Ok(())) => name
            .to_lower()
            .as_wire()
            .strip_suffix(&[0])
            .unwrap_or_default()
            .into(),
        _ => Box::default(),
    }
}

/// Returns a host name in lower case, if it is a valid label.
fn hostname_label(text: &str) -> Option<Arc<str>> {
    let mut name = Name::ROOT;
    name.push_label(text.as_bytes())
        .is_ok()
        .then(|| text.to_ascii_lowercase().into())
}

/// Returns the target of an ExternalName Service in wire form.
fn external_target(text: &str) -> Option<Box<[u8]>> {
    let name = Name::from_text(text).ok()?;
    let is_address = text.parse::<IpAddr>().is_ok();
    (!is_address && name != Name::ROOT).then(|| name.as_wire().into())
}
