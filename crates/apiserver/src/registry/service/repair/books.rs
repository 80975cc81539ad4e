//! What the store says about addresses, ports and Services at one revision, as far as the audits need it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::ip::Family;
use api::object::{ObjectMeta, Service, ServiceCidr};
use ipnet::IpNet;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
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
    /// If the store has forgotten that revision before all was read; the next try has a newer one. If a value cannot be
    /// decrypted.
    pub(crate) fn read(index: &Index) -> Result<Self, StoreError> {
        let at = Some(index.revision());
        let mut books = Self::default();
        for prefix in [
            SERVICES_PREFIX,
            IP_ADDRESSES_PREFIX,
            NODE_PORTS_PREFIX,
            SERVICE_CIDRS_PREFIX,
        ] {
            for entry in index.list(prefix, at, None, None)?.entries {
                // What a Service has that cannot be decrypted would count as free.
                if store::is_sealed(&entry.value) {
                    let reason = format!("the value of {} cannot be decrypted", entry.key);
                    return Err(StoreError::Corrupt { reason });
                }
                if let Err(error) = books.enter(&entry) {
                    tracing::error!(key = %entry.key, %error, "a stored object cannot be read");
                }
            }
        }
        Ok(books)
    }

    /// Enters what an entry of the store says; of those that are of no concern here, it is only made sure that they
    /// are JSON.
    ///
    /// # Errors
    /// If the entry cannot be read; the books are as before.
    pub(crate) fn enter(&mut self, entry: &Entry) -> Result<(), serde_json::Error> {
        let key = &*entry.key;
        if key.starts_with(SERVICES_PREFIX) {
            self.services.extend(ServiceRecord::read(entry)?);
        } else if key.starts_with(IP_ADDRESSES_PREFIX) {
            self.addresses.extend(AddressRecord::read(entry)?);
        } else if key.starts_with(NODE_PORTS_PREFIX) {
            self.ports.extend(PortRecord::read(entry)?);
        } else if key.starts_with(SERVICE_CIDRS_PREFIX) {
            let cidr: ServiceCidr = serde_json::from_slice(&entry.value)?;
            let ranges = cidr.spec.cidrs.into_iter();
            self.ranges
                .extend(ranges.filter_map(|range| range.parse::<IpNet>().ok()));
        } else {
            serde_json::from_slice::<IgnoredAny>(&entry.value)?;
        }
        Ok(())
    }
}

impl ServiceRecord {
    fn read(entry: &Entry) -> Result<Option<Self>, serde_json::Error> {
        let service: Service = serde_json::from_slice(&entry.value)?;
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
        let has_something = !record.cluster_ips.is_empty() || !record.node_ports.is_empty();
        Ok(has_something.then_some(record))
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
    fn read(entry: &Entry) -> Result<Option<(IpAddr, Self)>, serde_json::Error> {
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
        let Object { metadata, spec } = serde_json::from_slice(&entry.value)?;
        let Ok(address) = metadata.name.parse::<IpAddr>() else {
            return Ok(None);
        };
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
        Ok(Some((address, record)))
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
    fn read(entry: &Entry) -> Result<Option<(u16, Self)>, serde_json::Error> {
        #[derive(Deserialize)]
        struct Record {
            service: String,
        }
        let record: Record = serde_json::from_slice(&entry.value)?;
        let port = entry
            .key
            .strip_prefix(NODE_PORTS_PREFIX)
            .and_then(|port| port.parse().ok());
        let record = Self {
            at: entry.modified,
            holder: record.service,
        };
        Ok(port.map(|port| (port, record)))
    }
}
