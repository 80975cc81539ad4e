//! Details of one Service: labels, policies, endpoints, clients and findings.

use std::collections::BTreeMap;

use api::object::{Labels, ObjectKey, Service};
use serde::Serialize;

use super::endpoints::{self, EndpointRow};
use super::findings::FindingRow;
use super::objects::Objects;
use super::rows::ServiceRow;
use super::traffic::{ClientRow, ServiceTraffic};

/// Maximum number of endpoints of a detail.
pub const ENDPOINTS_MAX: usize = 1_000;
/// Maximum number of labels of a detail.
const LABELS_MAX: usize = 100;

/// Traffic policies of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields have the names of the Kubernetes API")]
pub struct Policies {
    pub internal_traffic_policy: String,
    pub external_traffic_policy: String,
    pub session_affinity: String,
    pub traffic_distribution: String,
}

/// Everything about one Service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceDetail {
    /// Row of the Service.
    pub row: ServiceRow,
    /// Selector.
    pub selector: BTreeMap<String, String>,
    /// Labels, at most [`LABELS_MAX`].
    pub labels: BTreeMap<String, String>,
    /// Traffic policies.
    pub policies: Policies,
    /// Endpoints, at most [`ENDPOINTS_MAX`].
    pub endpoints: Vec<EndpointRow>,
    /// Number of endpoints that are left out.
    pub endpoints_omitted: usize,
    /// Clients, the busiest ones first.
    pub clients: Vec<ClientRow>,
    /// Findings.
    pub findings: Vec<FindingRow>,
}

/// Returns the detail of a Service.
pub fn detail(
    objects: &Objects,
    service: &Service,
    row: ServiceRow,
    traffic: Option<&ServiceTraffic>,
    findings: &[FindingRow],
) -> ServiceDetail {
    let spec = &service.spec;
    let key = service.metadata.key();
    let by_endpoint = traffic.map(|traffic| &traffic.endpoints);
    let (endpoints, endpoints_omitted) = endpoints::rows(objects, &key, by_endpoint, ENDPOINTS_MAX);
    ServiceDetail {
        row,
        selector: first_labels(&spec.selector),
        labels: first_labels(&service.metadata.labels),
        policies: Policies {
            internal_traffic_policy: spec.internal_traffic_policy.clone().unwrap_or_default(),
            external_traffic_policy: spec.external_traffic_policy.clone(),
            session_affinity: spec.session_affinity.clone(),
            traffic_distribution: spec.traffic_distribution.clone().unwrap_or_default(),
        },
        endpoints,
        endpoints_omitted,
        clients: traffic.map(|traffic| traffic.clients.clone()).unwrap_or_default(),
        findings: findings.to_vec(),
    }
}

fn first_labels(labels: &Labels) -> BTreeMap<String, String> {
    let labels = labels.iter().take(LABELS_MAX);
    labels
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns the key of the Service in `NAMESPACE/NAME`.
pub fn service_key(text: &str) -> Option<ObjectKey> {
    let (namespace, name) = text.split_once('/')?;
    let is_name = |text: &str| !text.is_empty() && !text.contains('/');
    (is_name(namespace) && is_name(name)).then(|| ObjectKey::new(namespace, name))
}
