//! Names of Services in the configuration of clients: URLs and `HOST:PORT` in the environment and arguments of containers.

use std::net::IpAddr;

use serde_json::Value;

use crate::object::Object;
use crate::views::{Pod, list, text};

/// Ends of the names of variables with a host name alone.
const HOST_VARIABLES: [&str; 5] = ["HOST", "HOSTNAME", "ADDR", "ADDRESS", "ENDPOINT"];

/// Maximum number of bytes of a scanned text: addresses are in short values, and a script is not parsed.
const TEXT_BYTES_MAX: usize = 4_096;
/// Maximum number of references of a Pod.
const REFERENCES_MAX: usize = 256;

/// Ports of the schemes that clients use without a port.
const SCHEME_PORTS: [(&str, u16); 4] = [("http", 80), ("https", 443), ("ws", 80), ("wss", 443)];
/// Name parts of settings whose URL is only an identifier, such as an issuer: no client connects to it.
const IDENTIFIERS: [&str; 3] = ["issuer", "audience", "image"];

/// A reference of a Pod to a host of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Path of the value, such as `spec.containers[0].env[2].value`.
    pub field: String,
    /// Text of the reference, such as `http://web.shop:8080`.
    pub text: String,
    /// Namespace of the Service; "" for an address.
    pub namespace: String,
    /// Name of the Service; "" for an address.
    pub service: String,
    /// Address, if the reference has one instead of a name.
    pub address: Option<IpAddr>,
    /// Port, if it is given.
    pub port: Option<u16>,
    /// Port of the scheme, if no port is given. `None` if another variable seems to have the port.
    pub scheme_port: Option<u16>,
    /// True if the text is a URL or has a namespace. A pair such as `web:2024` can be something else.
    pub is_address: bool,
    /// True if the name contains `svc`, so that it can only be a Service.
    pub is_service_name: bool,
}

impl Reference {
    /// Returns the port that the client uses: the port of the reference, or that of the scheme.
    pub(crate) fn used_port(&self) -> Option<u16> {
        self.port.or(self.scheme_port)
    }

    /// Returns the host of the reference, without scheme, user, port and path.
    pub(crate) fn host(&self) -> &str {
        let rest = self
            .text
            .rsplit_once("://")
            .map_or(self.text.as_str(), |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        authority.split(':').next().unwrap_or_default()
    }
}

/// A variable in the environment of a container.
struct Variable<'w> {
    name: String,
    /// Value, in the container or in a ConfigMap of the input. `None` if it is unknown.
    value: Option<&'w str>,
    /// Path of the value in the Pod.
    field: String,
}

/// A place in a Pod that can have references.
struct ReferenceLocation<'w> {
    pod: Pod<'w>,
    field: String,
    /// True if another variable seems to have the port of URLs.
    has_port_elsewhere: bool,
}

/// Returns the references of a Pod. The names may belong to no Service. `config_map` returns a ConfigMap of the Pod's
/// namespace.
pub(crate) fn references_of<'w>(
    pod: Pod<'w>,
    config_map: &dyn Fn(&str) -> Option<&'w Object>,
) -> Vec<Reference> {
    let aliases = pod.0.list("/spec/hostAliases").iter();
    let aliases: Vec<&str> = aliases
        .flat_map(|alias| alias["hostnames"].as_array().into_iter().flatten())
        .filter_map(|name| name.as_str())
        .collect();
    let mut references = Vec::new();
    for list in ["containers", "initContainers"] {
        let containers = pod.0.list(&format!("/spec/{list}")).iter().enumerate();
        for (index, container) in containers {
            let path = format!("spec.{list}[{index}]");
            let variables = variables(&path, container, config_map);
            add_references_of_variables(pod, &variables, &mut references);
            add_references_of_arguments(pod, &path, container, &mut references);
        }
    }
    references.retain(|reference| !aliases.contains(&reference.service.as_str()));
    references.truncate(REFERENCES_MAX);
    references
}

/// Returns the variables of a container. Those of `envFrom` that `env` replaces, and values of several lines, are omitted.
fn variables<'w>(
    path: &str,
    container: &'w Value,
    config_map: &dyn Fn(&str) -> Option<&'w Object>,
) -> Vec<Variable<'w>> {
    let map_of = |source: &Value| {
        let name = text(source, "name");
        (!name.is_empty()).then(|| config_map(name)).flatten()
    };
    let mut variables = Vec::new();
    for (index, variable) in list(container, "env").iter().enumerate() {
        let source = &variable["valueFrom"]["configMapKeyRef"];
        let (value, field) = match variable["value"].as_str() {
            Some(value) => (Some(value), "value"),
            None => {
                let map = map_of(source);
                let value = map.and_then(|map| map.at("/data")[text(source, "key")].as_str());
                (value, "valueFrom")
            }
        };
        variables.push(Variable {
            name: text(variable, "name").to_owned(),
            value,
            field: format!("{path}.env[{index}].{field}"),
        });
    }
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        let Some(map) = map_of(&source["configMapRef"]) else {
            continue;
        };
        for (key, value) in map.pairs("/data").filter(|(_, value)| !value.contains('\n')) {
            let name = format!("{}{key}", text(source, "prefix"));
            if variables.iter().all(|variable| variable.name != name) {
                let field = format!("{path}.envFrom[{index}]");
                variables.push(Variable {
                    name,
                    value: Some(value),
                    field,
                });
            }
        }
    }
    variables
}

fn add_references_of_variables(pod: Pod<'_>, variables: &[Variable<'_>], references: &mut Vec<Reference>) {
    for variable in variables {
        let Some(value) = variable.value.filter(|_| !is_identifier(&variable.name)) else {
            continue;
        };
        let place = ReferenceLocation {
            pod,
            field: variable.field.clone(),
            has_port_elsewhere: has_port_variable(variables, &variable.name),
        };
        match host_variable(variables, &variable.name, value, &place) {
            Some(reference) => references.push(reference),
            None => scan_text(value, &place, references),
        }
    }
}

fn add_references_of_arguments(pod: Pod<'_>, path: &str, container: &Value, references: &mut Vec<Reference>) {
    for field in ["command", "args"] {
        for (index, argument) in list(container, field).iter().enumerate() {
            let place = ReferenceLocation {
                pod,
                field: format!("{path}.{field}[{index}]"),
                has_port_elsewhere: false,
            };
            let argument = argument.as_str().unwrap_or_default();
            let flag = argument.split('=').next().unwrap_or_default();
            if !is_identifier(flag) {
                scan_text(argument, &place, references);
            }
        }
    }
}

fn is_identifier(setting: &str) -> bool {
    let setting = setting.to_ascii_lowercase();
    IDENTIFIERS.iter().any(|part| setting.contains(part))
}

/// Returns true if the container has the port of a URL in a variable of its own, such as `WEB_PORT` for `WEB_URL`.
fn has_port_variable(variables: &[Variable<'_>], name: &str) -> bool {
    let prefix = name.split('_').next().unwrap_or_default();
    let mut names = variables.iter().map(|variable| &variable.name);
    names.any(|other| other.ends_with("PORT") && other.starts_with(prefix))
}

/// Returns the reference of a variable such as `WEB_HOST` with a host name alone. Its port is in `WEB_PORT`.
fn host_variable(
    variables: &[Variable<'_>],
    name: &str,
    host: &str,
    place: &ReferenceLocation<'_>,
) -> Option<Reference> {
    let prefix = HOST_VARIABLES
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))?;
    let is_prefix = prefix.is_empty() || prefix.ends_with('_');
    let mut variables = variables.iter();
    let port = variables.find(|other| other.name.strip_suffix("PORT") == Some(prefix));
    let port = port.and_then(|port| port.value?.parse().ok());
    let reference = reference(place, host, host, port)?;
    is_prefix.then_some(Reference {
        is_address: true,
        ..reference
    })
}

fn scan_text(text: &str, place: &ReferenceLocation<'_>, references: &mut Vec<Reference>) {
    if text.len() > TEXT_BYTES_MAX {
        return;
    }
    let is_separator = |character: char| character.is_whitespace() || ",;\"'()[]{}<>|=".contains(character);
    for token in text.split(is_separator).filter(|token| !token.contains('$')) {
        // A host name alone can be any word, except if it contains `svc`.
        let alone = || is_host(token).then_some((token, None));
        let is_alone = host_and_port(token).is_none();
        if let Some((host, port)) = host_and_port(token).or_else(alone)
            && let Some(reference) = reference(place, token, host, port)
            && (reference.is_service_name || !is_alone)
        {
            references.push(reference);
        }
    }
}

/// Returns the reference of a text with a host; `None` if the host is neither a name that a Service can have nor an
/// address.
fn reference(place: &ReferenceLocation<'_>, text: &str, host: &str, port: Option<u16>) -> Option<Reference> {
    let scheme_port = SCHEME_PORTS.iter().find_map(|(scheme, scheme_port)| {
        let is_scheme = text.strip_prefix(scheme)?.starts_with("://");
        (is_scheme && port.is_none() && !place.has_port_elsewhere).then_some(*scheme_port)
    });
    let address: Option<IpAddr> = host.parse().ok();
    let (service, namespace, is_service_name) = match address {
        Some(_) => ("", "", false),
        None => service_of(host, &place.pod.0.namespace).filter(|_| is_host(host))?,
    };
    Some(Reference {
        field: place.field.clone(),
        text: text.to_owned(),
        namespace: namespace.to_owned(),
        service: service.to_owned(),
        address,
        port,
        scheme_port,
        is_address: address.is_some() || text.contains("://") || host.contains('.'),
        is_service_name,
    })
}

/// Returns host and port of a URL or of `HOST:PORT`.
fn host_and_port(token: &str) -> Option<(&str, Option<u16>)> {
    let Some((_, rest)) = token.split_once("://") else {
        let (host, port) = token.split_once(':')?;
        let port = port.split('/').next()?.parse().ok()?;
        return is_host_or_address(host).then_some((host, Some(port)));
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (authority, None),
    };
    is_host_or_address(host).then_some((host, port))
}

fn is_host_or_address(host: &str) -> bool {
    is_host(host)
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| !address.is_loopback() && !address.is_unspecified())
}

fn is_host(host: &str) -> bool {
    let is_name_byte =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    host.starts_with(|first: char| first.is_ascii_lowercase())
        && host.bytes().all(is_name_byte)
        && host != "localhost"
}

/// Returns name and namespace of the Service that a host name can mean, and true if it cannot mean anything else.
fn service_of<'n>(host: &'n str, pod_namespace: &'n str) -> Option<(&'n str, &'n str, bool)> {
    let labels: Vec<&str> = host.trim_end_matches('.').split('.').collect();
    match labels.as_slice() {
        [name] => Some((name, pod_namespace, false)),
        [name, namespace] => Some((name, namespace, false)),
        _ => {
            let svc = labels
                .iter()
                .position(|label| *label == "svc")
                .filter(|svc| *svc >= 2)?;
            Some((labels[svc - 2], labels[svc - 1], true))
        }
    }
}

#[cfg(test)]
mod tests;
