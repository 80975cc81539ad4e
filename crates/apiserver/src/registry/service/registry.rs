//! The allocators as the verbs use them.

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
use super::followed::{Followed, RangeChange};
use super::pools::{Pools, Usage};
use super::records::{Holder, IP_ADDRESSES_PREFIX, NODE_PORTS_PREFIX, SERVICE_CIDRS_PREFIX, delete_object};
use super::repair::{Counts, Mend};
use super::{cluster_ips, node_ports};

/// What the allocators give out.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// The default ServiceCIDR: one range, or two of different families, the first of which is the primary
    /// one (FAM-29).
    pub cluster_ip_ranges: Vec<IpNet>,
    /// The node ports (NP-01).
    pub node_port_range: RangeInclusive<u16>,
}

/// Why the allocators cannot start; the configuration or the store has to be mended.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// There must be one range, or two of different families.
    #[error("cluster IP ranges must be one, or two of different families, not {0:?}")]
    Ranges(Vec<IpNet>),
    /// A range cannot be allocated from.
    #[error(transparent)]
    Unusable(#[from] UnusableRange),
    /// What is allocated already cannot be read.
    #[error("cannot read what is allocated")]
    Store(#[from] StoreError),
}

/// All addresses and node ports of the cluster.
pub struct Registry {
    pools: Arc<Mutex<Pools>>,
    families: ConfiguredFamilies,
    ranges: Vec<IpNet>,
    /// What other servers write, if there can be others.
    followed: Mutex<Option<Followed>>,
    /// What the audits of cluster IPs and of node ports found.
    pub(crate) address_faults: Counts,
    pub(crate) port_faults: Counts,
}

impl Registry {
    /// Reads from the store what is allocated.
    ///
    /// # Errors
    /// If the ranges do not fit together or cannot be allocated from, or the store cannot be read.
    pub fn new(index: &Index, config: ServiceConfig) -> Result<Self, RegistryError> {
        let families = families_of(&config.cluster_ip_ranges)?;
        let mut pools = Pools::new(config.node_port_range, fastrand::Rng::new());
        for net in &config.cluster_ip_ranges {
            pools.name_range(DEFAULT_SERVICE_CIDR, *net, true)?;
        }
        for entry in index.list(IP_ADDRESSES_PREFIX, None, None, None)?.entries {
            if let Some(address) = parse_key::<IpAddr>(&entry.key, IP_ADDRESSES_PREFIX) {
                pools.mark_taken(address);
            }
        }
        for entry in index.list(NODE_PORTS_PREFIX, None, None, None)?.entries {
            let port = parse_key::<i64>(&entry.key, NODE_PORTS_PREFIX);
            if let Some(Err(error)) = port.map(|port| pools.take_port(port)) {
                tracing::warn!(key = %entry.key, %error, "a node port in use is not in the range any more");
            }
        }
        let registry = Self {
            pools: Arc::new(Mutex::new(pools)),
            families,
            ranges: config.cluster_ip_ranges,
            followed: Mutex::new(None),
            address_faults: Counts::default(),
            port_faults: Counts::default(),
        };
        for entry in index.list(SERVICE_CIDRS_PREFIX, None, None, None)?.entries {
            match serde_json::from_slice::<Value>(&entry.value) {
                Ok(cidr) => registry.range_written(&cidr),
                Err(error) => tracing::error!(key = %entry.key, %error, "a ServiceCIDR cannot be read"),
            }
        }
        Ok(registry)
    }

    /// From now on, [`Registry::catch_up`] brings the allocators to what other servers have allocated.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn follow_others(&self, index: &Index) -> Result<(), StoreError> {
        let followed = Followed::begin(index, &self.pools)?;
        *lock(&self.followed) = Some(followed);
        Ok(())
    }

    /// Takes over what other servers have written up to the index's present revision.
    pub fn catch_up(&self, index: &Index) {
        let mut followed = lock(&self.followed);
        let Some(changes) = followed
            .as_mut()
            .map(|followed| followed.catch_up(index, &self.pools))
        else {
            return;
        };
        for change in changes {
            match change {
                RangeChange::Written(cidr) => self.range_written(&cidr),
                RangeChange::Removed(name) => self.range_removed(&name),
            }
        }
    }

    /// The families that Services can have, as reads and defaults need them.
    pub fn families(&self) -> ConfiguredFamilies {
        self.families
    }

    /// Completes families of a new Service and takes its addresses and ports. A dry run takes nothing
    /// (API-13).
    ///
    /// # Errors
    /// The answer to the client; nothing is taken then.
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

    /// Carries over from `old` what the client left out, completes families, and takes and gives up what the
    /// change asks for.
    ///
    /// # Errors
    /// The answer to the client; nothing is taken or given up then.
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

    /// Gives up everything a Service has, and removes the Endpoints of its name, for they are its own
    /// (API-10).
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

    /// A ServiceCIDR was created or changed, its status included: its ranges are available while it is ready
    /// and not being deleted (FAM-23, FAM-24). The configured ranges are always available.
    pub fn range_written(&self, cidr: &Value) {
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
            if let Err(error) = pools.name_range(owner, *net, is_ready || is_configured) {
                tracing::error!(%owner, %error, "a range of a ServiceCIDR is not usable");
            }
        }
        let kept = self.kept_by(owner, nets);
        pools.unname_ranges(owner, &kept);
    }

    /// A ServiceCIDR is gone: its ranges are not available any more, unless another one names them.
    pub fn range_removed(&self, name: &str) {
        let kept = self.kept_by(name, Vec::new());
        lock(&self.pools).unname_ranges(name, &kept);
    }

    /// An IPAddress was created by other means than a Service: it is not available.
    pub fn address_written(&self, address: IpAddr) {
        lock(&self.pools).mark_taken(address);
    }

    /// An IPAddress was removed by other means than a Service: it is available again.
    pub fn address_removed(&self, address: IpAddr) {
        lock(&self.pools).release_address(address);
    }

    /// A repair was carried out: what was recorded is not available, and what was freed is.
    pub(crate) fn mended(&self, mend: &Mend) {
        let mut pools = lock(&self.pools);
        match mend {
            Mend::RecordAddress { address, .. } => {
                pools.mark_taken(*address);
            }
            Mend::FreeAddress { address, .. } => pools.release_address(*address),
            // It may be known to be taken already, which is as good.
            Mend::RecordPort { port, .. } => drop(pools.take_port((*port).into())),
            Mend::FreePort { port, .. } => pools.release_port(*port),
        }
    }

    /// The node ports that can be given out.
    pub(crate) fn node_port_range(&self) -> RangeInclusive<u16> {
        lock(&self.pools).port_range()
    }

    /// How much is in use, for metrics.
    pub fn usage(&self) -> Usage {
        lock(&self.pools).usage()
    }

    fn kept_by(&self, owner: &str, mut nets: Vec<IpNet>) -> Vec<IpNet> {
        if owner == DEFAULT_SERVICE_CIDR {
            nets.extend(self.ranges.iter().map(IpNet::trunc));
        }
        nets
    }
}

fn families_of(ranges: &[IpNet]) -> Result<ConfiguredFamilies, RegistryError> {
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
        _ => Err(RegistryError::Ranges(ranges.to_vec())),
    }
}

/// A ServiceCIDR that nobody has judged yet counts as ready, for there may be no controller to do so.
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
        tracing::error!(%key, "a key of the store cannot be read");
    }
    parsed
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
