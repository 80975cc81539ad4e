//! Virtual servers in the kernel, and their changes in two steps: additions precede the change of the rules, and
//! removals follow it.
//!
//! A TCP destination that leaves gets weight 0, and is deleted when it has no connections (IPV-04). The kernel holds
//! this state, so a restarted process continues it. Connections end after their timeouts, so the number of such
//! destinations is bounded.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use api::object::ObjectKey;
use ipnet::IpNet;
use netlink::ipvs::{Ipvs, IpvsError, ServerId, Timeouts, VirtualServer};
use netlink::route::RouteError;
use netlink::tcp;
use plan::{Plan, Scheduler};

use super::kernel_settings;
use super::link::ServiceLink;
use super::planner::{PlannedServer, kernel_scheduler, servers_of};

/// Weight of an endpoint.
const WEIGHT: u32 = 1;
/// Scheduler that replaces one that the kernel lacks.
const FALLBACK_SCHEDULER: &str = "rr";

/// Reasons why virtual servers are not usable. A retry helps after the cause is removed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServersError {
    /// The kernel has no IPVS, or refused a change.
    #[error(transparent)]
    Ipvs(#[from] IpvsError),
    /// The link of the addresses could not be changed.
    #[error(transparent)]
    Link(#[from] RouteError),
    /// Virtual servers do not use connection tracking, so their connections cannot be masqueraded.
    #[error("cannot set net.ipv4.vs.conntrack to 1: {0}")]
    ConnectionTracking(#[source] std::io::Error),
}

/// Virtual servers of one network namespace.
#[derive(Debug)]
pub(super) struct Servers {
    ipvs: Ipvs,
    link: ServiceLink,
    /// Virtual servers at these addresses are not removed (KPF-23).
    excluded: Vec<IpNet>,
    planned: BTreeMap<ServerId, PlannedServer>,
    ids_by_service: HashMap<ObjectKey, Vec<ServerId>>,
    /// Servers of no Service, with connections that continue.
    draining: BTreeSet<ServerId>,
    /// Addresses on the link.
    addresses: BTreeSet<IpAddr>,
    /// Schedulers that the kernel lacks.
    missing_schedulers: BTreeSet<String>,
}

/// Changes that [`Servers::finish`] completes.
#[derive(Debug, Default)]
#[must_use = "removals are pending"]
pub(super) struct PendingServerChanges {
    /// Servers whose former destinations leave, or which leave themselves.
    changed: BTreeSet<ServerId>,
    /// Addresses of the link that may have no server.
    addresses: BTreeSet<IpAddr>,
    /// Number of differences that were not expected.
    drift: usize,
}

impl PendingServerChanges {
    /// Returns the number of changed servers.
    pub(super) fn servers(&self) -> usize {
        self.changed.len()
    }
}

impl Servers {
    /// Opens IPVS and the link in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// A [`ServersError`] if a part of the kernel is missing.
    pub(super) fn open(
        excluded: Vec<IpNet>,
        strict_arp: bool,
        timeouts: Timeouts,
    ) -> Result<Self, ServersError> {
        let mut ipvs = match Ipvs::open() {
            Err(IpvsError::Missing) => {
                kernel_settings::load_module();
                Ipvs::open()?
            }
            opened => opened?,
        };
        kernel_settings::write_parameters(strict_arp).map_err(ServersError::ConnectionTracking)?;
        if timeouts != Timeouts::default() {
            ipvs.set_timeouts(timeouts)?;
        }
        Ok(Self {
            ipvs,
            link: ServiceLink::open()?,
            excluded,
            planned: BTreeMap::new(),
            ids_by_service: HashMap::new(),
            draining: BTreeSet::new(),
            addresses: BTreeSet::new(),
            missing_schedulers: BTreeSet::new(),
        })
    }

    /// Returns false if the kernel refused a scheduler.
    pub(super) fn supports(&self, scheduler: Scheduler) -> bool {
        !self.missing_schedulers.contains(kernel_scheduler(scheduler).0)
    }

    /// Adds virtual servers, destinations and addresses of changed Services.
    ///
    /// # Errors
    ///
    /// A [`ServersError`] if the kernel refuses.
    pub(super) fn begin(
        &mut self,
        plan: &Plan,
        services: &[ObjectKey],
    ) -> Result<PendingServerChanges, ServersError> {
        let (changed, before) = self.replan(plan, services);
        for id in &changed {
            if let Some(planned) = self.planned.get(id).cloned() {
                let found = before.get(id).map(|former| &former.server);
                self.put(&planned, found)?;
            }
        }
        Ok(PendingServerChanges {
            changed,
            ..PendingServerChanges::default()
        })
    }

    /// Adds all virtual servers, destinations and addresses that the kernel lacks.
    ///
    /// # Errors
    ///
    /// A [`ServersError`] if the kernel refuses.
    pub(super) fn begin_all(&mut self, plan: &Plan) -> Result<PendingServerChanges, ServersError> {
        self.planned.clear();
        self.ids_by_service.clear();
        let services: Vec<ObjectKey> = plan.services().cloned().collect();
        self.replan(plan, &services);
        self.addresses = self.link.addresses()?;
        let found: BTreeMap<ServerId, VirtualServer> = self
            .ipvs
            .servers()?
            .into_iter()
            .map(|server| (server.id, server))
            .collect();
        let planned = std::mem::take(&mut self.planned);
        let put: Result<usize, ServersError> = planned.values().try_fold(0, |sum, planned| {
            Ok(sum + self.put(planned, found.get(&planned.server.id))?)
        });
        self.planned = planned;
        let mut changed: BTreeSet<ServerId> = self.planned.keys().copied().collect();
        changed.extend(found.keys().filter(|id| !self.is_excluded(id)));
        Ok(PendingServerChanges {
            changed,
            addresses: self.addresses.clone(),
            drift: put?,
        })
    }

    /// Removes destinations, virtual servers and addresses that are no longer needed. Returns the number of unexpected
    /// differences.
    ///
    /// # Errors
    ///
    /// A [`ServersError`] if the kernel refuses.
    pub(super) fn finish(&mut self, pending: PendingServerChanges) -> Result<usize, ServersError> {
        let PendingServerChanges {
            changed,
            mut addresses,
            mut drift,
        } = pending;
        for id in changed {
            addresses.insert(id.address);
            let desired = self.planned.get(&id).map(|planned| planned.destinations.clone());
            let was_draining = self.draining.contains(&id);
            let removal = self.remove_former(id, desired.as_ref())?;
            if desired.is_some() {
                self.draining.remove(&id);
                drift += removal.live;
                continue;
            }
            if removal.is_draining {
                self.draining.insert(id);
            } else {
                self.draining.remove(&id);
                expect_absent(self.ipvs.delete_server(id))?;
            }
            drift += usize::from(!was_draining);
        }
        self.remove_addresses(&addresses)?;
        Ok(drift)
    }

    /// Plans Services again. Returns the servers that differ, and the former servers of the Services.
    fn replan(
        &mut self,
        plan: &Plan,
        services: &[ObjectKey],
    ) -> (BTreeSet<ServerId>, BTreeMap<ServerId, PlannedServer>) {
        let mut before: BTreeMap<ServerId, PlannedServer> = BTreeMap::new();
        for service in services {
            for id in self.ids_by_service.remove(service).unwrap_or_default() {
                before.extend(self.planned.remove(&id).map(|planned| (id, planned)));
            }
        }
        let mut changed: BTreeSet<ServerId> = before.keys().copied().collect();
        for service in services {
            let servers = servers_of(plan, service);
            let ids: Vec<ServerId> = servers.iter().map(|planned| planned.server.id).collect();
            for planned in servers {
                let id = planned.server.id;
                if before.get(&id) == Some(&planned) {
                    changed.remove(&id);
                } else {
                    changed.insert(id);
                }
                self.planned.insert(id, planned);
            }
            if !ids.is_empty() {
                self.ids_by_service.insert(service.clone(), ids);
            }
        }
        (changed, before)
    }

    /// Adds or changes a virtual server, and adds its destinations. Returns the number of differences.
    fn put(&mut self, planned: &PlannedServer, found: Option<&VirtualServer>) -> Result<usize, ServersError> {
        let id = planned.server.id;
        if planned.needs_address && self.addresses.insert(id.address) {
            self.link.add(id.address)?;
        }
        let mut differences = 0;
        if self.put_server(&planned.server, found)? {
            differences += 1;
        }
        let known = self.ipvs.destinations(id)?;
        for address in &planned.destinations {
            let known_destination = known.iter().find(|destination| destination.address == *address);
            if known_destination.is_some_and(|known| known.weight == WEIGHT && known.is_translated) {
                continue;
            }
            differences += 1;
            match self.ipvs.add_destination(id, *address, WEIGHT) {
                Err(error) if error.is_already_present() => {
                    self.ipvs.change_destination(id, *address, WEIGHT)?
                }
                added => added?,
            }
        }
        Ok(differences)
    }

    /// Adds or changes a virtual server without its destinations. Returns true if it differed.
    fn put_server(
        &mut self,
        server: &VirtualServer,
        found: Option<&VirtualServer>,
    ) -> Result<bool, ServersError> {
        let mut server = server.clone();
        if self.missing_schedulers.contains(&server.scheduler) {
            replace_scheduler(&mut server);
        }
        if found == Some(&server) {
            return Ok(false);
        }
        let written = self.write_server(&server);
        match written {
            Err(error) if error.is_scheduler_missing() && server.scheduler != FALLBACK_SCHEDULER => {
                tracing::warn!(scheduler = server.scheduler, %error, "scheduler not in this kernel; rr replaces it");
                self.missing_schedulers.insert(server.scheduler.clone());
                replace_scheduler(&mut server);
                self.write_server(&server)?;
            }
            written => written?,
        }
        Ok(true)
    }

    fn write_server(&mut self, server: &VirtualServer) -> Result<(), IpvsError> {
        match self.ipvs.add_server(server) {
            Err(error) if error.is_already_present() => self.ipvs.change_server(server),
            added => added,
        }
    }

    /// Removes destinations that are not desired.
    fn remove_former(
        &mut self,
        id: ServerId,
        desired: Option<&BTreeSet<SocketAddr>>,
    ) -> Result<Removal, ServersError> {
        let mut removal = Removal::default();
        let found = match self.ipvs.destinations(id) {
            Err(error) if error.is_absent() => Vec::new(),
            found => found?,
        };
        for destination in found {
            if desired.is_some_and(|desired| desired.contains(&destination.address)) {
                continue;
            }
            removal.live += usize::from(destination.weight != 0);
            let connections =
                u64::from(destination.active_connections) + u64::from(destination.inactive_connections);
            if id.protocol == tcp::PROTOCOL && connections > 0 {
                removal.is_draining = true;
                if destination.weight != 0 {
                    expect_absent(self.ipvs.change_destination(id, destination.address, 0))?;
                }
            } else {
                expect_absent(self.ipvs.delete_destination(id, destination.address))?;
            }
        }
        Ok(removal)
    }

    /// Removes those of the addresses that have no virtual server from the link.
    fn remove_addresses(&mut self, addresses: &BTreeSet<IpAddr>) -> Result<(), ServersError> {
        for address in addresses {
            if self.addresses.contains(address) && !self.needs(*address) {
                self.link.remove(*address)?;
                self.addresses.remove(address);
            }
        }
        Ok(())
    }

    /// Returns true if the link has to hold an address.
    fn needs(&self, address: IpAddr) -> bool {
        let id = |protocol, port| ServerId {
            address,
            protocol,
            port,
        };
        let servers = id(0, 0)..=id(u8::MAX, u16::MAX);
        let mut planned = self.planned.range(servers.clone());
        planned.any(|(_, planned)| planned.needs_address)
            || self.draining.range(servers).next().is_some()
            || self.excluded.iter().any(|range| range.contains(&address))
    }

    fn is_excluded(&self, id: &ServerId) -> bool {
        !self.planned.contains_key(id) && self.excluded.iter().any(|range| range.contains(&id.address))
    }
}

/// Result of [`Servers::remove_former`].
#[derive(Debug, Default)]
struct Removal {
    /// Number of removed destinations that received new connections before.
    live: usize,
    /// True if a destination stays until its connections end.
    is_draining: bool,
}

fn replace_scheduler(server: &mut VirtualServer) {
    FALLBACK_SCHEDULER.clone_into(&mut server.scheduler);
    server.scheduler_flags = 0;
}

/// Accepts that the object to delete does not exist.
fn expect_absent(deleted: Result<(), IpvsError>) -> Result<(), IpvsError> {
    match deleted {
        Err(error) if !error.is_absent() => Err(error),
        _ => Ok(()),
    }
}
