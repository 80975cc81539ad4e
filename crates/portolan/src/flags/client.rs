//! API server and credentials of a component.

use std::path::PathBuf;

use clap::Args;
use client::{Client, Config, ConfigError};

/// API server and credentials of a component.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientFlags {
    /// kubeconfig file [default: the ServiceAccount of this Pod]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

impl ClientFlags {
    /// Returns a client of the API server.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the kubeconfig or the ServiceAccount is unusable.
    pub(crate) fn client(&self) -> Result<Client, ConfigError> {
        Client::new(self.config()?)
    }

    /// Returns address and credentials.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the kubeconfig or the ServiceAccount is unusable.
    pub(crate) fn config(&self) -> Result<Config, ConfigError> {
        match &self.kubeconfig {
            Some(path) => Config::from_kubeconfig(path),
            None => Config::in_cluster(),
        }
    }
}
