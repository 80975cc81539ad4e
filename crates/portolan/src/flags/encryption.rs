//! Encryption at rest of the API server, with upstream's names.

use std::path::PathBuf;
use std::sync::Arc;

use apiserver::{Encryption, EncryptionAtRest};
use clap::Args;
use store::Transformation;

use crate::error::CommandError;

/// Flags of encryption at rest.
#[derive(Clone, Debug, Args)]
pub(crate) struct EncryptionFlags {
    /// EncryptionConfiguration file (apiserver.config.k8s.io/v1) with the encrypted resources and their keys
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
    /// Reload the EncryptionConfiguration file when it changes
    #[arg(long, requires = "encryption_provider_config")]
    encryption_provider_config_automatic_reload: bool,
}

impl EncryptionFlags {
    /// Returns the path of the file, which contains keys.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.encryption_provider_config.clone()
    }

    /// Returns the settings with the keys of the file, or `None` without encryption.
    ///
    /// # Errors
    ///
    /// An error if the file is unusable.
    pub(crate) fn at_rest(&self) -> Result<Option<EncryptionAtRest>, CommandError> {
        let Some(path) = &self.encryption_provider_config else {
            return Ok(None);
        };
        Ok(Some(EncryptionAtRest {
            encryption: Arc::new(Encryption::open(path)?),
            reloads: self.encryption_provider_config_automatic_reload,
        }))
    }
}

/// Returns the transformation of stored values.
pub(crate) fn transformation(at_rest: Option<&EncryptionAtRest>) -> Transformation {
    at_rest.map_or_else(Transformation::default, |at_rest| {
        Transformation::by(at_rest.encryption.clone())
    })
}
