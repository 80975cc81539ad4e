//! Merge of the exports of a Service: the oldest export decides, except for ports, which are merged.

mod metadata;
mod ports;

use std::collections::{BTreeMap, BTreeSet};

use api::object::{EndpointSlice, ImportPort, Labels, Service, ServiceExport, ServiceImportSpec};
use jiff::Timestamp;

use super::cluster_id::ClusterId;

pub(super) use ports::{AcceptedPorts, accepted_by};

/// Type of an import with clusterset IPs.
pub(super) const CLUSTER_SET_IP: &str = "ClusterSetIP";
/// Type of an import without them.
pub(super) const HEADLESS: &str = "Headless";

/// A valid export of one cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterExport<'a> {
    /// The exporting cluster.
    pub(super) cluster: &'a ClusterId,
    /// ServiceExport of the Service.
    pub(super) export: &'a ServiceExport,
    /// The exported Service.
    pub(super) service: &'a Service,
    /// EndpointSlices of the Service; empty while they are withdrawn.
    pub(super) slices: Vec<&'a EndpointSlice>,
}

impl ClusterExport<'_> {
    /// Returns the order of exports: by age, then by cluster. An export without a valid time is the youngest.
    fn order(&self) -> (bool, Option<Timestamp>, &ClusterId) {
        let created = self.export.metadata.creation_timestamp.as_deref();
        let created = created.and_then(|time| time.parse::<Timestamp>().ok());
        (created.is_none(), created, self.cluster)
    }

    fn kind(&self) -> &'static str {
        if self.service.spec.is_headless() {
            HEADLESS
        } else {
            CLUSTER_SET_IP
        }
    }

    fn affinity(&self) -> &str {
        match self.service.spec.session_affinity.as_str() {
            "" => "None",
            affinity => affinity,
        }
    }

    fn internal_policy(&self) -> &str {
        let policy = self.service.spec.internal_traffic_policy.as_deref();
        policy.unwrap_or("Cluster")
    }

    fn families(&self) -> BTreeSet<&str> {
        let families = self.service.spec.ip_families.iter();
        families.map(String::as_str).collect()
    }
}

/// Properties in which exports may differ, in the order of the reasons of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Property {
    Ports,
    Type,
    SessionAffinity,
    SessionAffinityConfig,
    Annotations,
    Labels,
    InternalTrafficPolicy,
    TrafficDistribution,
    IpFamilies,
}

impl Property {
    /// Returns the reason of the condition `Conflict`.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Ports => "PortConflict",
            Self::Type => "TypeConflict",
            Self::SessionAffinity => "SessionAffinityConflict",
            Self::SessionAffinityConfig => "SessionAffinityConfigConflict",
            Self::Annotations => "AnnotationsConflict",
            Self::Labels => "LabelsConflict",
            Self::InternalTrafficPolicy => "InternalTrafficPolicyConflict",
            Self::TrafficDistribution => "TrafficDistributionConflict",
            Self::IpFamilies => "IPFamilyConflict",
        }
    }

    /// Returns the name of the property for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ports => "ports",
            Self::Type => "type",
            Self::SessionAffinity => "sessionAffinity",
            Self::SessionAffinityConfig => "sessionAffinityConfig",
            Self::Annotations => "exportedAnnotations",
            Self::Labels => "exportedLabels",
            Self::InternalTrafficPolicy => "internalTrafficPolicy",
            Self::TrafficDistribution => "trafficDistribution",
            Self::IpFamilies => "ipFamilies",
        }
    }

    fn differs(self, oldest: &ClusterExport<'_>, other: &ClusterExport<'_>) -> bool {
        let (mine, theirs) = (&oldest.service.spec, &other.service.spec);
        match self {
            // The union of the ports decides.
            Self::Ports => false,
            Self::Type => oldest.kind() != other.kind(),
            Self::SessionAffinity => oldest.affinity() != other.affinity(),
            Self::SessionAffinityConfig => mine.session_affinity_config != theirs.session_affinity_config,
            Self::Annotations => {
                oldest.export.spec.exported_annotations != other.export.spec.exported_annotations
            }
            Self::Labels => oldest.export.spec.exported_labels != other.export.spec.exported_labels,
            Self::InternalTrafficPolicy => oldest.internal_policy() != other.internal_policy(),
            Self::TrafficDistribution => mine.traffic_distribution != theirs.traffic_distribution,
            Self::IpFamilies => oldest.families() != other.families(),
        }
    }
}

/// Properties that each export resolves by its age.
const BY_AGE: [Property; 8] = [
    Property::Type,
    Property::SessionAffinity,
    Property::SessionAffinityConfig,
    Property::Annotations,
    Property::Labels,
    Property::InternalTrafficPolicy,
    Property::TrafficDistribution,
    Property::IpFamilies,
];

/// The merged exports of a Service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resolution {
    /// Desired spec of the ServiceImport, without clusterset IPs.
    pub(super) spec: ServiceImportSpec,
    /// Labels of the ServiceImport.
    pub(super) labels: Labels,
    /// Annotations of the ServiceImport.
    pub(super) annotations: Labels,
    /// Cluster with the oldest export.
    pub(super) oldest: ClusterId,
    /// Properties in which clusters differ from the oldest export.
    pub(super) conflicts: BTreeMap<Property, BTreeSet<ClusterId>>,
    /// Ports whose endpoints each cluster contributes.
    pub(super) accepted: BTreeMap<ClusterId, AcceptedPorts>,
}

/// Merges exports; `None` if there are no exports.
pub(super) fn resolve(exports: &[ClusterExport<'_>]) -> Option<Resolution> {
    let mut sorted: Vec<&ClusterExport<'_>> = exports.iter().collect();
    sorted.sort_by(|a, b| a.order().cmp(&b.order()));
    let oldest = *sorted.first()?;
    let mut conflicts: BTreeMap<Property, BTreeSet<ClusterId>> = BTreeMap::new();
    for other in sorted.iter().skip(1) {
        for property in BY_AGE
            .into_iter()
            .filter(|property| property.differs(oldest, other))
        {
            conflicts
                .entry(property)
                .or_default()
                .insert(other.cluster.clone());
        }
    }
    let merged = ports::merge(&sorted);
    if !merged.refused.is_empty() {
        conflicts.insert(Property::Ports, merged.refused);
    }
    Some(Resolution {
        spec: spec(oldest, merged.ports),
        labels: metadata::labels(&oldest.export.spec.exported_labels),
        annotations: metadata::annotations(&oldest.export.spec.exported_annotations),
        oldest: oldest.cluster.clone(),
        conflicts,
        accepted: merged.accepted,
    })
}

fn spec(oldest: &ClusterExport<'_>, ports: Vec<ImportPort>) -> ServiceImportSpec {
    let service = &oldest.service.spec;
    ServiceImportSpec {
        ports,
        ips: Vec::new(),
        kind: oldest.kind().to_owned(),
        session_affinity: oldest.affinity().to_owned(),
        session_affinity_config: service.session_affinity_config.clone(),
        ip_families: service.ip_families.clone(),
        internal_traffic_policy: service.internal_traffic_policy.clone(),
        traffic_distribution: service.traffic_distribution.clone(),
    }
}

#[cfg(test)]
mod tests;
