//! The file: upstream's `EncryptionConfiguration` of apiserver.config.k8s.io/v1, in YAML or JSON.

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
/// Octets of a file: thousands of keys fit. A larger one is none of these.
const FILE_OCTETS_MAX: u64 = 1 << 20;
/// Users other than the owner who may read a file.
const OTHERS_READ: u32 = 0o044;

/// Reason for the rejection of a configuration; the file has to be corrected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file cannot be read.
    #[error("error opening encryption provider configuration file {path:?}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing in it.
    #[error("encryption provider configuration file {path:?} is empty")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is not an `EncryptionConfiguration`.
    #[error("error while parsing file: {0}")]
    Syntax(String),
    /// The file violates a validation rule.
    #[error("{0}")]
    Invalid(String),
    /// A rule cannot count, because of an earlier one.
    #[error("resource {resource:?} is masked by earlier rule {by:?}")]
    Masked {
        /// The rule's resource.
        resource: String,
        /// The resource of the earlier rule.
        by: String,
    },
}

/// A configuration that keeps the rules.
pub(super) struct EncryptionConfiguration {
    pub(super) elements: Vec<Element>,
}

/// Resources with their providers.
pub(super) struct Element {
    pub(super) resources: Vec<GroupResource>,
    pub(super) providers: Vec<Provider>,
}

/// A resource of a group; either may be `*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupResource {
    pub(super) group: String,
    pub(super) resource: String,
}

impl GroupResource {
    /// Reads `deployments.apps`, `secrets`, `*.apps`, `*.` (the core group) or `*.*`.
    pub(super) fn parse(text: &str) -> GroupResource {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        GroupResource {
            group: group.to_owned(),
            resource: resource.to_owned(),
        }
    }

    /// All resources of a group.
    pub(super) fn all_of(group: &str) -> GroupResource {
        GroupResource {
            group: group.to_owned(),
            resource: "*".to_owned(),
        }
    }

    /// All resources of all groups.
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

/// The file as it is written.
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

/// An element of `providers`, in which exactly one should be set.
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

/// A key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyFile {
    #[serde(default)]
    pub(super) name: String,
    /// Base64.
    #[serde(default, deserialize_with = "zeroizing")]
    pub(super) secret: Zeroizing<String>,
}

fn zeroizing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(deserializer).map(Zeroizing::new)
}

/// Nothing is to be said of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IdentityFile {}

impl ProviderFile {
    /// The providers with keys that are set.
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
    /// Reads a file. One that others may read is used, with a warning.
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
                "the file with the encryption keys can be read by others than its owner; give it mode 0600"
            );
        }
        let mut text = Zeroizing::new(Vec::new());
        file.take(FILE_OCTETS_MAX + 1)
            .read_to_end(&mut text)
            .map_err(unreadable)?;
        if text.is_empty() {
            return Err(ConfigurationError::Empty {
                path: path.to_owned(),
            });
        }
        EncryptionConfiguration::parse(&text)
    }

    /// Reads the content of a file.
    pub(super) fn parse(text: &[u8]) -> Result<EncryptionConfiguration, ConfigurationError> {
        let syntax = |message: String| ConfigurationError::Syntax(message);
        if text.len() as u64 > FILE_OCTETS_MAX {
            return Err(syntax(format!("it is longer than {FILE_OCTETS_MAX} octets")));
        }
        let text = std::str::from_utf8(text).map_err(|error| syntax(error.to_string()))?;
        // The line is told, and nothing of what it says: that may be a key.
        let options = serde_saphyr::options! { with_snippet: false };
        let file: ConfigurationFile = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| syntax(without_values(&error)))?;
        if file.api_version != API_VERSION || file.kind != KIND {
            return Err(syntax(format!(
                "no kind {:?} is registered for version {:?}; expected {KIND} of {API_VERSION}",
                file.kind, file.api_version
            )));
        }
        let faults = validation::faults(&file);
        if !faults.is_empty() {
            return Err(ConfigurationError::Invalid(validation::aggregate(&faults)));
        }
        let elements = file.resources.into_iter().map(element);
        Ok(EncryptionConfiguration {
            elements: elements.collect(),
        })
    }
}

/// Where a file cannot be read, without what stands there.
fn without_values(error: &serde_saphyr::Error) -> String {
    const FAULT: &str = "no YAML, or a field that is unknown, repeated, missing or of another type";
    match error.location() {
        Some(at) => format!("line {}, column {}: {FAULT}", at.line(), at.column()),
        None => FAULT.to_owned(),
    }
}

/// An element of a file that keeps the rules.
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
