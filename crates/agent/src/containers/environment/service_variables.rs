//! Environment variables of Services (kubelet's `pkg/kubelet/envvars`; ENV-01 to ENV-08). Pure.

use std::collections::BTreeMap;

use api::object::{Service, ServicePort};

use super::Variables;

/// Namespace and name of the Service whose variables every Pod has (ENV-01).
const KUBERNETES_NAMESPACE: &str = "default";
const KUBERNETES_NAME: &str = "kubernetes";

/// Returns the Services whose variables a Pod of `namespace` has (ENV-01).
pub fn visible_services<'a>(
    services: impl IntoIterator<Item = &'a Service>,
    namespace: &str,
    enable_service_links: bool,
) -> Vec<&'a Service> {
    let mut visible: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services.into_iter().filter(|service| has_cluster_ip(service)) {
        let meta = &service.metadata;
        if meta.namespace == namespace && enable_service_links {
            visible.insert(&meta.name, service);
        } else if meta.namespace == KUBERNETES_NAMESPACE && meta.name == KUBERNETES_NAME {
            visible.entry(&meta.name).or_insert(service);
        }
    }
    visible.into_values().collect()
}

/// Returns the variables of Services (ENV-02 to ENV-08). Of two variables with the same name, the later one counts.
pub fn service_variables<'a>(services: impl IntoIterator<Item = &'a Service>) -> Variables {
    let mut variables = Variables::new();
    for service in services.into_iter().filter(|service| has_cluster_ip(service)) {
        let Some(first) = service.spec.ports.first() else {
            continue;
        };
        let name = variable_name(&service.metadata.name);
        let address = &service.spec.cluster_ip;
        variables.insert(format!("{name}_SERVICE_HOST"), address.clone());
        variables.insert(format!("{name}_SERVICE_PORT"), first.port.to_string());
        for port in service.spec.ports.iter().filter(|port| !port.name.is_empty()) {
            let key = format!("{name}_SERVICE_PORT_{}", variable_name(&port.name));
            variables.insert(key, port.port.to_string());
        }
        variables.insert(format!("{name}_PORT"), link(first, address));
        for port in &service.spec.ports {
            let protocol = port.protocol.as_str();
            let prefix = format!("{name}_PORT_{}_{protocol}", port.port);
            variables.insert(format!("{prefix}_PROTO"), protocol.to_ascii_lowercase());
            variables.insert(format!("{prefix}_PORT"), port.port.to_string());
            variables.insert(format!("{prefix}_ADDR"), address.clone());
            variables.insert(prefix, link(port, address));
        }
    }
    variables
}

fn has_cluster_ip(service: &Service) -> bool {
    !service.spec.cluster_ip.is_empty() && !service.spec.is_headless()
}

/// Returns the name of a Service or port in variables: upper case, with `_` for `-` (ENV-08).
fn variable_name(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}

/// Returns `proto://ip:port`, with brackets around IPv6 addresses (ENV-05, ENV-06).
fn link(port: &ServicePort, address: &str) -> String {
    let protocol = port.protocol.as_str().to_ascii_lowercase();
    if address.contains(':') {
        format!("{protocol}://[{address}]:{}", port.port)
    } else {
        format!("{protocol}://{address}:{}", port.port)
    }
}
