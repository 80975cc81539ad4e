//! What the store says about addresses, ports and Services at one revision, as far as the audits need it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::ip::Family;
use api::object::{ObjectMeta, Service, ServiceCidr};
use ipnet::IpNet;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use store::{Entry, Index, Revision, StoreError};

use super::super::records::{IP_ADDRESSES_PREFIX, NODE_PORTS_PREFIX, SERVICE_CIDRS_PREFIX};
use super::{Claim, Regarding, SERVICES_PREFIX};

/// One revision of the store.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) services: Vec<ServiceRecord>,
    pub(crate) addresses: BTreeMap<IpAddr, AddressRecord>,
    pub(crate) ports: BTreeMap<u16, PortRecord>,
    pub(crate) ranges: Vec<IpNet>,
}

/// A Service that has a cluster IP or a node port.
#[derive(Clone, Debug)]
pub(crate) struct ServiceRecord {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) at: Revision,
    /// As written.
    pub(crate) cluster_ips: Vec<String>,
    /// With the one for health checks. A number stands as often as ports of one protocol have it.
    pub(crate) node_ports: Vec<u16>,
}

/// An IPAddress.
#[derive(Clone, Debug)]
pub(crate) struct AddressRecord {
    pub(crate) uid: String,
    pub(crate) at: Revision,
    pub(crate) created: Option<Timestamp>,
    /// Namespace and name of the Service that it refers to; `None` if it refers to something else.
    pub(crate) holder: Option<(String, String)>,
    /// Whether a Service's allocation made it, as its label says.
    pub(crate) is_managed: bool,
    /// Whether its labels are as an allocation writes them (FAM-15).
    pub(crate) is_labelled: bool,
}

/// The record of a node port.
#[derive(Clone, Debug)]
pub(crate) struct PortRecord {
    pub(crate) at: Revision,
    /// `namespace/name` of the Service.
    pub(crate) holder: String,
}

impl Books {
    /// Reads the store at its newest revision. What cannot be read is reported and left out.
    ///
    /// # Errors
    /// If the store has forgotten that revision before all was read; the next try has a newer one.
    pub(crate) fn read(index: &Index) -> Result<Self, StoreError> {
        let at = Some(index.revision());
        let entries = |prefix| index.list(prefix, at, None, None).map(|listing| listing.entries);
        let services = entries(SERVICES_PREFIX)?;
        let addresses = entries(IP_ADDRESSES_PREFIX)?;
        let ports = entries(NODE_PORTS_PREFIX)?;
        let ranges = entries(SERVICE_CIDRS_PREFIX)?;
        Ok(Self {
            services: services.iter().filter_map(ServiceRecord::read).collect(),
            addresses: addresses.iter().filter_map(AddressRecord::read).collect(),
            ports: ports.iter().filter_map(PortRecord::read).collect(),
            ranges: ranges.iter().filter_map(parsed).flat_map(nets).collect(),
        })
    }
}

impl ServiceRecord {
    fn read(entry: &Entry) -> Option<Self> {
        let service: Service = parsed(entry)?;
        let spec = &service.spec;
        let has_addresses = spec.kind != "ExternalName" && !spec.cluster_ip.is_empty() && !spec.is_headless();
        let cluster_ips = match spec.cluster_ips.as_slice() {
            _ if !has_addresses => Vec::new(),
            // Objects from before dual stack.
            [] => vec![spec.cluster_ip.clone()],
            all => all.to_vec(),
        };
        let record = Self {
            cluster_ips,
            node_ports: node_ports(&service),
            namespace: service.metadata.namespace,
            name: service.metadata.name,
            uid: service.metadata.uid,
            at: entry.modified,
        };
        (!record.cluster_ips.is_empty() || !record.node_ports.is_empty()).then_some(record)
    }

    /// It, as who has something.
    pub(crate) fn claim(&self) -> Claim {
        Claim {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            at: self.at,
        }
    }

    /// It, as what an Event is about.
    pub(crate) fn regarding(&self) -> Option<Regarding> {
        Some(Regarding {
            kind: "Service",
            api_version: "v1",
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        })
    }
}

/// Ports of different protocols may share a number, also with the one for health checks.
fn node_ports(service: &Service) -> Vec<u16> {
    let mut seen = Vec::new();
    let mut numbers = Vec::new();
    for port in service.spec.ports.iter().filter(|port| port.node_port != 0) {
        let is_shared = numbers.contains(&port.node_port) && !seen.contains(&(port.node_port, port.protocol));
        seen.push((port.node_port, port.protocol));
        if !is_shared {
            numbers.push(port.node_port);
        }
    }
    let health = service.spec.health_check_node_port;
    if health != 0 && !numbers.contains(&health) {
        numbers.push(health);
    }
    numbers
}

impl AddressRecord {
    fn read(entry: &Entry) -> Option<(IpAddr, Self)> {
        #[derive(Deserialize)]
        struct Object {
            metadata: ObjectMeta,
            spec: Spec,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec {
            parent_ref: Reference,
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Reference {
            group: String,
            resource: String,
            namespace: String,
            name: String,
        }
        let Object { metadata, spec } = parsed(entry)?;
        let address: IpAddr = metadata.name.parse().ok()?;
        let label = |name: &str| metadata.labels.get(name).map(String::as_str);
        let is_managed = label("ipaddress.kubernetes.io/managed-by") == Some("ipallocator.k8s.io");
        let family = label("ipaddress.kubernetes.io/ip-family");
        let reference = spec.parent_ref;
        let is_service = reference.group.is_empty() && reference.resource == "services";
        let created = metadata
            .creation_timestamp
            .as_ref()
            .and_then(|time| time.parse().ok());
        let record = Self {
            holder: is_service.then_some((reference.namespace, reference.name)),
            is_labelled: is_managed && family == Some(Family::of(address).name()),
            uid: metadata.uid,
            at: entry.modified,
            created,
            is_managed,
        };
        Some((address, record))
    }

    /// It, as what an Event is about.
    pub(crate) fn regarding(&self, address: IpAddr) -> Option<Regarding> {
        Some(Regarding {
            kind: "IPAddress",
            api_version: "networking.k8s.io/v1",
            namespace: String::new(),
            name: address.to_string(),
            uid: self.uid.clone(),
        })
    }
}

impl PortRecord {
    fn read(entry: &Entry) -> Option<(u16, Self)> {
        #[derive(Deserialize)]
        struct Record {
            service: String,
        }
        let port = entry.key.strip_prefix(NODE_PORTS_PREFIX)?.parse().ok()?;
        let record: Record = parsed(entry)?;
        Some((
            port,
            Self {
                at: entry.modified,
                holder: record.service,
            },
        ))
    }
}

fn nets(cidr: ServiceCidr) -> impl Iterator<Item = IpNet> {
    cidr.spec.cidrs.into_iter().filter_map(|range| range.parse().ok())
}

fn parsed<T: DeserializeOwned>(entry: &Entry) -> Option<T> {
    let parsed = serde_json::from_slice(&entry.value);
    parsed
        .inspect_err(|error| tracing::error!(key = %entry.key, %error, "a stored object cannot be read"))
        .ok()
}
