//! Which controllers run, chosen as upstream's `--controllers` does.

use std::collections::BTreeSet;

/// A controller that can be switched on and off by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// EndpointSlices of Services with a selector.
    EndpointSlice,
    /// Endpoints of Services with a selector.
    Endpoints,
    /// EndpointSlices of Endpoints that somebody else writes.
    EndpointSliceMirroring,
    /// A Node for Pods that have none; for clusters without a scheduler.
    PodPlacement,
    /// Deletion of what lost its owners, and owners that go after their dependents or without them.
    GarbageCollector,
    /// Finalizers and conditions of ServiceCIDRs.
    ServiceCidr,
    /// Nodes that fall silent, and what runs on them.
    NodeLifecycle,
    /// Health of addresses that are no Pods, in slices made for them.
    BackendHealth,
    /// ReplicaSets of Deployments.
    Deployment,
    /// Pods of ReplicaSets.
    ReplicaSet,
    /// Ranges for the Pods of Nodes.
    NodeIpam,
    /// Approval of certificates for machines that join.
    CertificateApproving,
    /// Signing of what was approved.
    CertificateSigning,
    /// Removal of requests for certificates that are over.
    CertificateCleaner,
    /// Removal of bootstrap tokens that have expired.
    TokenCleaner,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::EndpointSlice,
        Self::Endpoints,
        Self::EndpointSliceMirroring,
        Self::PodPlacement,
        Self::GarbageCollector,
        Self::ServiceCidr,
        Self::NodeLifecycle,
        Self::BackendHealth,
        Self::Deployment,
        Self::ReplicaSet,
        Self::NodeIpam,
        Self::CertificateApproving,
        Self::CertificateSigning,
        Self::CertificateCleaner,
        Self::TokenCleaner,
    ];

    /// The name on the command line; upstream's where upstream has the controller.
    pub fn name(self) -> &'static str {
        match self {
            Self::EndpointSlice => "endpointslice-controller",
            Self::Endpoints => "endpoints-controller",
            Self::EndpointSliceMirroring => "endpointslice-mirroring-controller",
            Self::PodPlacement => "pod-placement-controller",
            Self::GarbageCollector => "garbage-collector-controller",
            Self::ServiceCidr => "service-cidr-controller",
            Self::NodeLifecycle => "node-lifecycle-controller",
            Self::BackendHealth => "backend-health-controller",
            Self::Deployment => "deployment-controller",
            Self::ReplicaSet => "replicaset-controller",
            Self::NodeIpam => "node-ipam-controller",
            Self::CertificateApproving => "certificatesigningrequest-approving-controller",
            Self::CertificateSigning => "certificatesigningrequest-signing-controller",
            Self::CertificateCleaner => "certificatesigningrequest-cleaner-controller",
            Self::TokenCleaner => "token-cleaner-controller",
        }
    }
}

impl Controller {
    /// The name of the controller's queue in metrics; upstream's where upstream has the queue.
    pub(crate) fn queue_name(self) -> &'static str {
        match self {
            Self::EndpointSlice => "endpoint_slice",
            Self::Endpoints => "endpoint",
            Self::EndpointSliceMirroring => "endpoint_slice_mirroring",
            Self::PodPlacement => "pod_placement",
            Self::GarbageCollector => "garbage_collector_attempt_to_delete",
            Self::ServiceCidr => "servicecidrs",
            Self::NodeLifecycle => "node_lifecycle_controller",
            Self::BackendHealth => "backend_health",
            Self::Deployment => "deployment",
            Self::ReplicaSet => "replicaset",
            Self::NodeIpam => "cidrallocator_node",
            // One queue has the work of the three.
            Self::CertificateApproving | Self::CertificateSigning | Self::CertificateCleaner => "certificate",
            Self::TokenCleaner => "token_cleaner",
        }
    }
}

/// A set of controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(BTreeSet<Controller>);

impl Default for Selection {
    fn default() -> Self {
        Self(Controller::ALL.into())
    }
}

/// A word in a selection that names no controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a controller; there are {known}", known = Controller::ALL.map(Controller::name).join(", "))]
pub struct UnknownController(String);

impl Selection {
    /// Reads a list of `name` (runs), `-name` (does not run) and `*` (all that are not named run).
    /// A name's first mention counts.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, UnknownController> {
        let mut chosen = BTreeSet::new();
        let mut named = BTreeSet::new();
        let mut all = false;
        for word in words.iter().map(|word| word.as_ref().trim()) {
            if word == "*" {
                all = true;
                continue;
            }
            let name = word.strip_prefix('-').unwrap_or(word);
            let controller = Controller::ALL.into_iter().find(|c| c.name() == name);
            let controller = controller.ok_or_else(|| UnknownController(word.to_owned()))?;
            if named.insert(controller) && !word.starts_with('-') {
                chosen.insert(controller);
            }
        }
        if all {
            chosen.extend(Controller::ALL.into_iter().filter(|c| !named.contains(c)));
        }
        Ok(Self(chosen))
    }

    /// Whether the controller runs.
    pub fn contains(&self, controller: Controller) -> bool {
        self.0.contains(&controller)
    }

    /// Whether any of these runs.
    pub fn contains_any(&self, controllers: &[Controller]) -> bool {
        controllers.iter().any(|controller| self.contains(*controller))
    }

    /// How many run.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none runs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
