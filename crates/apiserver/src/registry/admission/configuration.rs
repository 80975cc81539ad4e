//! The file of `--admission-control-config-file`: settings of admission plugins, in upstream's format.

use std::io;
use std::path::{Path, PathBuf};

use api::pod_security::{Configuration, ConfigurationError};
use serde::Deserialize;
use serde_json::Value;

const KIND: &str = "AdmissionConfiguration";
const API_VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1"];
const POD_SECURITY: &str = "PodSecurity";

/// Settings of admission plugins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionConfiguration {
    /// The settings of the plugin PodSecurity.
    pub pod_security: Configuration,
}

/// An invalid configuration file.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionConfigurationError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
    /// A file is not valid YAML, or has unknown fields.
    #[error("cannot parse {}: {message}", path.display())]
    Form {
        /// Path of the file.
        path: PathBuf,
        /// Message of the parser.
        message: String,
    },
    /// The settings of PodSecurity are invalid.
    #[error("invalid settings of the admission plugin {POD_SECURITY} in {}: {source}", path.display())]
    PodSecurity {
        /// Path of the file.
        path: PathBuf,
        /// Defect of the plugin's configuration.
        source: ConfigurationError,
    },
    /// The plugin has no settings. Upstream would accept the settings; an ignored restriction would not protect the
    /// cluster.
    #[error("{} configures the admission plugin {name:?}; only {POD_SECURITY} has settings", path.display())]
    UnknownPlugin {
        /// Path of the file.
        path: PathBuf,
        /// Name of the plugin.
        name: String,
    },
}

/// The configuration file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    plugins: Vec<Plugin>,
}

/// A plugin in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plugin {
    name: String,
    /// Path of a file with the settings, relative to the directory of this file.
    #[serde(default)]
    path: String,
    configuration: Option<Value>,
}

impl AdmissionConfiguration {
    /// Reads the file and the files that it references.
    ///
    /// # Errors
    /// See [`AdmissionConfigurationError`].
    pub fn read(path: &Path) -> Result<Self, AdmissionConfigurationError> {
        let file: File = parse(path)?;
        if file.kind != KIND || !API_VERSIONS.contains(&file.api_version.as_str()) {
            let (api_version, kind) = (&file.api_version, &file.kind);
            return Err(AdmissionConfigurationError::Form {
                path: path.to_owned(),
                message: format!(
                    "expected apiVersion {} and kind {KIND}, found apiVersion {api_version:?} and kind {kind:?}",
                    API_VERSIONS[0]
                ),
            });
        }
        let mut configuration = Self::default();
        for plugin in file.plugins {
            if plugin.name != POD_SECURITY {
                return Err(AdmissionConfigurationError::UnknownPlugin {
                    path: path.to_owned(),
                    name: plugin.name,
                });
            }
            let Some((path, settings)) = plugin.settings(path)? else {
                continue;
            };
            let read = Configuration::read(settings);
            configuration.pod_security =
                read.map_err(|source| AdmissionConfigurationError::PodSecurity { path, source })?;
        }
        Ok(configuration)
    }
}

impl Plugin {
    /// Returns the settings and the file that has them. As upstream, inline settings take precedence over `path`.
    fn settings(self, file: &Path) -> Result<Option<(PathBuf, Value)>, AdmissionConfigurationError> {
        if let Some(configuration) = self.configuration {
            return Ok(Some((file.to_owned(), configuration)));
        }
        if self.path.is_empty() {
            return Ok(None);
        }
        let directory = file.parent().unwrap_or(Path::new(""));
        let path = directory.join(self.path);
        let settings = parse(&path)?;
        Ok(Some((path, settings)))
    }
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, AdmissionConfigurationError> {
    let text = std::fs::read_to_string(path).map_err(|source| AdmissionConfigurationError::Read {
        path: path.to_owned(),
        source,
    })?;
    serde_saphyr::from_str(&text).map_err(|error| AdmissionConfigurationError::Form {
        path: path.to_owned(),
        message: error.without_snippet().to_string(),
    })
}

#[cfg(test)]
mod tests;
