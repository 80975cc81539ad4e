//! Decision about one import: the state that the objects of this cluster should have.

use std::collections::{BTreeMap, BTreeSet};

use api::multicluster::SOURCE_CLUSTER_LABEL;
use api::object::{EndpointSlice, ObjectKey, Service, ServiceExport, ServiceImport};

use super::cluster_id::ClusterId;
use super::conditions::{self, State, Validity};
use super::names;
use super::observed::is_derived;
use super::resolution::{self, AcceptedPorts, ClusterExport, Resolution};
use super::slices::{Mirror, SLICES_MAX};

/// Knowledge about a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Availability {
    /// True after its first complete lists.
    pub(super) is_known: bool,
    /// Reachability of its API server.
    pub(super) reachability: Reachability,
}

/// Reachability of an API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reachability {
    /// The server responds.
    #[default]
    Reachable,
    /// The server does not respond; the last known endpoints of its cluster stay.
    Unreachable,
    /// The server has not responded during the grace period; the endpoints of its cluster are removed.
    Lost,
}

/// State of one Service in one cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterState<'a> {
    pub(super) cluster: &'a ClusterId,
    pub(super) availability: Availability,
    pub(super) export: Option<&'a ServiceExport>,
    pub(super) service: Option<&'a Service>,
    pub(super) slices: Vec<&'a EndpointSlice>,
}

/// Input of the decision about one import.
#[derive(Clone, Debug)]
pub(super) struct Inputs<'a> {
    /// Namespace and name of the import.
    pub(super) key: &'a ObjectKey,
    /// True if the namespace exists here and is not terminating.
    pub(super) has_namespace: bool,
    /// Name of the local cluster.
    pub(super) local: &'a ClusterId,
    /// All clusters of the set, with this one.
    pub(super) clusters: Vec<ClusterState<'a>>,
    /// The current import.
    pub(super) import: Option<&'a ServiceImport>,
    /// Clusters that the current import or its mirrored slices name.
    pub(super) importing: BTreeSet<&'a str>,
}

/// Returns the clusters in the status of an import and those of its mirrored slices. The slices count because a
/// process can exit before the first write of the status.
pub(super) fn exporting_clusters<'a>(
    import: Option<&'a ServiceImport>,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
) -> BTreeSet<&'a str> {
    let listed = import.into_iter().flat_map(|import| &import.status.clusters);
    let sources = slices
        .into_iter()
        .filter_map(|slice| slice.metadata.labels.get(SOURCE_CLUSTER_LABEL));
    listed
        .map(|cluster| cluster.cluster.as_str())
        .chain(sources.map(String::as_str))
        .collect()
}

/// The desired state of an import.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DesiredImport {
    pub(super) key: ObjectKey,
    pub(super) import: Import,
    /// Conditions of the ServiceExport of this cluster; `None` without one. `Conflict` is not among them while the
    /// import is held.
    pub(super) export: Option<Vec<State>>,
}

/// The desired objects of an import.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Import {
    /// None: no cluster exports the Service, or the namespace does not exist.
    Absent,
    /// The spec stays, because an exporting cluster was not read since the start.
    Held {
        /// Clusters whose existing slices remain.
        kept: BTreeSet<ClusterId>,
        /// Mirrored slices of the other clusters by name.
        slices: BTreeMap<String, EndpointSlice>,
        /// Exporting clusters, as far as they are known.
        clusters: BTreeSet<ClusterId>,
        reachability: State,
    },
    /// The import exists, with these objects.
    Present(Box<PresentImport>),
}

/// The desired objects of an import that exists.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PresentImport {
    pub(super) resolution: Resolution,
    /// Name of the derived Service; `None` for a headless import.
    pub(super) derived: Option<String>,
    /// Mirrored slices by name.
    pub(super) slices: BTreeMap<String, EndpointSlice>,
    /// Exporting clusters.
    pub(super) clusters: BTreeSet<ClusterId>,
    pub(super) reachability: State,
}

/// Decides about an import.
pub(super) fn decide(inputs: &Inputs<'_>) -> DesiredImport {
    let exports: Vec<ClusterExport<'_>> = inputs.clusters.iter().filter_map(valid_export).collect();
    let resolution = resolution::resolve(&exports);
    let import = import(inputs, &exports, resolution.as_ref());
    let local = inputs.clusters.iter().find(|state| state.cluster == inputs.local);
    // While a cluster is unread, its conflicts are unknown.
    let is_held = matches!(import, Import::Held { .. });
    let export = local.and_then(|state| {
        state.export?;
        let validity = validity(state.service);
        let resolution = resolution
            .as_ref()
            .filter(|_| validity == Validity::Valid && !is_held);
        Some(conditions::export_conditions(validity, resolution))
    });
    DesiredImport {
        key: inputs.key.clone(),
        import,
        export,
    }
}

/// Decides about the import: absent, held as it is, or present with objects.
fn import(inputs: &Inputs<'_>, exports: &[ClusterExport<'_>], resolution: Option<&Resolution>) -> Import {
    if !inputs.has_namespace {
        return Import::Absent;
    }
    let with = |is_meant: fn(Reachability) -> bool| -> BTreeSet<ClusterId> {
        let exports_it =
            |state: &&ClusterState<'_>| is_unread(inputs, state) || valid_export(state).is_some();
        let states = inputs.clusters.iter().filter(exports_it);
        states
            .filter(|state| is_meant(state.availability.reachability))
            .map(|state| state.cluster.clone())
            .collect()
    };
    let withdrawn = with(|reachability| reachability == Reachability::Lost);
    let unreachable = with(|reachability| reachability != Reachability::Reachable);
    let reachability = conditions::reachability_condition(&unreachable, &withdrawn);
    if inputs.clusters.iter().any(|state| is_unread(inputs, state)) {
        let (kept, slices) = kept_clusters_and_slices(inputs, exports);
        return Import::Held {
            kept,
            slices,
            clusters: with(|_| true),
            reachability,
        };
    }
    let Some(resolution) = resolution else {
        return Import::Absent;
    };
    let derived = (!resolution.spec.is_headless()).then(|| names::derived_service(&inputs.key.name));
    let slices = mirror(inputs, exports, &resolution.accepted, derived.as_deref());
    Import::Present(Box::new(PresentImport {
        derived,
        slices,
        clusters: exports.iter().map(|export| export.cluster.clone()).collect(),
        resolution: resolution.clone(),
        reachability,
    }))
}

/// Returns true if a cluster contributes to the current import and was not read since the start.
fn is_unread(inputs: &Inputs<'_>, state: &ClusterState<'_>) -> bool {
    !state.availability.is_known && inputs.importing.contains(state.cluster.as_str())
}

/// Returns the clusters whose existing slices remain, and the slices of the others. A port is accepted if the current
/// import has it.
fn kept_clusters_and_slices(
    inputs: &Inputs<'_>,
    exports: &[ClusterExport<'_>],
) -> (BTreeSet<ClusterId>, BTreeMap<String, EndpointSlice>) {
    // Without the import, the accepted ports are unknown, so all slices stay.
    let stays = |state: &&ClusterState<'_>| {
        let is_lost = state.availability.reachability == Reachability::Lost;
        !is_lost && (inputs.import.is_none() || is_unread(inputs, state))
    };
    let kept = inputs.clusters.iter().filter(stays);
    let kept: BTreeSet<ClusterId> = kept.map(|state| state.cluster.clone()).collect();
    let Some(import) = inputs.import else {
        return (kept, BTreeMap::new());
    };
    let ports = &import.spec.ports;
    let accepted: BTreeMap<ClusterId, AcceptedPorts> = exports
        .iter()
        .map(|export| {
            (
                export.cluster.clone(),
                resolution::accepted_by(ports, export.service),
            )
        })
        .collect();
    let derived = (!import.spec.is_headless()).then(|| names::derived_service(&inputs.key.name));
    (kept, mirror(inputs, exports, &accepted, derived.as_deref()))
}

fn mirror(
    inputs: &Inputs<'_>,
    exports: &[ClusterExport<'_>],
    accepted: &BTreeMap<ClusterId, AcceptedPorts>,
    derived: Option<&str>,
) -> BTreeMap<String, EndpointSlice> {
    let mut slices = BTreeMap::new();
    for export in exports {
        let all = AcceptedPorts::All;
        let mirror = Mirror {
            import: inputs.key,
            cluster: export.cluster,
            is_local: export.cluster == inputs.local,
            accepted: accepted.get(export.cluster).unwrap_or(&all),
            derived,
        };
        let mirrored = export.slices.iter().filter_map(|slice| mirror.of(slice));
        slices.extend(
            mirrored
                .take(SLICES_MAX)
                .map(|slice| (slice.metadata.name.clone(), slice)),
        );
    }
    slices
}

/// Returns the export of a cluster, if it is valid and the lists of the cluster are complete.
fn valid_export<'a>(state: &ClusterState<'a>) -> Option<ClusterExport<'a>> {
    if !state.availability.is_known {
        return None;
    }
    let (export, service) = (state.export?, state.service?);
    let is_lost = state.availability.reachability == Reachability::Lost;
    (validity(Some(service)) == Validity::Valid).then(|| ClusterExport {
        cluster: state.cluster,
        export,
        service,
        slices: if is_lost { Vec::new() } else { state.slices.clone() },
    })
}

fn validity(service: Option<&Service>) -> Validity {
    let Some(service) = service else {
        return Validity::NoService;
    };
    if service.spec.kind == "ExternalName" || is_derived(service) {
        Validity::InvalidServiceType
    } else {
        Validity::Valid
    }
}
