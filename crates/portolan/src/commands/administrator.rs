//! Commands that a person gives to a cluster: where its API is, as `kubectl` finds it.

use std::path::PathBuf;

use clap::Args;
use client::{Client, Config, ConfigError};

/// Where the kubeconfig is that `portolan up` writes if it is not told otherwise.
const ADMINISTRATOR: &str = "/var/lib/portolan/admin.conf";

/// Where the API is and who asks.
#[derive(Clone, Debug, Args)]
pub struct AdministratorFlags {
    /// kubeconfig file; without it the first file of $KUBECONFIG, /var/lib/portolan/admin.conf, or ~/.kube/config,
    /// whichever is there
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl AdministratorFlags {
    /// A client for that API server.
    pub fn client(&self) -> Result<Client, ConfigError> {
        let config = match self.kubeconfig.clone().or_else(found) {
            Some(path) => Config::from_kubeconfig(&path)?,
            None => Config::in_cluster()?,
        };
        Client::new(config)
    }
}

fn found() -> Option<PathBuf> {
    let named = std::env::var_os("KUBECONFIG");
    let named: Vec<PathBuf> = named
        .iter()
        .flat_map(|paths| std::env::split_paths(paths).collect::<Vec<_>>())
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if let Some(first) = named.iter().find(|path| path.exists()).or(named.first()) {
        return Some(first.clone());
    }
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
    [Some(PathBuf::from(ADMINISTRATOR)), home]
        .into_iter()
        .flatten()
        .find(|path| path.exists())
}
