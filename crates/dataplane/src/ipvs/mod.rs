//! IPVS mode: virtual servers choose endpoints, and the rules of nftables decide about access and masquerading.
//!
//! Each address and port of a Service that IPVS can serve has a virtual server (`planner`). The link `kube-ipvs0` holds
//! the address, so that this node accepts its packets (`link`). The table of nftables mode accepts these connections
//! instead of translating them. It decides about reject, drop, source ranges, masquerading and echo requests. It also
//! translates the connections that a virtual server cannot serve (`nftables::delegation`).
//!
//! A change adds virtual servers, then writes the rules, then removes virtual servers. If IPVS is not usable,
//! [`IpvsDataplane`] is nftables mode, and [`Dataplane::fault`] returns the reason.

mod kernel_settings;
mod link;
mod planner;
mod servers;

use ipnet::IpNet;
use netlink::ipvs::{Ipvs, IpvsError};
use netlink::nftables::{ExternalChange, Monitor};
use netlink::route::RouteError;
use plan::{Changes, Plan, Scheduler};

use crate::nftables::{self, NftablesDataplane};
use crate::{Applied, Counts, Dataplane, DataplaneError};

use link::ServiceLink;
use servers::{PendingServerChanges, Servers, ServersError};

pub use link::NAME as LINK;
pub use netlink::ipvs::Timeouts;

/// Options of the data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Name of the nftables table.
    pub table: String,
    /// Virtual servers at these addresses belong to others and are not removed (KPF-23).
    pub excluded: Vec<IpNet>,
    /// True if interfaces answer ARP requests for their own addresses only (KPF-24).
    pub strict_arp: bool,
    /// Timeouts of connections (KPF-25).
    pub timeouts: Timeouts,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: nftables::Options::default().table,
            excluded: Vec::new(),
            strict_arp: false,
            timeouts: Timeouts::default(),
        }
    }
}

/// Reasons why objects of IPVS mode are not removed.
#[derive(Debug, thiserror::Error)]
pub enum CleanupError {
    /// The virtual servers could not be deleted.
    #[error(transparent)]
    Servers(#[from] IpvsError),
    /// The link could not be deleted.
    #[error(transparent)]
    Link(#[from] RouteError),
}

/// Deletes the link of IPVS mode, also that of kube-proxy, and leaves the virtual servers. Returns true if it existed.
///
/// # Errors
///
/// A [`RouteError`] if the kernel refuses.
pub fn remove_link() -> Result<bool, RouteError> {
    ServiceLink::delete(false)
}

/// Deletes the link of IPVS mode, also that of kube-proxy, and all virtual servers if there is such a link. Returns true if
/// it existed.
///
/// # Errors
///
/// A [`CleanupError`] if the kernel refuses.
pub fn cleanup() -> Result<bool, CleanupError> {
    Ok(ServiceLink::delete(false)? && flush()?)
}

/// Deletes the link of this mode, but not kube-proxy's, and all virtual servers if there is such a link. Returns true if it
/// existed.
///
/// # Errors
///
/// A [`CleanupError`] if the kernel refuses.
pub fn cleanup_own() -> Result<bool, CleanupError> {
    Ok(ServiceLink::delete(true)? && flush()?)
}

/// Deletes all virtual servers. Returns true.
fn flush() -> Result<bool, CleanupError> {
    match Ipvs::open() {
        Ok(mut ipvs) => ipvs.flush()?,
        Err(IpvsError::Missing) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}

/// Virtual servers with an nftables table.
#[derive(Debug)]
pub struct IpvsDataplane {
    rules: NftablesDataplane,
    options: Options,
    /// Virtual servers; `None` if IPVS is not usable.
    servers: Option<Servers>,
    /// True if the virtual servers are those of the plan.
    is_in_sync: bool,
    /// Reason why a part is not in use.
    fault: Option<String>,
}

impl IpvsDataplane {
    /// Connects to the kernel and writes its parameters; adds no virtual server yet. Without IPVS, the data plane is
    /// that of nftables mode.
    ///
    /// # Errors
    ///
    /// [`DataplaneError`] if nftables is not usable.
    pub fn open(options: Options) -> Result<Self, DataplaneError> {
        let rules = NftablesDataplane::open(nftables::Options {
            table: options.table.clone(),
        })?;
        let mut dataplane = Self {
            rules,
            options,
            servers: None,
            is_in_sync: false,
            fault: None,
        };
        dataplane.open_servers();
        Ok(dataplane)
    }

    fn open_servers(&mut self) {
        let options = &self.options;
        match Servers::open(options.excluded.clone(), options.strict_arp, options.timeouts) {
            Ok(servers) => {
                self.servers = Some(servers);
                self.is_in_sync = false;
                self.fault = None;
                self.rules.delegate_to_virtual_servers(true);
            }
            Err(error) => self.fall_back(&error),
        }
    }

    /// Ends the use of IPVS: the rules of nftables serve all connections. Connections of virtual servers continue.
    fn fall_back(&mut self, error: &ServersError) {
        let fault = error.to_string();
        if self.fault.as_ref() != Some(&fault) {
            tracing::warn!(%error, "IPVS not usable; nftables serves all connections");
        }
        self.servers = None;
        self.is_in_sync = false;
        self.fault = Some(fault);
        self.rules.delegate_to_virtual_servers(false);
    }

    /// Adds virtual servers and destinations that the new rules need.
    fn begin(&mut self, plan: &Plan, changes: &Changes) -> Option<PendingServerChanges> {
        let servers = self.servers.as_mut()?;
        let begun = if !self.is_in_sync || changes.needs_full_write {
            servers.begin_all(plan)
        } else {
            servers.begin(plan, &changes.services).or_else(|error| {
                tracing::warn!(%error, "virtual servers changed by another program; reading them back");
                servers.begin_all(plan)
            })
        };
        match begun {
            Ok(pending) => {
                self.is_in_sync = true;
                Some(pending)
            }
            Err(error) => {
                self.fall_back(&error);
                None
            }
        }
    }

    /// Removes virtual servers and destinations that the rules no longer use. Returns the number of unexpected
    /// differences; `None` if IPVS is not usable.
    fn finish(&mut self, pending: Option<PendingServerChanges>) -> Option<usize> {
        let (servers, pending) = (self.servers.as_mut()?, pending?);
        match servers.finish(pending) {
            Ok(drift) => {
                self.fault = None;
                Some(drift)
            }
            Err(error) => {
                self.fall_back(&error);
                None
            }
        }
    }
}

impl Dataplane for IpvsDataplane {
    fn apply(&mut self, plan: &Plan, changes: &Changes) -> Result<Applied, DataplaneError> {
        let pending = self.begin(plan, changes);
        let servers = pending.as_ref().map_or(0, PendingServerChanges::servers);
        let written = self.rules.apply(plan, changes);
        if written.is_err() {
            // Pending removals are found again.
            self.is_in_sync = false;
        }
        let mut applied = written?;
        let has_servers = pending.is_some();
        if self.finish(pending).is_none() && has_servers {
            // The rules take over from virtual servers.
            applied = self.rules.apply(plan, changes)?;
        }
        applied.elements += servers;
        Ok(applied)
    }

    fn repair(&mut self, plan: &Plan) -> Result<usize, DataplaneError> {
        if self.servers.is_none() {
            self.open_servers();
            if self.servers.is_some() {
                self.apply(plan, &Changes::default())?;
                return Ok(0);
            }
        }
        let was_in_sync = self.is_in_sync;
        self.is_in_sync = false;
        let pending = self.begin(plan, &Changes::default());
        let repaired = self.rules.repair(plan)?;
        let has_servers = pending.is_some();
        let drift = self.finish(pending);
        if drift.is_none() && has_servers {
            self.rules.apply(plan, &Changes::default())?;
        }
        Ok(repaired + drift.filter(|_| was_in_sync).unwrap_or(0))
    }

    fn watch(&mut self) -> std::io::Result<Option<Monitor>> {
        self.rules.watch()
    }

    fn repair_external(&mut self, plan: &Plan, changes: &[ExternalChange]) -> Result<usize, DataplaneError> {
        self.rules.repair_external(plan, changes)
    }

    fn counts(&self) -> Counts {
        self.rules.counts()
    }

    fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    fn answers_ping(&self) -> bool {
        self.rules.answers_ping()
    }

    fn supports(&self, scheduler: Scheduler) -> bool {
        match &self.servers {
            Some(servers) => servers.supports(scheduler),
            None => self.rules.supports(scheduler),
        }
    }
}
