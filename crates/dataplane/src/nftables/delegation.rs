//! Delegation of the endpoint choice from the rules to listeners of this process, or to IPVS virtual servers. Access
//! rules and masquerading stay with the rules.

use plan::{EndpointSet, Frontend, Origin, Scheduler, ServicePortPlan, Target};

use super::local_redirects::LocalRedirects;

/// Part that chooses endpoints.
#[derive(Debug, Default)]
pub(crate) enum Delegation {
    /// The rules.
    #[default]
    None,
    /// Listeners of this process, in userspace mode.
    Listeners(LocalRedirects),
    /// Virtual servers, for the frontends that have one ([`virtual_set`]). Addresses of these frontends belong to this
    /// node.
    VirtualServers,
}

impl Delegation {
    /// Returns the listeners.
    pub(super) fn local_redirects(&self) -> Option<&LocalRedirects> {
        match self {
            Self::Listeners(local_redirects) => Some(local_redirects),
            Self::None | Self::VirtualServers => None,
        }
    }

    /// Returns true if virtual servers choose endpoints.
    pub(super) fn has_virtual_servers(&self) -> bool {
        matches!(self, Self::VirtualServers)
    }
}

/// Returns the endpoint set that a virtual server for a frontend needs; `None` if the rules serve it.
///
/// A virtual server has one set for all clients. The rules serve clients of another origin whose set differs. The
/// rules also serve port ranges, Services that end connections, and the scheduler `random`: IPVS can neither end
/// connections nor choose at random.
pub(crate) fn virtual_set(port: &ServicePortPlan, frontend: &Frontend) -> Option<EndpointSet> {
    let ends_connections = port.drain_seconds.is_some()
        || port.connection_age_max_seconds.is_some()
        || port.rebalance_percent.is_some();
    if port.is_range || ends_connections || port.scheduler == Scheduler::Random {
        return None;
    }
    Origin::ALL
        .into_iter()
        .find_map(|origin| match frontend.target(origin) {
            Target::Balance { set, .. } if !port.backends(set).is_empty() => Some(set),
            Target::Balance { .. } | Target::Reject | Target::Drop => None,
        })
}

#[cfg(test)]
mod tests;
