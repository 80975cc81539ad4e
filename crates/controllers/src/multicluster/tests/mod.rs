//! Fixtures, and a model of one cluster: the writes of the core are applied to objects in memory until none is left.

mod convergence;
mod endpoints;
mod lifecycle;
pub(super) mod server;
mod unreachable;

use std::collections::BTreeSet;

use api::object::{
    ClusterStatus, Endpoint, EndpointPort, EndpointSlice, Labels, ObjectKey, Service, ServiceExport,
    ServiceImport, ServicePort, TimedCondition,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::cluster_id::ClusterId;
use super::desired::{
    Availability, ClusterState, DesiredImport, Inputs, Reachability, decide, exporting_clusters,
};
use super::observed::ObservedImport;
use super::step::{self, Write};

/// Bound of the writes until a model has its desired state.
const STEPS_MAX: usize = 200;

/// A cluster of the set, with its objects of the name `shop/web`.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) id: ClusterId,
    pub(super) availability: Availability,
    pub(super) export: Option<ServiceExport>,
    pub(super) service: Option<Service>,
    pub(super) slices: Vec<EndpointSlice>,
}

impl Source {
    /// A cluster that exports `shop/web` since a second of 2026, with one endpoint for each last octet.
    pub(super) fn exporting(id: &str, second: u8, endpoints: &[u8]) -> Self {
        Self {
            id: id.parse().expect("a name"),
            availability: Availability {
                is_known: true,
                reachability: Reachability::Reachable,
            },
            export: Some(export(second)),
            service: Some(service(&[("http", 80)])),
            slices: vec![slice(endpoints)],
        }
    }

    /// A cluster without the Service.
    pub(super) fn empty(id: &str) -> Self {
        Self {
            export: None,
            service: None,
            slices: Vec::new(),
            ..Self::exporting(id, 0, &[])
        }
    }

    pub(super) fn state(&self) -> ClusterState<'_> {
        ClusterState {
            cluster: &self.id,
            availability: self.availability,
            export: self.export.as_ref(),
            service: self.service.as_ref(),
            slices: self.slices.iter().collect(),
        }
    }
}

pub(super) fn export(second: u8) -> ServiceExport {
    let mut export = ServiceExport::default();
    export.metadata.namespace = "shop".to_owned();
    export.metadata.name = "web".to_owned();
    export.metadata.creation_timestamp = Some(format!("2026-01-01T00:00:{second:02}Z"));
    export
}

pub(super) fn service(ports: &[(&str, u16)]) -> Service {
    let mut service = Service::default();
    service.metadata.namespace = "shop".to_owned();
    service.metadata.name = "web".to_owned();
    service.spec.kind = "ClusterIP".to_owned();
    service.spec.cluster_ip = "10.96.0.7".to_owned();
    service.spec.cluster_ips = vec!["10.96.0.7".to_owned()];
    service.spec.ip_families = vec!["IPv4".to_owned()];
    service.spec.session_affinity = "None".to_owned();
    service.spec.ports = ports
        .iter()
        .map(|(name, port)| ServicePort {
            name: (*name).to_owned(),
            port: *port,
            ..ServicePort::default()
        })
        .collect();
    service
}

pub(super) fn headless(mut service: Service) -> Service {
    service.spec.cluster_ip = "None".to_owned();
    service.spec.cluster_ips = vec!["None".to_owned()];
    service
}

pub(super) fn slice(endpoints: &[u8]) -> EndpointSlice {
    let mut slice = EndpointSlice::default();
    slice.metadata.namespace = "shop".to_owned();
    slice.metadata.name = "web-abc".to_owned();
    slice.metadata.labels = Labels::from([("kubernetes.io/service-name".to_owned(), "web".to_owned())]);
    slice.ports = vec![EndpointPort {
        name: Some("http".to_owned()),
        port: Some(8080),
        ..EndpointPort::default()
    }];
    slice.endpoints = endpoints
        .iter()
        .map(|last| Endpoint {
            addresses: vec![format!("10.1.0.{last}").into()],
            hostname: Some(format!("pod-{last}").into()),
            node_name: Some("node-1".into()),
            ..Endpoint::default()
        })
        .collect();
    slice
}

/// Local cluster: its objects under the name `shop/web`.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) has_namespace: bool,
    pub(super) observed: ObservedImport,
    /// Number of derived Services that were created: the last octet of the next clusterset IP.
    created: u8,
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            has_namespace: true,
            observed: ObservedImport::default(),
            created: 0,
        }
    }

    /// Decides and writes until the state is the desired one; returns the number of writes. The first source is this
    /// cluster.
    pub(super) fn write_until_desired(&mut self, sources: &[Source]) -> usize {
        let desired = self.desired(sources);
        self.observed.export = sources[0].export.clone().map(|export| ServiceExport {
            status: self.observed.export.take().unwrap_or_default().status,
            ..export
        });
        for writes in 0..STEPS_MAX {
            match step::next(&desired, &self.observed, Timestamp::UNIX_EPOCH) {
                Some(write) => self.write(write),
                None => return writes,
            }
        }
        panic!("the writes do not end: {desired:?}");
    }

    pub(super) fn desired(&self, sources: &[Source]) -> DesiredImport {
        let import = self.observed.import.as_ref();
        decide(&Inputs {
            key: &ObjectKey::new("shop", "web"),
            has_namespace: self.has_namespace,
            local: &sources[0].id,
            clusters: sources.iter().map(Source::state).collect(),
            import,
            importing: exporting_clusters(import, &self.observed.slices),
        })
    }

    /// Applies a write as the API server does.
    fn write(&mut self, write: Write) {
        let observed = &mut self.observed;
        match write {
            Write::CreateService(object) => {
                self.created += 1;
                let mut service: Service = serde_json::from_value(object).expect("a Service");
                service.spec.cluster_ip = format!("10.97.0.{}", self.created);
                service.spec.cluster_ips = vec![service.spec.cluster_ip.clone()];
                service.spec.ip_families = vec!["IPv4".to_owned()];
                observed.service = Some(service);
            }
            Write::PatchService(patch) => observed.service = Some(merged(&observed.service, &patch)),
            Write::DeleteService(_) => observed.service = None,
            Write::CreateImport(import) => observed.import = Some(*import),
            Write::PatchImport(patch) | Write::PatchImportStatus(patch) => {
                observed.import = Some(merged(&observed.import, &patch));
            }
            Write::DeleteImport(_) => observed.import = None,
            Write::CreateSlice(slice) => {
                let is_new = observed
                    .slices
                    .iter()
                    .all(|known| known.metadata.name != slice.metadata.name);
                assert!(is_new, "slice exists: {}", slice.metadata.name);
                observed.slices.push(slice);
            }
            Write::ReplaceSlice(slice) => {
                let known = observed
                    .slices
                    .iter_mut()
                    .find(|known| known.metadata.name == slice.metadata.name);
                *known.expect("a known slice") = slice;
            }
            Write::DeleteSlice(meta) => observed.slices.retain(|known| known.metadata.name != meta.name),
            Write::PatchExportStatus(patch) => {
                observed.export = Some(merged(&observed.export, &patch));
            }
        }
    }

    pub(super) fn import(&self) -> &ServiceImport {
        self.observed.import.as_ref().expect("an import")
    }

    /// Returns status and reason of a condition of the export of this cluster.
    pub(super) fn export_condition(&self, kind: &str) -> Option<(&str, &str)> {
        shown(&self.observed.export.as_ref()?.status.conditions, kind)
    }

    /// Returns status and reason of a condition of the import.
    pub(super) fn import_condition(&self, kind: &str) -> Option<(&str, &str)> {
        shown(&self.import().status.conditions, kind)
    }

    /// Returns the mirrored endpoints: cluster and address.
    pub(super) fn endpoints(&self) -> BTreeSet<(String, String)> {
        let mut endpoints = BTreeSet::new();
        for slice in &self.observed.slices {
            let cluster = &slice.metadata.labels[api::multicluster::SOURCE_CLUSTER_LABEL];
            let addresses = slice.endpoints.iter().flat_map(|endpoint| &endpoint.addresses);
            endpoints.extend(addresses.map(|address| (cluster.clone(), address.to_string())));
        }
        endpoints
    }

    pub(super) fn clusters(&self) -> Vec<&str> {
        let clusters: &[ClusterStatus] = &self.import().status.clusters;
        clusters.iter().map(|cluster| cluster.cluster.as_str()).collect()
    }
}

fn shown<'c>(conditions: &'c [TimedCondition], kind: &str) -> Option<(&'c str, &'c str)> {
    let condition = conditions.iter().find(|condition| condition.kind == kind)?;
    Some((&condition.status, &condition.reason))
}

/// Applies a merge patch to an object.
fn merged<T: serde::Serialize + serde::de::DeserializeOwned>(object: &Option<T>, patch: &Value) -> T {
    let mut tree = json!(object.as_ref().expect("an object"));
    merge(&mut tree, patch);
    serde_json::from_value(tree).expect("an object")
}

fn merge(tree: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *tree = patch.clone();
        return;
    };
    if !tree.is_object() {
        *tree = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            api::tree::clear(tree, name);
        } else {
            merge(&mut tree[name.as_str()], value);
        }
    }
}
