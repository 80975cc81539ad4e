//! The Service under examination.

use std::cell::OnceCell;

use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::object::Object;
use crate::views::{EndpointSlice, Pod, Service, Workload, list};
use crate::world::{COMPARED_PODS_MAX, World};

/// Maximum number of ports of a Service, a Pod or a slice that rules compare with each other, unless the user names the
/// Service.
const PORTS_MAX: usize = 256;
/// Maximum number of labels of a selector that rules compare with those of Pods, unless the user names the Service.
const SELECTOR_MAX: usize = 256;

/// A Service with the objects that most rules need.
#[derive(Debug)]
pub(crate) struct Subject<'w> {
    /// All objects.
    pub world: &'w World,
    /// The Service.
    pub service: Service<'w>,
    /// Node whose clients are judged, if the user named one.
    pub node: Option<&'w str>,
    /// True if the user named this Service.
    pub is_named: bool,
    selected: OnceCell<Vec<Pod<'w>>>,
    slices: OnceCell<Vec<EndpointSlice<'w>>>,
}

impl<'w> Subject<'w> {
    /// Returns the subject for a Service.
    pub(crate) fn new(world: &'w World, service: Service<'w>, node: Option<&'w str>, is_named: bool) -> Self {
        Self {
            world,
            service,
            node,
            is_named,
            selected: OnceCell::new(),
            slices: OnceCell::new(),
        }
    }

    /// Returns true if the Service, its Pods or its slices have so many ports or labels that rules do not compare them. A user
    /// of one namespace could occupy the process that examines all Services, and fill its memory with findings.
    pub(crate) fn is_oversized(&self) -> bool {
        let has_many = |object: &Object, pointer| object.list(pointer).len() > PORTS_MAX;
        let has_many_ports = |pod: &Pod<'_>| {
            let ports = pod.containers().map(|container| list(container, "ports").len());
            ports.sum::<usize>() > PORTS_MAX
        };
        has_many(self.service.0, "/spec/ports")
            || self.service.selector().len() > SELECTOR_MAX
            || self.slices().iter().any(|slice| has_many(slice.0, "/ports"))
            || self.selected().iter().any(has_many_ports)
    }

    /// Returns the Pods that the selector matches, finished and terminating ones too. Empty without a selector and if
    /// Pods are absent from the world.
    pub(crate) fn selected(&self) -> &[Pod<'w>] {
        self.selected.get_or_init(|| {
            if !self.service.has_selector() {
                return Vec::new();
            }
            self.world
                .pods_with(&self.service.namespace, &self.service.selector())
        })
    }

    /// Returns the selected Pods that run or will run.
    pub(crate) fn active(&self) -> impl Iterator<Item = Pod<'w>> {
        self.selected().iter().copied().filter(|pod| pod.is_active())
    }

    /// Returns true if the selector matches only Pods that a workload has replaced by Pods with other labels.
    pub(crate) fn has_only_replaced(&self) -> bool {
        let mut owners = self.selected().iter().map(|pod| workload_of(*pod));
        let is_replaced = |owner: (&str, &str)| {
            let pods = self
                .world
                .in_namespace(Kind::Pod, &self.service.namespace)
                .take(COMPARED_PODS_MAX)
                .map(Pod);
            owner.0 != Kind::Pod.name()
                && pods
                    .filter(|pod| pod.is_active())
                    .any(|pod| workload_of(pod) == owner)
        };
        !self.selected().is_empty() && self.active().next().is_none() && owners.any(is_replaced)
    }

    /// Returns the EndpointSlices of the Service.
    pub(crate) fn slices(&self) -> &[EndpointSlice<'w>] {
        self.slices
            .get_or_init(|| self.world.slices_of(self.service).collect())
    }

    /// Returns true if the endpoint controller wrote a slice of the Service. Such a slice has the label of the
    /// controller, or it has no writer and the Pods that the Service selects. In a slice of a
    /// Service without selector, the label is a copy.
    pub(crate) fn is_from_selector(&self, slice: EndpointSlice<'_>) -> bool {
        let has_pods = || {
            slice.endpoints().any(|endpoint| {
                let is_selected = |ip| self.selected().iter().any(|pod| pod.ips().contains(&ip));
                endpoint.pod().is_some() || endpoint.ip().is_some_and(is_selected)
            })
        };
        self.service.has_selector() && (slice.is_from_selector() || !slice.has_writer() && has_pods())
    }

    /// Returns true if the input lacks the Pods of the namespace: it has none, although ready endpoints name some.
    pub(crate) fn lacks_pods(&self) -> bool {
        let service = self.service;
        let in_slices = self.slices().iter().flat_map(|slice| slice.endpoints());
        let mut slice_pods = in_slices.map(|endpoint| (endpoint.is_ready(), endpoint.pod()));
        let endpoints = self.world.endpoints_of(service).into_iter();
        let in_endpoints = endpoints.flat_map(|endpoints| endpoints.addresses());
        let mut endpoint_pods = in_endpoints.map(|address| (address.is_ready, address.pod()));
        let is_named = |(is_ready, pod): (bool, Option<&str>)| is_ready && pod.is_some();
        let mut pods = self.world.in_namespace(Kind::Pod, &service.0.namespace);
        pods.next().is_none() && (slice_pods.any(is_named) || endpoint_pods.any(is_named))
    }

    /// Returns true if the world has all objects of a kind.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.world.has(kind)
    }

    /// Returns true if the endpoints are known: the world has slices, or the Pods or Endpoints that they are derived from.
    pub(crate) fn knows_endpoints(&self) -> bool {
        let has_pods = self.has(Kind::Pod) && self.service.has_selector();
        self.has(Kind::EndpointSlice) || has_pods || self.world.endpoints_of(self.service).is_some()
    }

    /// Returns true if the Service has, or gets, a ready endpoint: an endpoint of a slice or a selected Pod is ready.
    pub(crate) fn has_ready_endpoint(&self) -> bool {
        let in_slices = self.slices().iter().flat_map(|slice| slice.endpoints());
        in_slices.into_iter().any(|endpoint| endpoint.is_ready()) || self.active().any(Pod::is_ready)
    }

    /// Returns true while a workload of the selected Pods replaces them: Pods of two templates exist.
    pub(crate) fn is_rolling(&self) -> bool {
        let selector = self.service.selector();
        let mut workloads = self.world.workloads_with(&self.service.namespace, &selector);
        // A ReplicaSet does not show if its Deployment replaces it.
        workloads.retain(|workload| workload.kind != Kind::ReplicaSet);
        if !workloads.is_empty() {
            return workloads.into_iter().any(Workload::is_rolling);
        }
        let mut templates: Vec<(&str, &str)> = self.active().filter_map(|pod| template(pod)).collect();
        templates.sort_unstable();
        templates.dedup();
        templates.windows(2).any(|pair| pair[0].0 == pair[1].0)
    }

    /// Returns a finding about the Service.
    pub(crate) fn finding(
        &self,
        code: Code,
        severity: Severity,
        field: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        finding_about(self.service.0, code, severity, field, message, remedy)
    }
}

/// Returns kind and name of the workload of a Pod: its Deployment, another controller, or the Pod itself.
pub(crate) fn workload_of<'w>(pod: Pod<'w>) -> (&'w str, &'w str) {
    let Some((kind, name)) = pod.0.controller() else {
        return (pod.0.changed_kind().name(), &pod.0.name);
    };
    let hash = pod
        .0
        .label("pod-template-hash")
        .filter(|_| kind == Kind::ReplicaSet.name());
    let deployment = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
    deployment.map_or((kind, name), |deployment| (Kind::Deployment.name(), deployment))
}

/// Returns the workload of a Pod and the hash of its template, from the names that controllers give.
fn template(pod: Pod<'_>) -> Option<(&str, &str)> {
    let (_, owner) = pod.0.controller()?;
    match pod.0.label("pod-template-hash") {
        Some(hash) => Some((owner.strip_suffix(hash)?, hash)),
        None => Some((owner, pod.0.label("controller-revision-hash")?)),
    }
}

/// Returns a finding about an object.
pub(crate) fn finding_about(
    object: &Object,
    code: Code,
    severity: Severity,
    field: impl Into<String>,
    message: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    Finding {
        code,
        severity,
        object: object.object_name(),
        field: object.changed_field(field.into()),
        message: message.into(),
        remedy: remedy.into(),
        evidence: Vec::new(),
    }
}
