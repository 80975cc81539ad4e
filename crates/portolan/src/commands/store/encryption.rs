//! Flags of encryption at rest, under upstream's names.

use std::path::PathBuf;
use std::sync::Arc;

use apiserver::{Encryption, EncryptionAtRest};
use clap::Args;
use store::Transformation;

use crate::commands::Failure;

/// Flags of a server that encrypts.
#[derive(Clone, Debug, Args)]
pub struct EncryptionFlags {
    /// File of kind EncryptionConfiguration (apiserver.config.k8s.io/v1) that says which resources are encrypted in the
    /// store, and with which keys
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
    /// Read that file anew when it changes
    #[arg(long, requires = "encryption_provider_config")]
    encryption_provider_config_automatic_reload: bool,
}

impl EncryptionFlags {
    /// The file, which holds keys.
    pub fn file(&self) -> Option<PathBuf> {
        self.encryption_provider_config.clone()
    }

    /// What they say, with the keys of the file.
    pub fn at_rest(&self) -> Result<Option<EncryptionAtRest>, Failure> {
        let Some(path) = &self.encryption_provider_config else {
            return Ok(None);
        };
        Ok(Some(EncryptionAtRest {
            encryption: Arc::new(Encryption::open(path)?),
            reloads: self.encryption_provider_config_automatic_reload,
        }))
    }
}

/// The form in which a store with this encryption keeps values.
pub fn transformation(at_rest: Option<&EncryptionAtRest>) -> Transformation {
    at_rest.map_or_else(Transformation::default, |at_rest| {
        Transformation::by(at_rest.encryption.clone())
    })
}
