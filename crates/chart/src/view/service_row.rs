//! Computation of the row of a Service.

use api::object::{ObjectKey, Service};

use super::endpoints::{EndpointCounts, counts};
use super::frontends::frontends;
use super::objects::Objects;
use super::rows::{FindingCounts, Health, ServiceShape, ServiceType};

/// Returns the row of a Service without its traffic. `None` if the Service does not exist.
pub(super) fn row_without_traffic(
    objects: &Objects,
    key: &ObjectKey,
    findings: FindingCounts,
) -> Option<ServiceShape> {
    let service = objects.service(key)?;
    let counts = counts(objects, key);
    Some(ServiceShape {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        kind: ServiceType::of(&service.spec.kind),
        headless: service.spec.is_headless(),
        frontends: frontends(service),
        ready: counts.ready,
        serving: counts.serving,
        terminating: counts.terminating,
        total: counts.total,
        health: health(service, &counts, findings),
        nodes: counts.nodes,
        findings,
    })
}

/// A finding decides, then the endpoints.
fn health(service: &Service, counts: &EndpointCounts, [errors, warnings, _]: FindingCounts) -> Health {
    let is_alias = ServiceType::of(&service.spec.kind) == ServiceType::ExternalName;
    if errors > 0 {
        Health::Error
    } else if warnings > 0 {
        Health::Warning
    } else if counts.total == 0 && (is_alias || service.spec.selector.is_empty()) {
        Health::Idle
    } else if counts.ready > 0 {
        Health::Ok
    } else if counts.serving > 0 {
        Health::Warning
    } else {
        Health::Error
    }
}
