//! Configuration of the admission plugin PodSecurity: defaults for Namespaces without labels, and exemptions.

use std::collections::HashSet;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::level::{Level, LevelVersion, Version};
use super::policy::Policy;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::names;

const GROUP: &str = "pod-security.admission.config.k8s.io";
const KIND: &str = "PodSecurityConfiguration";
/// API versions that upstream accepts; their fields are equal.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// Configuration of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Policy of Namespaces without labels.
    pub defaults: Policy,
    /// Exempt requests.
    pub exemptions: Exemptions,
}

/// Requests that are exempt from all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Exemptions {
    /// Exempt users.
    pub usernames: Vec<String>,
    /// Exempt namespaces.
    pub namespaces: Vec<String>,
    /// RuntimeClasses whose Pods are exempt.
    pub runtime_classes: Vec<String>,
}

/// Failure to load a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The document contains another kind.
    #[error(
        "expected apiVersion {GROUP}/v1 and kind {KIND}, found apiVersion {api_version:?} and kind {kind:?}"
    )]
    Kind {
        /// The `apiVersion` of the document.
        api_version: String,
        /// The `kind` of the document.
        kind: String,
    },
    /// A field is unknown or has another type.
    #[error("strict decoding error: {0}")]
    Form(#[from] serde_json::Error),
    /// Fields have invalid values.
    #[error("{}", join_with_commas(.0))]
    Values(FieldErrors),
}

impl Default for Configuration {
    fn default() -> Self {
        Self {
            defaults: Policy::PRIVILEGED,
            exemptions: Exemptions::default(),
        }
    }
}

/// The file, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    // Checked before deserialization.
    #[serde(default, rename = "apiVersion")]
    _api_version: IgnoredAny,
    #[serde(default, rename = "kind")]
    _kind: IgnoredAny,
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    exemptions: Exemptions,
}

/// Levels and versions of namespaces without labels.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Defaults {
    enforce: String,
    enforce_version: String,
    audit: String,
    audit_version: String,
    warn: String,
    warn_version: String,
}

impl Configuration {
    /// Parses a `PodSecurityConfiguration`.
    ///
    /// # Errors
    /// See [`ConfigurationError`]; messages about values are upstream's.
    pub fn read(value: Value) -> Result<Self, ConfigurationError> {
        let text = |field: &str| crate::machinery::tree::text(&value, field).to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let version = api_version
            .strip_prefix(GROUP)
            .and_then(|rest| rest.strip_prefix('/'));
        if kind != KIND || !version.is_some_and(|version| VERSIONS.contains(&version)) {
            return Err(ConfigurationError::Kind { api_version, kind });
        }
        let file: File = serde_json::from_value(value)?;
        let mut errors = FieldErrors::new();
        let defaults = &file.defaults;
        let defaults = Policy {
            enforce: mode(
                "enforce",
                &defaults.enforce,
                &defaults.enforce_version,
                &mut errors,
            ),
            warn: mode("warn", &defaults.warn, &defaults.warn_version, &mut errors),
            audit: mode("audit", &defaults.audit, &defaults.audit_version, &mut errors),
        };
        validate_exemptions(&file.exemptions, &mut errors);
        if !errors.is_empty() {
            return Err(ConfigurationError::Values(errors));
        }
        Ok(Self {
            defaults,
            exemptions: file.exemptions,
        })
    }
}

impl Exemptions {
    /// Returns true if the Namespace is exempt.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        contains(&self.namespaces, namespace)
    }

    /// Returns true if the user is exempt.
    pub fn has_user(&self, user: &str) -> bool {
        contains(&self.usernames, user)
    }

    /// Returns true if the RuntimeClass is exempt.
    pub fn has_runtime_class(&self, runtime_class: &str) -> bool {
        contains(&self.runtime_classes, runtime_class)
    }
}

/// Returns true if the list contains the name. Empty names are never exempt.
fn contains(names: &[String], name: &str) -> bool {
    !name.is_empty() && names.iter().any(|entry| entry == name)
}

fn mode(name: &str, level: &str, version: &str, errors: &mut FieldErrors) -> LevelVersion {
    let mut result = LevelVersion::PRIVILEGED;
    let path = Path::new("defaults");
    if !level.is_empty() {
        match Level::parse(level) {
            Ok(level) => result.level = level,
            Err(detail) => errors.push(FieldError::invalid(&path.child(name), level, detail)),
        }
    }
    if !version.is_empty() {
        match Version::parse(version) {
            Ok(version) => result.version = version,
            Err(detail) => {
                let path = path.child(&format!("{name}-version"));
                errors.push(FieldError::invalid(&path, version, detail));
            }
        }
    }
    result
}

fn validate_exemptions(exemptions: &Exemptions, errors: &mut FieldErrors) {
    type Validate = fn(&str) -> Vec<String>;
    let path = Path::new("exemptions");
    let rows: [(&str, &[String], Validate); 2] = [
        ("namespaces", &exemptions.namespaces, names::dns_label),
        (
            "runtimeClasses",
            &exemptions.runtime_classes,
            names::dns_subdomain,
        ),
    ];
    for (field, names, validate) in rows {
        let mut seen = HashSet::new();
        for (index, name) in names.iter().enumerate() {
            let path = path.child(field).index(index);
            let problems = validate(name);
            if !problems.is_empty() {
                errors.push(FieldError::invalid(&path, name.as_str(), problems.join(", ")));
            } else if !seen.insert(name) {
                errors.push(FieldError::duplicate(&path, name.as_str()));
            }
        }
    }
    let mut seen = HashSet::new();
    for (index, name) in exemptions.usernames.iter().enumerate() {
        let path = path.child("usernames").index(index);
        if name.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path, name.as_str()));
        }
    }
}

fn join_with_commas(errors: &FieldErrors) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.join(", ")
}
