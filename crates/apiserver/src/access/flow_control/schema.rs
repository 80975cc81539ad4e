//! Flow schemas and priority levels, which select the seats of a request.
//!
//! Names, precedence and shares are upstream's suggested and mandatory configuration
//! (`apiserver/pkg/apis/flowcontrol/bootstrap/default.go`), and are not configurable. `portolan-parts` is Portolan's
//! own schema for its components, which upstream would run as ServiceAccounts in `kube-system`.

use crate::access::authentication::{AUTHENTICATED, Identity, SERVICE_ACCOUNTS};
use crate::limited_pool::ReserveAccess;

/// Priority level: requests that share seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PriorityLevel {
    Exempt,
    NodeHigh,
    System,
    LeaderElection,
    WorkloadHigh,
    WorkloadLow,
    GlobalDefault,
    CatchAll,
}

/// Flow schema of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlowSchema {
    Exempt,
    SystemLeaderElection,
    EndpointController,
    WorkloadLeaderElection,
    SystemNodeHigh,
    SystemNodes,
    KubeControllerManager,
    KubeScheduler,
    PortolanParts,
    KubeSystemServiceAccounts,
    ServiceAccounts,
    GlobalDefault,
    CatchAll,
}

/// Attributes of a request that select its flow schema.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Subject<'r> {
    pub(crate) verb: &'r str,
    /// API group and resource; "" for paths without objects.
    pub(crate) group: &'r str,
    pub(crate) resource: &'r str,
}

impl PriorityLevel {
    pub(crate) const ALL: [PriorityLevel; 8] = [
        PriorityLevel::Exempt,
        PriorityLevel::NodeHigh,
        PriorityLevel::System,
        PriorityLevel::LeaderElection,
        PriorityLevel::WorkloadHigh,
        PriorityLevel::WorkloadLow,
        PriorityLevel::GlobalDefault,
        PriorityLevel::CatchAll,
    ];

    /// Returns the name, as in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PriorityLevel::Exempt => "exempt",
            PriorityLevel::NodeHigh => "node-high",
            PriorityLevel::System => "system",
            PriorityLevel::LeaderElection => "leader-election",
            PriorityLevel::WorkloadHigh => "workload-high",
            PriorityLevel::WorkloadLow => "workload-low",
            PriorityLevel::GlobalDefault => "global-default",
            PriorityLevel::CatchAll => "catch-all",
        }
    }

    /// Returns the share of all seats (`nominalConcurrencyShares`).
    pub(crate) fn shares(self) -> u32 {
        match self {
            PriorityLevel::Exempt => 0,
            PriorityLevel::NodeHigh => 40,
            PriorityLevel::System => 30,
            PriorityLevel::LeaderElection => 10,
            PriorityLevel::WorkloadHigh => 40,
            PriorityLevel::WorkloadLow => 100,
            PriorityLevel::GlobalDefault => 20,
            PriorityLevel::CatchAll => 5,
        }
    }

    /// Returns the maximum number of queued requests: upstream's `queues` times `queueLengthLimit`.
    pub(crate) fn queued_max(self) -> usize {
        match self {
            PriorityLevel::Exempt | PriorityLevel::CatchAll => 0,
            PriorityLevel::LeaderElection => 16 * 50,
            PriorityLevel::NodeHigh | PriorityLevel::System => 64 * 50,
            PriorityLevel::WorkloadHigh | PriorityLevel::WorkloadLow | PriorityLevel::GlobalDefault => {
                128 * 50
            }
        }
    }

    /// Returns the maximum number of queued requests of one user: upstream's `handSize` times `queueLengthLimit`.
    pub(crate) fn queued_per_user_max(self) -> usize {
        match self {
            PriorityLevel::LeaderElection => 4 * 50,
            _ => 6 * 50,
        }
    }

    /// Returns the access to capacity that is reserved for components of the cluster, such as memory for bodies.
    pub(crate) fn reserve_access(self) -> ReserveAccess {
        match self {
            PriorityLevel::Exempt => ReserveAccess::Exempt,
            PriorityLevel::NodeHigh
            | PriorityLevel::System
            | PriorityLevel::LeaderElection
            | PriorityLevel::WorkloadHigh => ReserveAccess::Reserved,
            PriorityLevel::WorkloadLow | PriorityLevel::GlobalDefault | PriorityLevel::CatchAll => {
                ReserveAccess::Common
            }
        }
    }
}

impl FlowSchema {
    pub(crate) const ALL: [FlowSchema; 13] = [
        FlowSchema::Exempt,
        FlowSchema::SystemLeaderElection,
        FlowSchema::EndpointController,
        FlowSchema::WorkloadLeaderElection,
        FlowSchema::SystemNodeHigh,
        FlowSchema::SystemNodes,
        FlowSchema::KubeControllerManager,
        FlowSchema::KubeScheduler,
        FlowSchema::PortolanParts,
        FlowSchema::KubeSystemServiceAccounts,
        FlowSchema::ServiceAccounts,
        FlowSchema::GlobalDefault,
        FlowSchema::CatchAll,
    ];

    /// Returns the name, as in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FlowSchema::Exempt => "exempt",
            FlowSchema::SystemLeaderElection => "system-leader-election",
            FlowSchema::EndpointController => "endpoint-controller",
            FlowSchema::WorkloadLeaderElection => "workload-leader-election",
            FlowSchema::SystemNodeHigh => "system-node-high",
            FlowSchema::SystemNodes => "system-nodes",
            FlowSchema::KubeControllerManager => "kube-controller-manager",
            FlowSchema::KubeScheduler => "kube-scheduler",
            FlowSchema::PortolanParts => "portolan-parts",
            FlowSchema::KubeSystemServiceAccounts => "kube-system-service-accounts",
            FlowSchema::ServiceAccounts => "service-accounts",
            FlowSchema::GlobalDefault => "global-default",
            FlowSchema::CatchAll => "catch-all",
        }
    }

    /// Returns the priority level of the requests.
    pub(crate) fn level(self) -> PriorityLevel {
        match self {
            FlowSchema::Exempt => PriorityLevel::Exempt,
            FlowSchema::SystemLeaderElection | FlowSchema::WorkloadLeaderElection => {
                PriorityLevel::LeaderElection
            }
            FlowSchema::SystemNodeHigh => PriorityLevel::NodeHigh,
            FlowSchema::SystemNodes => PriorityLevel::System,
            FlowSchema::EndpointController
            | FlowSchema::KubeControllerManager
            | FlowSchema::KubeScheduler
            | FlowSchema::PortolanParts
            | FlowSchema::KubeSystemServiceAccounts => PriorityLevel::WorkloadHigh,
            FlowSchema::ServiceAccounts => PriorityLevel::WorkloadLow,
            FlowSchema::GlobalDefault => PriorityLevel::GlobalDefault,
            FlowSchema::CatchAll => PriorityLevel::CatchAll,
        }
    }

    /// Returns the first schema that matches a request, in upstream's order of precedence.
    pub(crate) fn of(user: &Identity, subject: Subject<'_>) -> FlowSchema {
        if user.is_privileged() {
            return FlowSchema::Exempt;
        }
        let is_member = |group: &str| user.groups.iter().any(|own| own == group);
        let is_lease = subject.group == "coordination.k8s.io" && subject.resource == "leases";
        let is_election = is_lease && matches!(subject.verb, "get" | "create" | "update" | "patch");
        let name = user.user.as_str();
        let is_manager = name == "system:kube-controller-manager";
        let is_scheduler = name == "system:kube-scheduler";
        let is_in_kube_system = name.starts_with("system:serviceaccount:kube-system:");
        let is_component = is_component(name);
        if is_election && (is_manager || is_scheduler) {
            return FlowSchema::SystemLeaderElection;
        }
        if is_election && (is_in_kube_system || is_component) {
            return FlowSchema::WorkloadLeaderElection;
        }
        if is_member("system:nodes") {
            let is_high = is_lease || (subject.group.is_empty() && subject.resource == "nodes");
            return if is_high {
                FlowSchema::SystemNodeHigh
            } else {
                FlowSchema::SystemNodes
            };
        }
        if is_manager {
            return if subject.resource == "endpoints" {
                FlowSchema::EndpointController
            } else {
                FlowSchema::KubeControllerManager
            };
        }
        if is_scheduler {
            FlowSchema::KubeScheduler
        } else if is_component {
            FlowSchema::PortolanParts
        } else if is_in_kube_system {
            FlowSchema::KubeSystemServiceAccounts
        } else if is_member(SERVICE_ACCOUNTS) {
            FlowSchema::ServiceAccounts
        } else if is_member(AUTHENTICATED) || user.is_anonymous() {
            FlowSchema::GlobalDefault
        } else {
            FlowSchema::CatchAll
        }
    }
}

/// Returns true for components of Portolan, and for components of a node (`system:kube-proxy:NODE`). Only the
/// cluster CA can issue names with these prefixes.
fn is_component(user: &str) -> bool {
    let is_or_has_suffix = |name| {
        user.strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    user.starts_with("system:portolan-")
        || is_or_has_suffix("system:kube-proxy")
        || is_or_has_suffix("system:kube-dns")
}

#[cfg(test)]
mod tests;
