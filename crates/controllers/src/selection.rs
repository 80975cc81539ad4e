//! The selection of controllers, as in upstream's `--controllers`.

use std::collections::BTreeSet;

/// The scheduler's name in earlier versions, which `--controllers` still accepts.
const FORMER_SCHEDULER_NAME: &str = "pod-placement-controller";

/// A controller that can be enabled and disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// EndpointSlices of Services with a selector.
    EndpointSlice,
    /// Endpoints of Services with a selector.
    Endpoints,
    /// EndpointSlices that mirror manually written Endpoints.
    EndpointSliceMirroring,
    /// Scheduling of Pods in clusters without kube-scheduler.
    Scheduler,
    /// Deletion of objects without owners; foreground and orphan deletion.
    GarbageCollector,
    /// Finalizers and conditions of ServiceCIDRs.
    ServiceCidr,
    /// Conditions and taints of Nodes without heartbeats.
    NodeLifecycle,
    /// Health checks of non-Pod backends.
    BackendHealth,
    /// ReplicaSets of Deployments.
    Deployment,
    /// Pods of ReplicaSets.
    ReplicaSet,
    /// Pods of StatefulSets.
    StatefulSet,
    /// Pods of DaemonSets.
    DaemonSet,
    /// Pods of Jobs.
    Job,
    /// Pods of ReplicationControllers.
    ReplicationController,
    /// Eviction of Pods from Nodes with NoExecute taints.
    TaintEviction,
    /// Pod CIDRs of Nodes.
    NodeIpam,
    /// Approval of certificates for joining nodes.
    CertificateApproving,
    /// Signing of approved certificates.
    CertificateSigning,
    /// Deletion of expired certificate signing requests.
    CertificateCleaner,
    /// Deletion of expired bootstrap tokens.
    TokenCleaner,
    /// Imports of the Services that other clusters export.
    MultiClusterService,
}

impl Controller {
    /// All controllers.
    pub const ALL: [Self; 21] = [
        Self::EndpointSlice,
        Self::Endpoints,
        Self::EndpointSliceMirroring,
        Self::Scheduler,
        Self::GarbageCollector,
        Self::ServiceCidr,
        Self::NodeLifecycle,
        Self::BackendHealth,
        Self::Deployment,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::Job,
        Self::ReplicationController,
        Self::TaintEviction,
        Self::NodeIpam,
        Self::CertificateApproving,
        Self::CertificateSigning,
        Self::CertificateCleaner,
        Self::TokenCleaner,
        Self::MultiClusterService,
    ];

    /// Returns the name on the command line; upstream's where upstream has the controller.
    pub fn name(self) -> &'static str {
        match self {
            Self::EndpointSlice => "endpointslice-controller",
            Self::Endpoints => "endpoints-controller",
            Self::EndpointSliceMirroring => "endpointslice-mirroring-controller",
            Self::Scheduler => "scheduler",
            Self::GarbageCollector => "garbage-collector-controller",
            Self::ServiceCidr => "service-cidr-controller",
            Self::NodeLifecycle => "node-lifecycle-controller",
            Self::BackendHealth => "backend-health-controller",
            Self::Deployment => "deployment-controller",
            Self::ReplicaSet => "replicaset-controller",
            Self::StatefulSet => "statefulset-controller",
            Self::DaemonSet => "daemonset-controller",
            Self::Job => "job-controller",
            Self::ReplicationController => "replicationcontroller-controller",
            Self::TaintEviction => "taint-eviction-controller",
            Self::NodeIpam => "node-ipam-controller",
            Self::CertificateApproving => "certificatesigningrequest-approving-controller",
            Self::CertificateSigning => "certificatesigningrequest-signing-controller",
            Self::CertificateCleaner => "certificatesigningrequest-cleaner-controller",
            Self::TokenCleaner => "token-cleaner-controller",
            Self::MultiClusterService => "multicluster-service-controller",
        }
    }
}

impl Controller {
    /// Finds a controller by its name or a former name.
    fn find(name: &str) -> Option<Self> {
        if name == FORMER_SCHEDULER_NAME {
            return Some(Self::Scheduler);
        }
        Self::ALL.into_iter().find(|controller| controller.name() == name)
    }

    /// Returns the name of the work queue in metrics; upstream's where upstream has the queue.
    pub(crate) fn queue_name(self) -> &'static str {
        match self {
            Self::EndpointSlice => "endpoint_slice",
            Self::Endpoints => "endpoint",
            Self::EndpointSliceMirroring => "endpoint_slice_mirroring",
            Self::Scheduler => "pod_placement",
            Self::GarbageCollector => "garbage_collector_attempt_to_delete",
            Self::ServiceCidr => "servicecidrs",
            Self::NodeLifecycle => "node_lifecycle_controller",
            Self::BackendHealth => "backend_health",
            Self::Deployment => "deployment",
            Self::ReplicaSet => "replicaset",
            Self::StatefulSet => "statefulset",
            Self::DaemonSet => "daemonset",
            Self::Job => "job",
            Self::ReplicationController => "replicationmanager",
            Self::TaintEviction => "noexec_taint_pod",
            Self::NodeIpam => "cidrallocator_node",
            // The three share one queue.
            Self::CertificateApproving | Self::CertificateSigning | Self::CertificateCleaner => "certificate",
            Self::TokenCleaner => "token_cleaner",
            Self::MultiClusterService => "multicluster_service",
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

/// A name in a selection that is not a controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown controller {0:?}; expected {known}", known = Controller::ALL.map(Controller::name).join(", "))]
pub struct UnknownController(String);

impl Selection {
    /// Parses a list of `name` (enabled), `-name` (disabled) and `*` (all others enabled). The first mention
    /// of a name counts.
    ///
    /// # Errors
    /// Returns [`UnknownController`] for a name that is not a controller.
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
            let controller = Controller::find(name).ok_or_else(|| UnknownController(word.to_owned()))?;
            if named.insert(controller) && !word.starts_with('-') {
                chosen.insert(controller);
            }
        }
        if all {
            chosen.extend(
                Controller::ALL
                    .into_iter()
                    .filter(|controller| !named.contains(controller)),
            );
        }
        Ok(Self(chosen))
    }

    /// Returns true if the controller is enabled.
    pub fn contains(&self, controller: Controller) -> bool {
        self.0.contains(&controller)
    }

    /// Returns true if any of the controllers is enabled.
    pub fn contains_any(&self, controllers: &[Controller]) -> bool {
        controllers.iter().any(|controller| self.contains(*controller))
    }

    /// Returns the number of enabled controllers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no controller is enabled.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
