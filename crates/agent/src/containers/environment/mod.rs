//! Environment of containers (ENV-01 to ENV-09): variables of Services, of the container itself, and `$(VAR)`
//! expansion. Pure.

mod expansion;
mod field_path;
mod service_variables;

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::object::{Container, EnvFrom, EnvSource, EnvVar, FieldRef, KeyRef, Pod};

pub use expansion::expand;
pub use field_path::{field, resource_field};
pub use service_variables::{service_variables, visible_services};

#[cfg(test)]
mod tests;

/// Default of the variable `PATH`.
pub(crate) const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Maximum size of the variables of a container with their names, and of the words of its command. The kernel passes no
/// more to a program (three quarters of `_STK_LIM`, 8 MiB).
const BYTES_MAX: usize = 6 << 20;

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

/// ConfigMaps and Secrets that containers refer to, by kind and name.
pub type Sources = BTreeMap<(SourceKind, String), Variables>;

/// Kind of an object from which values come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl SourceKind {
    /// Returns the resource name in paths.
    pub fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
        }
    }

    /// Returns the name in messages.
    pub fn singular(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

/// Reason why a container has no environment: it waits with reason `CreateContainerConfigError`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// A variable refers to a field that variables do not support. To correct it, replace the Pod.
    #[error("variable {variable}: fieldPath {path:?} is not one that variables can have")]
    FieldPath {
        /// Name of the variable.
        variable: String,
        /// Field path.
        path: String,
    },
    /// The ConfigMap or Secret of a variable is missing. A retry may succeed.
    #[error("variable {variable}: {kind} {name:?} not found", kind = kind.singular())]
    VariableSource {
        /// Name of the variable.
        variable: String,
        /// Kind of the object.
        kind: SourceKind,
        /// Name of the object.
        name: String,
    },
    /// The ConfigMap or Secret lacks the key. A retry may succeed.
    #[error("variable {variable}: {kind} {name:?} has no key {key:?}", kind = kind.singular())]
    Key {
        /// Name of the variable.
        variable: String,
        /// Kind of the object.
        kind: SourceKind,
        /// Name of the object.
        name: String,
        /// Missing key of `data`.
        key: String,
    },
    /// `envFrom` refers to a missing ConfigMap or Secret. A retry may succeed.
    #[error("envFrom: {kind} {name:?} not found", kind = kind.singular())]
    Source {
        /// Kind of the object.
        kind: SourceKind,
        /// Name of the object.
        name: String,
    },
    /// A variable refers to an unknown resource or container. To correct it, replace the Pod.
    #[error(
        "variable {variable}: unsupported resource or unknown container in resourceFieldRef {resource:?}"
    )]
    Resource {
        /// Name of the variable.
        variable: String,
        /// Name of the resource, such as `limits.cpu`.
        resource: String,
    },
    /// The variables or the command are too large. To correct it, replace the Pod.
    #[error(
        "expected at most {BYTES_MAX} bytes of variables, and of the command, after the expansion of $(VAR); found more"
    )]
    TooLarge,
    /// `valueFrom` has no supported source. To correct it, replace the Pod.
    #[error(
        "variable {variable}: valueFrom names no source that is supported: fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef"
    )]
    NoSource {
        /// Name of the variable.
        variable: String,
    },
}

/// Values outside of a Pod's spec to which its variables may refer.
#[derive(Clone, Debug, Default)]
pub struct PodFacts {
    /// Addresses of the node, the primary one first.
    pub host_ips: Vec<IpAddr>,
    /// Addresses of the Pod, the primary one first.
    pub pod_ips: Vec<IpAddr>,
    /// Capacity of the node, which stands for missing limits.
    pub capacity: Capacity,
}

/// Capacity of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Number of cores.
    pub cpus: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

/// Returns the environment of a container (ENV-09). Its own variables override `services`, the variables of
/// Services, and may refer to them.
///
/// # Errors
/// See [`EnvironmentError`].
pub fn container_variables(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
    services: &Variables,
    sources: &Sources,
) -> Result<Variables, EnvironmentError> {
    let mut own = OwnVariables::default();
    for from in &container.env_from {
        own.add_source(from, sources)?;
    }
    for variable in &container.env {
        let value = match &variable.value_from {
            None => {
                let expanded = expand(&variable.value, BYTES_MAX, |name| {
                    let value = own.all.get(name).or_else(|| services.get(name));
                    value.map(String::as_str)
                });
                Some(expanded.ok_or(EnvironmentError::TooLarge)?)
            }
            Some(source) => value_from(variable, source, pod, container, facts, sources)?,
        };
        if let Some(value) = value {
            own.add("", &variable.name, value)?;
        }
    }
    let mut all = services.clone();
    all.entry("PATH".to_owned())
        .or_insert_with(|| PATH_DEFAULT.to_owned());
    all.entry("HOSTNAME".to_owned())
        .or_insert_with(|| pod.hostname().to_owned());
    all.extend(own.all);
    Ok(all)
}

/// Expands `$(VAR)` in the words of a command.
///
/// # Errors
/// [`EnvironmentError::TooLarge`].
pub fn expand_words(words: &[String], variables: &Variables) -> Result<Vec<String>, EnvironmentError> {
    let mut left = BYTES_MAX;
    let expand_one = |word: &String| -> Result<String, EnvironmentError> {
        let expanded = expand(word, left, |name| variables.get(name).map(String::as_str));
        let expanded = expanded.ok_or(EnvironmentError::TooLarge)?;
        left -= expanded.len();
        Ok(expanded)
    };
    words.iter().map(expand_one).collect()
}

/// Variables of a container, without those of Services, and with a bound of their size.
#[derive(Default)]
struct OwnVariables {
    all: Variables,
    bytes: usize,
}

impl OwnVariables {
    /// Adds a variable, in place of an earlier one with the same name.
    ///
    /// # Errors
    /// [`EnvironmentError::TooLarge`].
    fn add(&mut self, prefix: &str, name: &str, value: String) -> Result<(), EnvironmentError> {
        self.bytes += prefix.len() + name.len() + value.len();
        if self.bytes > BYTES_MAX {
            return Err(EnvironmentError::TooLarge);
        }
        self.all.insert(format!("{prefix}{name}"), value);
        Ok(())
    }

    /// Adds the variables of an entry of `envFrom`.
    fn add_source(&mut self, from: &EnvFrom, sources: &Sources) -> Result<(), EnvironmentError> {
        let references = [
            (SourceKind::ConfigMap, &from.config_map_ref),
            (SourceKind::Secret, &from.secret_ref),
        ];
        for (kind, reference) in references {
            let Some(reference) = reference else { continue };
            match sources.get(&(kind, reference.name.clone())) {
                Some(values) => {
                    for (key, value) in values {
                        self.add(&from.prefix, key, value.clone())?;
                    }
                }
                None if reference.optional == Some(true) => {}
                None => {
                    return Err(EnvironmentError::Source {
                        kind,
                        name: reference.name.clone(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Returns the ConfigMaps and Secrets to which the environment of a container refers.
pub fn referenced_sources(container: &Container) -> impl Iterator<Item = (SourceKind, &str)> {
    let objects = container.env_from.iter().flat_map(|from| {
        let config_map = from
            .config_map_ref
            .iter()
            .map(|reference| (SourceKind::ConfigMap, reference));
        config_map.chain(
            from.secret_ref
                .iter()
                .map(|reference| (SourceKind::Secret, reference)),
        )
    });
    let keys = container
        .env
        .iter()
        .filter_map(|variable| variable.value_from.as_ref())
        .flat_map(|from| {
            let config_map = from
                .config_map_key_ref
                .iter()
                .map(|reference| (SourceKind::ConfigMap, reference));
            config_map.chain(
                from.secret_key_ref
                    .iter()
                    .map(|reference| (SourceKind::Secret, reference)),
            )
        });
    objects
        .chain(keys)
        .map(|(kind, reference)| (kind, reference.name.as_str()))
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
    key_value(variable, kind, reference, sources)
}

fn key_value(
    variable: &EnvVar,
    kind: SourceKind,
    reference: &KeyRef,
    sources: &Sources,
) -> Result<Option<String>, EnvironmentError> {
    let source = sources.get(&(kind, reference.name.clone()));
    match source.and_then(|values| values.get(&reference.key)) {
        Some(value) => Ok(Some(value.clone())),
        None if reference.optional == Some(true) => Ok(None),
        None if source.is_none() => Err(EnvironmentError::VariableSource {
            variable: variable.name.clone(),
            kind,
            name: reference.name.clone(),
        }),
        None => Err(EnvironmentError::Key {
            variable: variable.name.clone(),
            kind,
            name: reference.name.clone(),
            key: reference.key.clone(),
        }),
    }
}
