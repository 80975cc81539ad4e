//! The configuration file: upstream's `EncryptionConfiguration` of apiserver.config.k8s.io/v1, in YAML or JSON.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use super::provider::{Algorithm, Key, Provider};
use super::validation;

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";
/// Maximum size of a configuration file; thousands of keys fit.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Mode bits that let users other than the owner read the file.
const OTHERS_READ: u32 = 0o044;

/// Failure to load an encryption configuration. The file has to be corrected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file cannot be read.
    #[error("error opening encryption provider configuration file {path:?}: {source}")]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file is empty.
    #[error("encryption provider configuration file {path:?} is empty")]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is not an `EncryptionConfiguration`.
    #[error("error while parsing file: {0}")]
    Syntax(String),
    /// The file violates a validation rule.
    #[error("{0}")]
    Invalid(String),
    /// An earlier rule matches all resources of this rule.
    #[error("resource {resource:?} is masked by earlier rule {by:?}")]
    Masked {
        /// Resource of the rule.
        resource: String,
        /// Resource of the earlier rule.
        by: String,
    },
}

/// A validated configuration.
pub(super) struct EncryptionConfiguration {
    pub(super) elements: Vec<Element>,
}

/// Resources with their providers.
pub(super) struct Element {
    pub(super) resources: Vec<GroupResource>,
    pub(super) providers: Vec<Provider>,
}

/// A resource and its group; either may be `*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupResource {
    pub(super) group: String,
    pub(super) resource: String,
}

impl GroupResource {
    /// Parses `deployments.apps`, `secrets`, `*.apps`, `*.` (the core group) or `*.*`.
    pub(super) fn parse(text: &str) -> GroupResource {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        GroupResource {
            group: group.to_owned(),
            resource: resource.to_owned(),
        }
    }

    /// Returns the pattern for all resources of a group.
    pub(super) fn all_of(group: &str) -> GroupResource {
        GroupResource {
            group: group.to_owned(),
            resource: "*".to_owned(),
        }
    }

    /// Returns the pattern for all resources of all groups.
    pub(super) fn all() -> GroupResource {
        GroupResource::all_of("*")
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.resource.as_str(), self.group.as_str()) {
            ("*", "") => f.write_str("*."),
            (resource, "") => f.write_str(resource),
            (resource, group) => write!(f, "{resource}.{group}"),
        }
    }
}

/// The configuration file before validation.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ConfigurationFile {
    api_version: String,
    kind: String,
    #[serde(default)]
    pub(super) resources: Vec<ElementFile>,
}

/// An element of `resources`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ElementFile {
    #[serde(default)]
    pub(super) resources: Vec<String>,
    #[serde(default)]
    pub(super) providers: Vec<ProviderFile>,
}

/// An element of `providers`. Exactly one field has to be set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderFile {
    pub(super) aesgcm: Option<KeysFile>,
    pub(super) aescbc: Option<KeysFile>,
    pub(super) secretbox: Option<KeysFile>,
    pub(super) identity: Option<IdentityFile>,
    pub(super) kms: Option<serde_json::Value>,
}

/// The keys of a provider.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeysFile {
    #[serde(default)]
    pub(super) keys: Vec<KeyFile>,
}

/// A named key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyFile {
    #[serde(default)]
    pub(super) name: String,
    /// Base64 of the key.
    #[serde(default, deserialize_with = "zeroizing")]
    pub(super) secret: Zeroizing<String>,
}

fn zeroizing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(deserializer).map(Zeroizing::new)
}

/// The provider `identity`, which has no fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IdentityFile {}

impl ProviderFile {
    /// Returns the configured providers that have keys.
    pub(super) fn with_keys(&self) -> impl Iterator<Item = (&'static str, Algorithm, &KeysFile)> {
        [
            ("aesgcm", Algorithm::AesGcm, &self.aesgcm),
            ("aescbc", Algorithm::AesCbc, &self.aescbc),
            ("secretbox", Algorithm::Secretbox, &self.secretbox),
        ]
        .into_iter()
        .filter_map(|(name, algorithm, keys)| Some((name, algorithm, keys.as_ref()?)))
    }
}

impl EncryptionConfiguration {
    /// Reads and validates a file. A file that other users may read causes a warning.
    pub(super) fn read(path: &Path) -> Result<EncryptionConfiguration, ConfigurationError> {
        let unreadable = |source| ConfigurationError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode();
        if mode & OTHERS_READ != 0 {
            tracing::warn!(
                path = %path.display(),
                mode = format_args!("{:04o}", mode & 0o7777),
                "encryption provider configuration readable by other users; set mode 0600"
            );
        }
        let mut text = Zeroizing::new(Vec::new());
        file.take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(unreadable)?;
        if text.is_empty() {
            return Err(ConfigurationError::Empty {
                path: path.to_owned(),
            });
        }
        EncryptionConfiguration::parse(&text)
    }

    /// Parses and validates the content of a file.
    pub(super) fn parse(text: &[u8]) -> Result<EncryptionConfiguration, ConfigurationError> {
        let syntax = |message: String| ConfigurationError::Syntax(message);
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(syntax(format!(
                "expected at most {FILE_BYTES_MAX} bytes, found more"
            )));
        }
        let text = std::str::from_utf8(text).map_err(|error| syntax(error.to_string()))?;
        // Errors must not contain the source text, which may be a key. They name the line only.
        let options = serde_saphyr::options! { with_snippet: false };
        let file: ConfigurationFile = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| syntax(without_values(&error)))?;
        if file.api_version != API_VERSION || file.kind != KIND {
            return Err(syntax(format!(
                "no kind {:?} is registered for version {:?}; expected {KIND} of {API_VERSION}",
                file.kind, file.api_version
            )));
        }
        let errors = validation::validate(&file);
        if !errors.is_empty() {
            return Err(ConfigurationError::Invalid(validation::aggregate(&errors)));
        }
        let elements = file.resources.into_iter().map(element);
        Ok(EncryptionConfiguration {
            elements: elements.collect(),
        })
    }
}

/// Returns the position of a syntax error, without the text at that position.
fn without_values(error: &serde_saphyr::Error) -> String {
    const FAULT: &str = "invalid YAML, or a field that is unknown, duplicate, missing or of another type";
    match error.location() {
        Some(location) => format!("line {}, column {}: {FAULT}", location.line(), location.column()),
        None => FAULT.to_owned(),
    }
}

/// Converts a validated element.
fn element(file: ElementFile) -> Element {
    let providers = file.providers.iter().map(|provider| {
        let with_keys = provider.with_keys().next();
        with_keys.map_or(Provider::Identity, |(_, algorithm, file)| Provider::Keys {
            algorithm,
            keys: file.keys.iter().filter_map(key).collect(),
        })
    });
    Element {
        providers: providers.collect(),
        resources: file
            .resources
            .iter()
            .map(|text| GroupResource::parse(text))
            .collect(),
    }
}

fn key(file: &KeyFile) -> Option<Key> {
    Some(Key {
        name: file.name.clone(),
        secret: validation::secret(&file.secret)?,
    })
}
