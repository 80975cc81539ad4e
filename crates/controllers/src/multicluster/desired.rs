//! Decision about one import: the state that the objects of this cluster should have.

use std::collections::{BTreeMap, BTreeSet};

use api::multicluster::SERVICE_NAME_LABEL;
use api::object::{EndpointSlice, ObjectKey, Service, ServiceExport};

use super::cluster_id::ClusterId;
use super::conditions::{self, State, Validity};
use super::names;
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
    /// It responds.
    #[default]
    Reachable,
    /// It does not respond; its last known endpoints stay.
    Unreachable,
    /// It has not responded during the grace period; its endpoints are removed.
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
    /// This cluster.
    pub(super) local: &'a ClusterId,
    /// All clusters of the set, with this one.
    pub(super) clusters: Vec<ClusterState<'a>>,
    /// Clusters that the present import lists.
    pub(super) importing: BTreeSet<&'a str>,
}

/// The desired state of an import.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Desired {
    pub(super) key: ObjectKey,
    pub(super) import: Import,
    /// Conditions of the ServiceExport of this cluster; `None` without one, and while the import is held.
    pub(super) export: Option<Vec<State>>,
}

/// The desired objects of an import.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Import {
    /// None: no cluster exports the Service, or the namespace does not exist.
    Absent,
    /// The present ones stay, because an exporting cluster was not read since the start.
    Held {
        /// Clusters whose endpoints are removed.
        withdrawn: BTreeSet<ClusterId>,
        reachability: State,
    },
    /// These.
    Present(Box<Present>),
}

/// The desired objects of an import that exists.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Present {
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
pub(super) fn decide(inputs: &Inputs<'_>) -> Desired {
    let exports: Vec<ClusterExport<'_>> = inputs.clusters.iter().filter_map(valid_export).collect();
    let resolution = resolution::resolve(&exports);
    let import = import(inputs, &exports, resolution.as_ref());
    let local = inputs.clusters.iter().find(|state| state.cluster == inputs.local);
    // While a cluster is unread, its conflicts are unknown.
    let export = local
        .filter(|_| !matches!(import, Import::Held { .. }))
        .and_then(|state| {
            state.export?;
            let validity = validity(state.service);
            let resolution = resolution.as_ref().filter(|_| validity == Validity::Valid);
            Some(conditions::of_export(validity, resolution))
        });
    Desired {
        key: inputs.key.clone(),
        import,
        export,
    }
}

fn import(inputs: &Inputs<'_>, exports: &[ClusterExport<'_>], resolution: Option<&Resolution>) -> Import {
    if !inputs.has_namespace {
        return Import::Absent;
    }
    let with = |is_meant: fn(Reachability) -> bool| -> BTreeSet<ClusterId> {
        let exports_it = |state: &&ClusterState<'_>| {
            let is_unread = !state.availability.is_known;
            (is_unread && inputs.importing.contains(state.cluster.as_str())) || valid_export(state).is_some()
        };
        let states = inputs.clusters.iter().filter(exports_it);
        states
            .filter(|state| is_meant(state.availability.reachability))
            .map(|state| state.cluster.clone())
            .collect()
    };
    let withdrawn = with(|reachability| reachability == Reachability::Lost);
    let unreachable = with(|reachability| reachability != Reachability::Reachable);
    let reachability = conditions::reachability(&unreachable, &withdrawn);
    let is_unread = |state: &ClusterState<'_>| {
        !state.availability.is_known && inputs.importing.contains(state.cluster.as_str())
    };
    if inputs.clusters.iter().any(is_unread) {
        return Import::Held {
            withdrawn,
            reachability,
        };
    }
    let Some(resolution) = resolution else {
        return Import::Absent;
    };
    let derived = (!resolution.spec.is_headless()).then(|| names::derived_service(&inputs.key.name));
    let slices = mirror(inputs, exports, resolution, derived.as_deref());
    Import::Present(Box::new(Present {
        derived,
        slices,
        clusters: exports.iter().map(|export| export.cluster.clone()).collect(),
        resolution: resolution.clone(),
        reachability,
    }))
}

fn mirror(
    inputs: &Inputs<'_>,
    exports: &[ClusterExport<'_>],
    resolution: &Resolution,
    derived: Option<&str>,
) -> BTreeMap<String, EndpointSlice> {
    let mut slices = BTreeMap::new();
    for export in exports {
        let all = AcceptedPorts::All;
        let mirror = Mirror {
            import: inputs.key,
            cluster: export.cluster,
            is_local: export.cluster == inputs.local,
            accepted: resolution.accepted.get(export.cluster).unwrap_or(&all),
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
    let is_derived = service.metadata.labels.contains_key(SERVICE_NAME_LABEL);
    if service.spec.kind == "ExternalName" || is_derived {
        Validity::InvalidServiceType
    } else {
        Validity::Valid
    }
}
