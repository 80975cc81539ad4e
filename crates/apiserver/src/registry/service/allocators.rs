//! Allocators of cluster IPs and node ports: the reservations of a write, and the ServiceCIDRs.
//!
//! Addresses and ports are reserved in memory first, and become permanent with the transaction that writes the Service.
//! The store has a record of each, which the transaction expects to be absent. Two servers therefore never give the
//! same address or port. After a start, and for the changes of other servers, the records restore the pools. Ranges of
//! a ServiceCIDR are used while it is ready and not being deleted.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use api::ip::{self, Family};
use api::service::{
    ConfiguredFamilies, View, initialize_families, normalize_cluster_ips, patch_allocated_values,
};
use api::tree::{child, is_set, items, text, texts};
use ipam::UnusableRange;
use ipnet::IpNet;
use serde_json::Value;
use store::{Index, StoreError};

use super::Failure;
use super::allocation::{Allocation, lock};
use super::bootstrap::DEFAULT_SERVICE_CIDR;
use super::peer_allocations::{PeerAllocations, RangeChange};
use super::pools::{Pools, Usage};
use super::records::{Holder, IP_ADDRESSES_PREFIX, NODE_PORTS_PREFIX, SERVICE_CIDRS_PREFIX, delete_object};
use super::repair::{Counts, RepairAction};
use super::{cluster_ips, node_ports};

/// Settings of the allocators.
#[derive(Clone, Debug)]
pub struct AllocatorSettings {
    /// The default ServiceCIDR: one range, or two of different families. The first one is the primary range
    /// (FAM-29).
    pub cluster_ip_ranges: Vec<IpNet>,
    /// The range of node ports (NP-01).
    pub node_port_range: RangeInclusive<u16>,
}

/// A failed start of the allocators, because of the configuration or the store.
#[derive(Debug, thiserror::Error)]
pub enum AllocatorError {
    /// The ranges are not one range, or two of different families.
    #[error("expected one cluster IP range, or two of different families, found {0:?}")]
    Ranges(Vec<IpNet>),
    /// A range has no usable addresses.
    #[error(transparent)]
    Unusable(#[from] UnusableRange),
    /// The allocation records are not readable.
    #[error("cannot read allocation records")]
    Store(#[from] StoreError),
}

/// Allocators of all cluster IPs and node ports.
pub struct Allocators {
    pools: Arc<Mutex<Pools>>,
    families: ConfiguredFamilies,
    ranges: Vec<IpNet>,
    /// Allocations of other servers; `None` if the store is not shared.
    peers: Mutex<Option<PeerAllocations>>,
    /// Findings of the audit of cluster IPs.
    pub(crate) address_faults: Counts,
    /// Findings of the audit of node ports.
    pub(crate) port_faults: Counts,
}

impl Allocators {
    /// Loads the allocations from the store.
    ///
    /// # Errors
    /// Fails if the ranges are invalid or the store is not readable.
    pub fn new(index: &Index, config: AllocatorSettings) -> Result<Self, AllocatorError> {
        let families = families_of(&config.cluster_ip_ranges)?;
        let mut pools = Pools::new(config.node_port_range, fastrand::Rng::new());
        for net in &config.cluster_ip_ranges {
            pools.add_range(DEFAULT_SERVICE_CIDR, *net, true)?;
        }
        for entry in index.list(IP_ADDRESSES_PREFIX, None, None, None)?.entries {
            if let Some(address) = parse_key::<IpAddr>(&entry.key, IP_ADDRESSES_PREFIX) {
                pools.mark_taken(address);
            }
        }
        for entry in index.list(NODE_PORTS_PREFIX, None, None, None)?.entries {
            let port = parse_key::<i64>(&entry.key, NODE_PORTS_PREFIX);
            if let Some(Err(error)) = port.map(|port| pools.take_port(port)) {
                tracing::warn!(key = %entry.key, %error, "node port in use outside of the range");
            }
        }
        let allocators = Self {
            pools: Arc::new(Mutex::new(pools)),
            families,
            ranges: config.cluster_ip_ranges,
            peers: Mutex::new(None),
            address_faults: Counts::default(),
            port_faults: Counts::default(),
        };
        for entry in index.list(SERVICE_CIDRS_PREFIX, None, None, None)?.entries {
            match serde_json::from_slice::<Value>(&entry.value) {
                Ok(cidr) => allocators.apply_service_cidr(&cidr),
                Err(error) => tracing::error!(key = %entry.key, %error, "stored ServiceCIDR not readable"),
            }
        }
        Ok(allocators)
    }

    /// Starts to follow the allocations of other servers, which [`Allocators::catch_up`] applies.
    ///
    /// # Errors
    /// Fails if the store is not readable.
    pub fn follow_peers(&self, index: &Index) -> Result<(), StoreError> {
        let peers = PeerAllocations::start(index, &self.pools)?;
        *lock(&self.peers) = Some(peers);
        Ok(())
    }

    /// Applies the allocations of other servers up to the current revision of the index.
    pub fn catch_up(&self, index: &Index) {
        let mut peers = lock(&self.peers);
        let Some(changes) = peers.as_mut().map(|peers| peers.catch_up(index, &self.pools)) else {
            return;
        };
        for change in changes {
            match change {
                RangeChange::Written(cidr) => self.apply_service_cidr(&cidr),
                RangeChange::Removed(name) => self.remove_service_cidr(&name),
            }
        }
    }

    /// Returns the configured IP families.
    pub fn families(&self) -> ConfiguredFamilies {
        self.families
    }

    /// Sets the IP families of a new Service and reserves its addresses and ports. A dry run reserves no addresses
    /// (API-13).
    ///
    /// # Errors
    /// Fails with the error for the client; nothing is reserved.
    pub fn create(
        &self,
        index: &Index,
        service: &mut Value,
        is_dry_run: bool,
    ) -> Result<Allocation, Failure> {
        normalize_cluster_ips(service, None);
        initialize_families(service, None, self.families).map_err(Failure::Invalid)?;
        let mut allocation = Allocation::new(Arc::clone(&self.pools), is_dry_run);
        cluster_ips::allocate(&mut allocation, service)?;
        node_ports::allocate(&mut allocation, service)?;
        allocation.record(index, holder(View::of(service)), now());
        Ok(allocation)
    }

    /// Copies omitted values from `old`, sets the IP families, and reserves and releases addresses and ports.
    ///
    /// # Errors
    /// Fails with the error for the client; nothing is reserved or released.
    pub fn update(
        &self,
        index: &Index,
        old: &Value,
        new: &mut Value,
        is_dry_run: bool,
    ) -> Result<Allocation, Failure> {
        patch_allocated_values(new, old);
        normalize_cluster_ips(new, Some(old));
        initialize_families(new, Some(old), self.families).map_err(Failure::Invalid)?;
        let mut allocation = Allocation::new(Arc::clone(&self.pools), is_dry_run);
        cluster_ips::update(&mut allocation, new, old)?;
        node_ports::update(&mut allocation, new, old)?;
        allocation.record(index, holder(View::of(old)), now());
        Ok(allocation)
    }

    /// Releases everything that a Service holds. Deletes the Endpoints of the same name, too (API-10).
    pub fn delete(&self, index: &Index, old: &Value, is_dry_run: bool) -> Allocation {
        let view = View::of(old);
        let mut allocation = Allocation::new(Arc::clone(&self.pools), is_dry_run);
        if is_dry_run {
            return allocation;
        }
        cluster_ips::release(&mut allocation, view);
        node_ports::release(&mut allocation, view);
        allocation.record(index, holder(view), now());
        let endpoints = format!("/endpoints/{}/{}", view.namespace(), view.name());
        allocation.writes.extend(delete_object(index, endpoints.into()));
        allocation
    }

    /// Applies a ServiceCIDR that was created or changed, or whose status changed. Its ranges are available while
    /// it is ready and not being deleted (FAM-23, FAM-24). The configured ranges are always available.
    pub fn apply_service_cidr(&self, cidr: &Value) {
        let metadata = child(cidr, "metadata");
        let owner = text(metadata, "name");
        let is_ready = is_ready(cidr) && !is_set(metadata, "deletionTimestamp");
        let nets: Vec<IpNet> = texts(child(cidr, "spec"), "cidrs")
            .into_iter()
            .filter_map(|net| ip::parse_legacy_cidr(net).map(|cidr| cidr.net.trunc()))
            .collect();
        let mut pools = lock(&self.pools);
        for net in &nets {
            let is_configured = owner == DEFAULT_SERVICE_CIDR && self.ranges.contains(net);
            if let Err(error) = pools.add_range(owner, *net, is_ready || is_configured) {
                tracing::error!(%owner, %error, "range of a ServiceCIDR not usable");
            }
        }
        let kept = self.kept_ranges(owner, nets);
        pools.remove_ranges(owner, &kept);
    }

    /// Applies the deletion of a ServiceCIDR. Its ranges become unavailable, unless another one contains them.
    pub fn remove_service_cidr(&self, name: &str) {
        let kept = self.kept_ranges(name, Vec::new());
        lock(&self.pools).remove_ranges(name, &kept);
    }

    /// Applies an IPAddress that was created without a Service: the address becomes unavailable.
    pub fn mark_address_taken(&self, address: IpAddr) {
        lock(&self.pools).mark_taken(address);
    }

    /// Applies the deletion of an IPAddress without a Service: the address becomes available.
    pub fn mark_address_free(&self, address: IpAddr) {
        lock(&self.pools).release_address(address);
    }

    /// Applies a committed repair: recorded addresses and ports become unavailable, freed ones available.
    pub(crate) fn apply_repair(&self, repair: &RepairAction) {
        let mut pools = lock(&self.pools);
        match repair {
            RepairAction::RecordAddress { address, .. } => {
                pools.mark_taken(*address);
            }
            RepairAction::FreeAddress { address, .. } => pools.release_address(*address),
            // The port may be taken already.
            RepairAction::RecordPort { port, .. } => drop(pools.take_port((*port).into())),
            RepairAction::FreePort { port, .. } => pools.release_port(*port),
        }
    }

    /// Returns the range of node ports.
    pub(crate) fn node_port_range(&self) -> RangeInclusive<u16> {
        lock(&self.pools).port_range()
    }

    /// Returns the current usage, for metrics.
    pub fn usage(&self) -> Usage {
        lock(&self.pools).usage()
    }

    fn kept_ranges(&self, owner: &str, mut nets: Vec<IpNet>) -> Vec<IpNet> {
        if owner == DEFAULT_SERVICE_CIDR {
            nets.extend(self.ranges.iter().map(IpNet::trunc));
        }
        nets
    }
}

fn families_of(ranges: &[IpNet]) -> Result<ConfiguredFamilies, AllocatorError> {
    let families: Vec<Family> = ranges.iter().map(|net| Family::of(net.addr())).collect();
    match families.as_slice() {
        [primary] => Ok(ConfiguredFamilies {
            primary: *primary,
            is_dual_stack: false,
        }),
        [primary, second] if primary != second => Ok(ConfiguredFamilies {
            primary: *primary,
            is_dual_stack: true,
        }),
        _ => Err(AllocatorError::Ranges(ranges.to_vec())),
    }
}

/// Returns true if a ServiceCIDR is ready. A ServiceCIDR without a condition is ready, because a cluster can lack the
/// controller that sets it.
fn is_ready(cidr: &Value) -> bool {
    items(child(cidr, "status"), "conditions")
        .iter()
        .find(|condition| text(condition, "type") == "Ready")
        .is_none_or(|condition| text(condition, "status") == "True")
}

fn holder(service: View<'_>) -> Holder<'_> {
    Holder {
        namespace: service.namespace(),
        name: service.name(),
    }
}

fn parse_key<T: std::str::FromStr>(key: &str, prefix: &str) -> Option<T> {
    let parsed = key.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
    if parsed.is_none() {
        tracing::error!(%key, "key of an allocation record not readable");
    }
    parsed
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
