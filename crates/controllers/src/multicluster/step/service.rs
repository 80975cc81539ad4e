//! The derived Service: a Service without selector whose cluster IPs are the clusterset IPs.

use api::multicluster::SERVICE_NAME_LABEL;
use api::object::{ImportPort, Service, ServiceImportSpec};
use serde_json::{Value, json};

use super::Write;
use crate::multicluster::conditions::State;
use crate::multicluster::desired::{DesiredImport, PresentImport};
use crate::multicluster::names::{MANAGED_BY, MANAGED_BY_LABEL};
use crate::multicluster::observed::{ObservedImport, is_managed, names_import};

/// Returns the next write of the derived Service.
pub(super) fn next(
    desired: &DesiredImport,
    present: &PresentImport,
    observed: &ObservedImport,
) -> Option<Write> {
    let derived = observed.derived(&desired.key);
    let Some(name) = &present.derived else {
        return derived.map(|service| Write::DeleteService(service.metadata.clone()));
    };
    if observed.rejection.is_some() {
        return None;
    }
    let spec = &present.resolution.spec;
    match (derived, &observed.service) {
        // A Service without cluster IP gets none by a patch.
        (Some(service), _) if service.spec.is_headless() => {
            Some(Write::DeleteService(service.metadata.clone()))
        }
        (Some(service), _) => (!is_current(desired, spec, service)).then(|| {
            Write::PatchService(json!({
                "metadata": {
                    "labels": {MANAGED_BY_LABEL: MANAGED_BY, SERVICE_NAME_LABEL: &*desired.key.name},
                },
                "spec": service_spec(spec),
            }))
        }),
        // A Service of a user has the name.
        (None, Some(_)) => None,
        (None, None) => {
            let mut fields = service_spec(spec);
            add_families(&mut fields, spec);
            Some(Write::CreateService(json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {
                    "name": name,
                    "namespace": &*desired.key.namespace,
                    "labels": {MANAGED_BY_LABEL: MANAGED_BY, SERVICE_NAME_LABEL: &*desired.key.name},
                },
                "spec": fields,
            })))
        }
    }
}

/// Returns the condition `Ready` of an import.
pub(super) fn readiness(
    desired: &DesiredImport,
    present: &PresentImport,
    observed: &ObservedImport,
) -> State {
    let Some(name) = &present.derived else {
        return State::new("Ready", true, "Ready", "the endpoints have names in DNS");
    };
    match (observed.derived(&desired.key), &observed.rejection) {
        (_, Some(rejection)) => {
            let is_about_family = rejection.contains("ipFamil");
            let reason = if is_about_family {
                "IPFamilyNotSupported"
            } else {
                "Pending"
            };
            let message = format!("Service {name} was rejected: {rejection}");
            State::new("Ready", false, reason, message)
        }
        (Some(_), None) => State::new(
            "Ready",
            true,
            "Ready",
            "the clusterset IPs are those of the derived Service",
        ),
        (None, None) => {
            let message = format!(
                "expected no Service {name}, found one that is not derived from this import: delete or rename it"
            );
            State::new("Ready", false, "Pending", message)
        }
    }
}

fn service_spec(spec: &ServiceImportSpec) -> Value {
    let ports: Vec<Value> = spec.ports.iter().map(service_port).collect();
    json!({
        "type": "ClusterIP",
        "selector": null,
        "externalIPs": null,
        "ports": ports,
        "sessionAffinity": spec.session_affinity,
        "sessionAffinityConfig": spec.session_affinity_config,
        "internalTrafficPolicy": spec.internal_traffic_policy,
        "trafficDistribution": spec.traffic_distribution,
    })
}

fn service_port(port: &ImportPort) -> Value {
    json!({
        "name": port.name,
        "protocol": port.protocol,
        "appProtocol": port.app_protocol,
        "port": port.port,
        "targetPort": port.port,
    })
}

/// Adds the families of the exported Service. A cluster with one family imports a Service of both with its own.
fn add_families(fields: &mut Value, spec: &ServiceImportSpec) {
    match spec.ip_families.as_slice() {
        [] => {}
        [family] => {
            fields["ipFamilyPolicy"] = json!("SingleStack");
            fields["ipFamilies"] = json!([family]);
        }
        _ => fields["ipFamilyPolicy"] = json!("PreferDualStack"),
    }
}

fn is_current(import: &DesiredImport, desired: &ServiceImportSpec, service: &Service) -> bool {
    let spec = &service.spec;
    let ports = spec.ports.iter().map(|port| ImportPort {
        name: port.name.clone(),
        protocol: port.protocol,
        app_protocol: port.app_protocol.clone(),
        port: port.port,
    });
    let policy = |policy: &Option<String>| policy.clone().unwrap_or_else(|| "Cluster".to_owned());
    spec.kind == "ClusterIP"
        && spec.selector.is_empty()
        && spec.external_ips.is_empty()
        && ports.eq(desired.ports.iter().cloned())
        && spec.session_affinity == desired.session_affinity
        && spec.session_affinity_config == desired.session_affinity_config
        && policy(&spec.internal_traffic_policy) == policy(&desired.internal_traffic_policy)
        && spec.traffic_distribution == desired.traffic_distribution
        && is_managed(service)
        && names_import(service, &import.key)
}
