//! Names of Services in the configuration of clients: URLs and `HOST:PORT` in the environment and arguments of containers.

use serde_json::Value;

use crate::views::{Pod, list, text};

/// Ends of the names of variables with a host name alone.
const HOST_VARIABLES: [&str; 5] = ["HOST", "HOSTNAME", "ADDR", "ADDRESS", "ENDPOINT"];

/// Bytes of a scanned text, at most: addresses are in short values, and a script is not parsed.
const TEXT_BYTES_MAX: usize = 4_096;
/// References of a Pod, at most.
const REFERENCES_MAX: usize = 256;

/// A reference of a Pod to a host of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Path of the value, such as `spec.containers[0].env[2].value`.
    pub field: String,
    /// Text of the reference, such as `http://web.shop:8080`.
    pub text: String,
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub service: String,
    /// Port, if it is given. That of a scheme is not assumed: many clients take the port from another variable.
    pub port: Option<u16>,
    /// True if the text is a URL or has a namespace. A pair such as `web:2024` can be something else.
    pub is_address: bool,
    /// True if the name contains `svc`, so that it can only be a Service.
    pub is_service_name: bool,
}

/// Returns the references of a Pod. The names may belong to no Service.
pub fn references_of(pod: Pod<'_>) -> Vec<Reference> {
    let aliases = pod.0.list("/spec/hostAliases").iter();
    let aliases: Vec<&str> = aliases
        .flat_map(|alias| alias["hostnames"].as_array().into_iter().flatten())
        .filter_map(|name| name.as_str())
        .collect();
    let mut references = Vec::new();
    for (index, container) in pod.0.list("/spec/containers").iter().enumerate() {
        let at = |field: String| format!("spec.containers[{index}].{field}");
        for (index, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
            let is_image = variable["name"]
                .as_str()
                .is_some_and(|name| name.contains("IMAGE"));
            let Some(text) = variable["value"].as_str().filter(|_| !is_image) else {
                continue;
            };
            let field = at(format!("env[{index}].value"));
            match host_variable(container, variable, pod) {
                Some(reference) => references.push(Reference { field, ..reference }),
                None => scan(text, &field, pod, &mut references),
            }
        }
        for field in ["command", "args"] {
            for (index, argument) in container[field].as_array().into_iter().flatten().enumerate() {
                if let Some(text) = argument.as_str() {
                    scan(text, &at(format!("{field}[{index}]")), pod, &mut references);
                }
            }
        }
    }
    references.retain(|reference| !aliases.contains(&reference.service.as_str()));
    references.truncate(REFERENCES_MAX);
    references
}

/// Returns the reference of a variable such as `WEB_HOST` with a host name alone. Its port is in `WEB_PORT`.
fn host_variable(container: &Value, variable: &Value, pod: Pod<'_>) -> Option<Reference> {
    let name = text(variable, "name");
    let prefix = HOST_VARIABLES
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))?;
    let is_prefix = prefix.is_empty() || prefix.ends_with('_');
    let host = text(variable, "value");
    let (service, namespace, is_service_name) =
        service_of(host, &pod.0.namespace).filter(|_| is_host(host))?;
    let mut variables = list(container, "env").iter();
    let port = variables.find(|other| text(other, "name").strip_suffix("PORT") == Some(prefix));
    is_prefix.then(|| Reference {
        field: String::new(),
        text: host.to_owned(),
        namespace: namespace.to_owned(),
        service: service.to_owned(),
        port: port.and_then(|port| text(port, "value").parse().ok()),
        is_address: true,
        is_service_name,
    })
}

fn scan(text: &str, field: &str, pod: Pod<'_>, references: &mut Vec<Reference>) {
    if text.len() > TEXT_BYTES_MAX {
        return;
    }
    let is_separator = |character: char| character.is_whitespace() || ",;\"'()[]{}<>|=".contains(character);
    for token in text.split(is_separator).filter(|token| !token.contains('$')) {
        // A host name alone can be any word, except if it contains `svc`.
        let alone = || is_host(token).then_some((token, None));
        let is_alone = host_and_port(token).is_none();
        if let Some((host, port)) = host_and_port(token).or_else(alone)
            && let Some((service, namespace, is_service_name)) = service_of(host, &pod.0.namespace)
            && (is_service_name || !is_alone)
        {
            references.push(Reference {
                field: field.to_owned(),
                text: token.to_owned(),
                namespace: namespace.to_owned(),
                service: service.to_owned(),
                port,
                is_address: token.contains("://") || host.contains('.'),
                is_service_name,
            });
        }
    }
}

/// Returns host and port of a URL or of `HOST:PORT`.
fn host_and_port(token: &str) -> Option<(&str, Option<u16>)> {
    let Some((_, rest)) = token.split_once("://") else {
        let (host, port) = token.split_once(':')?;
        let port = port.split('/').next()?.parse().ok()?;
        return is_host(host).then_some((host, Some(port)));
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (authority, None),
    };
    is_host(host).then_some((host, port))
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
