//! The environment of containers: variables of Services (ENV-01 to ENV-08), of the container itself, and
//! `$(VAR)` expansion (ENV-09). Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::object::{Service, ServicePort};

use crate::object::{Container, EnvSource, EnvVar, FieldRef, KeyRef, Pod, ResourceFieldRef, Resources};
use crate::quantity::Quantity;

#[cfg(test)]
mod tests;

/// Namespace and name of the Service that every Pod is told of (ENV-01).
const KUBERNETES_NAMESPACE: &str = "default";
const KUBERNETES_NAME: &str = "kubernetes";
/// Where programs are looked for if the Pod does not say.
pub(crate) const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

/// ConfigMaps and Secrets that containers refer to, by kind and name.
pub type Sources = BTreeMap<(SourceKind, String), Variables>;

/// What a variable's value can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl SourceKind {
    /// The plural in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
        }
    }

    /// The word in messages.
    pub fn singular(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

/// Why a container's environment cannot be made: it waits with reason `CreateContainerConfigError`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// A variable asks for a field of the Pod that variables cannot have. Only another Pod helps.
    #[error("variable {variable}: fieldPath {path:?} is not one that variables can have")]
    FieldPath {
        /// The variable.
        variable: String,
        /// The path.
        path: String,
    },
    /// The ConfigMap or Secret is not there, or lacks the key. It may come.
    #[error("variable {variable}: {kind} {name:?} has no key {key:?}", kind = kind.plural())]
    Key {
        /// The variable.
        variable: String,
        /// Which kind of object.
        kind: SourceKind,
        /// Name.
        name: String,
        /// The key.
        key: String,
    },
    /// `envFrom` names a ConfigMap or Secret that is not there. It may come.
    #[error("envFrom: {kind} {name:?} not found", kind = kind.plural())]
    Source {
        /// Which kind of object.
        kind: SourceKind,
        /// Name.
        name: String,
    },
    /// A variable asks for a resource that no container has. Only another Pod helps.
    #[error("variable {variable}: resourceFieldRef {resource:?} is none of a container of this Pod")]
    Resource {
        /// The variable.
        variable: String,
        /// What is asked for.
        resource: String,
    },
    /// `valueFrom` says nothing that is known here. Only another Pod helps.
    #[error(
        "variable {variable}: valueFrom names no source that is supported: fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef"
    )]
    NoSource {
        /// The variable.
        variable: String,
    },
}

/// Facts of a Pod that its variables may ask for.
#[derive(Clone, Debug, Default)]
pub struct PodFacts {
    /// The node's addresses, the primary one first.
    pub host_ips: Vec<IpAddr>,
    /// The Pod's addresses, the primary one first.
    pub pod_ips: Vec<IpAddr>,
    /// What the node has: the limits of containers that have none.
    pub capacity: Capacity,
}

/// What a node has for its Pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Cores.
    pub cpus: u64,
    /// Memory.
    pub memory_bytes: u64,
}

/// The Services that a Pod of `namespace` is told of (ENV-01).
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

/// The variables of Services (ENV-02 to ENV-08). Of two that want the same name the later wins.
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

/// The whole environment of a container (ENV-09): `services` are the variables of Services, which the
/// container's own go before and may refer to.
pub fn container_variables(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
    services: &Variables,
    sources: &Sources,
) -> Result<Variables, EnvironmentError> {
    let mut own = Variables::new();
    for from in &container.env_from {
        let references = [
            (SourceKind::ConfigMap, &from.config_map_ref),
            (SourceKind::Secret, &from.secret_ref),
        ];
        for (kind, reference) in references {
            let Some(reference) = reference else { continue };
            match sources.get(&(kind, reference.name.clone())) {
                Some(values) => own.extend(
                    values
                        .iter()
                        .map(|(k, v)| (format!("{}{k}", from.prefix), v.clone())),
                ),
                None if reference.optional == Some(true) => {}
                None => {
                    return Err(EnvironmentError::Source {
                        kind,
                        name: reference.name.clone(),
                    });
                }
            }
        }
    }
    for variable in &container.env {
        let value = match &variable.value_from {
            None => Some(expand(&variable.value, |name| {
                own.get(name).or_else(|| services.get(name)).map(String::as_str)
            })),
            Some(source) => value_from(variable, source, pod, container, facts, sources)?,
        };
        if let Some(value) = value {
            own.insert(variable.name.clone(), value);
        }
    }
    let mut all = services.clone();
    all.entry("PATH".to_owned())
        .or_insert_with(|| PATH_DEFAULT.to_owned());
    all.entry("HOSTNAME".to_owned())
        .or_insert_with(|| pod.hostname().to_owned());
    all.extend(own);
    Ok(all)
}

/// The ConfigMaps and Secrets that a container's environment refers to.
pub fn referenced(container: &Container) -> impl Iterator<Item = (SourceKind, &str)> {
    let whole = container.env_from.iter().flat_map(|from| {
        let config_map = from.config_map_ref.iter().map(|r| (SourceKind::ConfigMap, r));
        config_map.chain(from.secret_ref.iter().map(|r| (SourceKind::Secret, r)))
    });
    let single = container
        .env
        .iter()
        .filter_map(|v| v.value_from.as_ref())
        .flat_map(|from| {
            let config_map = from.config_map_key_ref.iter().map(|r| (SourceKind::ConfigMap, r));
            config_map.chain(from.secret_key_ref.iter().map(|r| (SourceKind::Secret, r)))
        });
    whole
        .chain(single)
        .map(|(kind, reference)| (kind, reference.name.as_str()))
}

/// Replaces `$(NAME)` by the variable's value. `$$` stands for `$`; what is unknown or unclosed stays as it is.
pub fn expand<'a>(text: &str, value_of: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|r| r.split_once(')')) {
            match value_of(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    expanded
}

fn value_from(
    variable: &EnvVar,
    source: &EnvSource,
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
    sources: &Sources,
) -> Result<Option<String>, EnvironmentError> {
    if let Some(FieldRef { field_path }) = &source.field_ref {
        return field(field_path, pod, facts)
            .map(Some)
            .ok_or_else(|| EnvironmentError::FieldPath {
                variable: variable.name.clone(),
                path: field_path.clone(),
            });
    }
    if let Some(reference) = &source.resource_field_ref {
        let value = resource_field(reference, pod, Some(container), facts);
        return value.map(Some).ok_or_else(|| EnvironmentError::Resource {
            variable: variable.name.clone(),
            resource: reference.resource.clone(),
        });
    }
    let (kind, reference) = match (&source.config_map_key_ref, &source.secret_key_ref) {
        (Some(reference), _) => (SourceKind::ConfigMap, reference),
        (None, Some(reference)) => (SourceKind::Secret, reference),
        (None, None) => {
            return Err(EnvironmentError::NoSource {
                variable: variable.name.clone(),
            });
        }
    };
    key(variable, kind, reference, sources)
}

fn key(
    variable: &EnvVar,
    kind: SourceKind,
    reference: &KeyRef,
    sources: &Sources,
) -> Result<Option<String>, EnvironmentError> {
    let found = sources
        .get(&(kind, reference.name.clone()))
        .and_then(|values| values.get(&reference.key));
    match found {
        Some(value) => Ok(Some(value.clone())),
        None if reference.optional == Some(true) => Ok(None),
        None => Err(EnvironmentError::Key {
            variable: variable.name.clone(),
            kind,
            name: reference.name.clone(),
            key: reference.key.clone(),
        }),
    }
}

/// A resource of a container, `own` if the reference names none: `limits.cpu` in cores, `requests.memory` in bytes, by
/// the divisor and rounded up. A limit that is not set is what the node has. `None` if there is no such thing.
pub fn resource_field(
    reference: &ResourceFieldRef,
    pod: &Pod,
    own: Option<&Container>,
    facts: &PodFacts,
) -> Option<String> {
    let named = pod
        .spec
        .all_containers()
        .find(|c| c.name == reference.container_name);
    let container = if reference.container_name.is_empty() {
        own
    } else {
        named
    }?;
    let (kind, resource) = reference.resource.split_once('.')?;
    let Resources { limits, requests } = &container.resources;
    let whole = match resource {
        "cpu" => Quantity::whole(facts.capacity.cpus),
        "memory" => Quantity::whole(facts.capacity.memory_bytes),
        _ => Quantity::default(),
    };
    let set = |amounts: &BTreeMap<String, String>| Quantity::parse(amounts.get(resource)?);
    let amount = match kind {
        "limits" => set(limits).unwrap_or(whole),
        "requests" => set(requests).or_else(|| set(limits)).unwrap_or_default(),
        _ => return None,
    };
    let divisor = match reference.divisor.as_str() {
        "" | "0" => Quantity::whole(1),
        text => Quantity::parse(text)?,
    };
    amount.divided_by(divisor).map(|number| number.to_string())
}

/// The value at a `fieldPath` that variables may have; `None` for any other path.
pub fn field(path: &str, pod: &Pod, facts: &PodFacts) -> Option<String> {
    let first = |ips: &[IpAddr]| ips.first().map(ToString::to_string).unwrap_or_default();
    let joined = |ips: &[IpAddr]| {
        let texts: Vec<String> = ips.iter().map(ToString::to_string).collect();
        texts.join(",")
    };
    let subscript =
        |prefix: &str| -> Option<&str> { path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']") };
    if let Some(label) = subscript("metadata.labels") {
        return Some(pod.metadata.labels.get(label).cloned().unwrap_or_default());
    }
    if let Some(annotation) = subscript("metadata.annotations") {
        return Some(
            pod.metadata
                .annotations
                .get(annotation)
                .cloned()
                .unwrap_or_default(),
        );
    }
    Some(match path {
        "metadata.name" => pod.metadata.name.clone(),
        "metadata.namespace" => pod.metadata.namespace.clone(),
        "metadata.uid" => pod.metadata.uid.clone(),
        "spec.nodeName" => pod.spec.node_name.clone(),
        "spec.serviceAccountName" => pod.spec.service_account_name.clone(),
        "status.hostIP" => first(&facts.host_ips),
        "status.hostIPs" => joined(&facts.host_ips),
        "status.podIP" => first(&facts.pod_ips),
        "status.podIPs" => joined(&facts.pod_ips),
        _ => return None,
    })
}

fn has_cluster_ip(service: &Service) -> bool {
    !service.spec.cluster_ip.is_empty() && !service.spec.is_headless()
}

/// Upper case, `-` becomes `_` (ENV-08).
fn variable_name(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}

/// `proto://ip:port`, IPv6 in brackets (ENV-05, ENV-06).
fn link(port: &ServicePort, address: &str) -> String {
    let protocol = port.protocol.as_str().to_ascii_lowercase();
    if address.contains(':') {
        format!("{protocol}://[{address}]:{}", port.port)
    } else {
        format!("{protocol}://{address}:{}", port.port)
    }
}
