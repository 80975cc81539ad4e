//! Services and allocation records of the store at one revision, as the audits need them.

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
use super::{RegardingObject, SERVICES_PREFIX, ServiceReference};

/// Services and records at one revision.
#[derive(Debug, Default)]
pub(crate) struct AllocationRecords {
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
    /// Cluster IPs as stored.
    pub(crate) cluster_ips: Vec<String>,
    /// Node ports, including the health check node port. A number is repeated if ports of one protocol share it.
    pub(crate) node_ports: Vec<u16>,
}

/// An IPAddress object.
#[derive(Clone, Debug)]
pub(crate) struct AddressRecord {
    pub(crate) uid: String,
    pub(crate) at: Revision,
    pub(crate) created: Option<Timestamp>,
    /// Namespace and name of the Service that it references; `None` if it references something else.
    pub(crate) holder: Option<(String, String)>,
    /// True if its label names the Service allocator.
    pub(crate) is_managed: bool,
    /// True if its labels are those of an allocation (FAM-15).
    pub(crate) is_labelled: bool,
}

/// The record of a node port.
#[derive(Clone, Debug)]
pub(crate) struct PortRecord {
    pub(crate) at: Revision,
    /// `NAMESPACE/NAME` of the Service.
    pub(crate) holder: String,
}

impl AllocationRecords {
    /// Reads the store at its newest revision. Unreadable objects are logged and left out.
    ///
    /// # Errors
    /// Fails if the revision is compacted during the read; a retry uses a newer one. Fails if a value cannot be
    /// decrypted.
    pub(crate) fn read(index: &Index) -> Result<Self, StoreError> {
        let at = Some(index.revision());
        let mut records = Self::default();
        for prefix in [
            SERVICES_PREFIX,
            IP_ADDRESSES_PREFIX,
            NODE_PORTS_PREFIX,
            SERVICE_CIDRS_PREFIX,
        ] {
            for entry in index.list(prefix, at, None, None)?.entries {
                // Without its values, the allocations of an undecryptable Service would count as free.
                if store::is_sealed(&entry.value) {
                    let reason = format!("the value of {} cannot be decrypted", entry.key);
                    return Err(StoreError::Corrupt { reason });
                }
                if let Err(error) = records.add(&entry) {
                    tracing::error!(key = %entry.key, %error, "stored object not readable");
                }
            }
        }
        Ok(records)
    }

    /// Adds an entry of the store. Entries of other kinds are only checked to be JSON.
    ///
    /// # Errors
    /// Fails if the entry is not readable; the records are unchanged then.
    pub(crate) fn add(&mut self, entry: &Entry) -> Result<(), serde_json::Error> {
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
            // Services from before dual-stack have no `clusterIPs`.
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
        let is_relevant = !record.cluster_ips.is_empty() || !record.node_ports.is_empty();
        Ok(is_relevant.then_some(record))
    }

    /// Returns a reference to this Service at its revision.
    pub(crate) fn reference(&self) -> ServiceReference {
        ServiceReference {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            at: self.at,
        }
    }

    /// Returns this Service as the object of an Event.
    pub(crate) fn regarding(&self) -> Option<RegardingObject> {
        Some(RegardingObject {
            kind: "Service",
            api_version: "v1",
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        })
    }
}

/// Returns the node ports. Ports of different protocols may share a number, also with the health check.
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

    /// Returns this IPAddress as the object of an Event.
    pub(crate) fn regarding(&self, address: IpAddr) -> Option<RegardingObject> {
        Some(RegardingObject {
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
