//! Configuration of an image: commands, environment and users of containers, and the digests of the unpacked layers
//! (OCI image specification, "Image Configuration").

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::digest::Digest;
use crate::manifest::CONFIG_BYTES_MAX;
use crate::platform::Platform;
use crate::text::printable;

#[cfg(test)]
mod tests;

/// Reason why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The content is not JSON of the expected form.
    #[error("the configuration of the image has an invalid form: {0}")]
    Form(String),
    /// The configuration is longer than [`CONFIG_BYTES_MAX`].
    #[error("the configuration of the image has more than {CONFIG_BYTES_MAX} bytes")]
    TooLong,
    /// The image is for another platform.
    #[error("expected an image for {required}, found one for {actual}")]
    Platform {
        /// Platform of the image.
        actual: Box<Platform>,
        /// Platform that is required.
        required: Box<Platform>,
    },
    /// The root file system does not consist of layers.
    #[error("expected a root file system of type \"layers\" in the image, found {0:?}")]
    RootFileSystem(String),
    /// The numbers of layers in manifest and configuration differ.
    #[error("the manifest has {manifest} layers, and the configuration {config}")]
    Layers {
        /// Layers in the manifest.
        manifest: usize,
        /// Layers in the configuration.
        config: usize,
    },
    /// A value has a zero byte, so no process can get it.
    #[error("{0} of the configuration contains a zero byte")]
    ZeroByte(&'static str),
}

/// Defaults of the containers of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// First arguments, which the `command` of a container replaces.
    pub entrypoint: Vec<String>,
    /// Arguments after the entrypoint, which `args` or `command` of a container replace.
    pub command: Vec<String>,
    /// Environment variables, in the order of the image.
    pub environment: Vec<(String, String)>,
    /// Working directory; empty for `/`.
    pub working_directory: String,
    /// User as the image states it: empty, `1000`, `nginx`, `1000:0`.
    pub user: String,
    /// Signal that requests the end of the main process.
    pub stop_signal: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Paths that the image declares as volumes.
    pub volumes: Vec<String>,
}

/// Configuration with the parts that the store needs.
#[derive(Clone, Debug)]
pub(crate) struct ParsedConfig {
    pub defaults: ImageConfig,
    pub platform: Platform,
    /// Digests of the uncompressed layers, lowest first.
    pub diff_ids: Vec<Digest>,
}

/// The part of the document that is read.
#[derive(Deserialize)]
struct Document {
    #[serde(flatten)]
    platform: Platform,
    #[serde(default)]
    config: Option<Defaults>,
    rootfs: RootFileSystem,
}

/// Defaults of containers.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Defaults {
    user: Option<String>,
    env: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    working_dir: Option<String>,
    stop_signal: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    volumes: Option<BTreeMap<String, serde::de::IgnoredAny>>,
}

/// Digests of the uncompressed layers.
#[derive(Deserialize)]
struct RootFileSystem {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    diff_ids: Option<Vec<Digest>>,
}

impl ParsedConfig {
    /// Parses a configuration.
    pub(crate) fn parse(content: &[u8]) -> Result<Self, ConfigError> {
        if content.len() as u64 > CONFIG_BYTES_MAX {
            return Err(ConfigError::TooLong);
        }
        let document: Document = serde_json::from_slice(content)
            .map_err(|error| ConfigError::Form(printable(&error.to_string())))?;
        if !matches!(document.rootfs.kind.as_str(), "layers" | "") {
            return Err(ConfigError::RootFileSystem(printable(&document.rootfs.kind)));
        }
        let defaults = document.config.unwrap_or_default().into_image_config();
        check_zero_bytes(&defaults)?;
        Ok(Self {
            defaults,
            platform: document.platform,
            diff_ids: document.rootfs.diff_ids.unwrap_or_default(),
        })
    }

    /// Checks the configuration against the platform of the host and the number of layers in the manifest.
    pub(crate) fn check(&self, required: &Platform, manifest_layers: usize) -> Result<(), ConfigError> {
        let states_platform = !self.platform.os.is_empty() && !self.platform.architecture.is_empty();
        if states_platform && required.preference_of(&self.platform).is_none() {
            return Err(ConfigError::Platform {
                actual: Box::new(self.platform.printable()),
                required: Box::new(required.clone()),
            });
        }
        if self.diff_ids.len() != manifest_layers {
            return Err(ConfigError::Layers {
                manifest: manifest_layers,
                config: self.diff_ids.len(),
            });
        }
        Ok(())
    }
}

impl Defaults {
    fn into_image_config(self) -> ImageConfig {
        let environment = self.env.unwrap_or_default().into_iter().filter_map(|entry| {
            let (name, value) = entry.split_once('=').unwrap_or((&entry, ""));
            (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        });
        ImageConfig {
            entrypoint: self.entrypoint.unwrap_or_default(),
            command: self.cmd.unwrap_or_default(),
            environment: environment.collect(),
            working_directory: self.working_dir.unwrap_or_default(),
            user: self.user.unwrap_or_default(),
            stop_signal: self.stop_signal.filter(|signal| !signal.is_empty()),
            labels: self.labels.unwrap_or_default(),
            volumes: self.volumes.unwrap_or_default().into_keys().collect(),
        }
    }
}

fn check_zero_bytes(config: &ImageConfig) -> Result<(), ConfigError> {
    let has_zero = |texts: &[String]| texts.iter().any(|text| text.contains('\0'));
    let environment = &config.environment;
    for (part, is_invalid) in [
        ("Entrypoint", has_zero(&config.entrypoint)),
        ("Cmd", has_zero(&config.command)),
        (
            "Env",
            environment
                .iter()
                .any(|(name, value)| name.contains('\0') || value.contains('\0')),
        ),
        ("WorkingDir", config.working_directory.contains('\0')),
        ("User", config.user.contains('\0')),
        ("Volumes", has_zero(&config.volumes)),
    ] {
        if is_invalid {
            return Err(ConfigError::ZeroByte(part));
        }
    }
    Ok(())
}
