//! API server and credentials of an administrator, found as `kubectl` finds them.

use std::path::PathBuf;

use clap::Args;
use client::{Client, Config, ConfigError};

/// kubeconfig that `portolan up` writes by default.
const ADMIN_KUBECONFIG: &str = "/var/lib/portolan/admin.conf";

/// API server and credentials of an administrator.
#[derive(Clone, Debug, Args)]
pub struct AdministratorFlags {
    /// kubeconfig file [default: first of $KUBECONFIG, /var/lib/portolan/admin.conf and ~/.kube/config that exists]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl AdministratorFlags {
    /// Returns a client of the API server.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the kubeconfig is unusable.
    pub fn client(&self) -> Result<Client, ConfigError> {
        let config = match self.kubeconfig.clone().or_else(default_kubeconfig) {
            Some(path) => Config::from_kubeconfig(&path)?,
            None => Config::in_cluster()?,
        };
        Client::new(config)
    }
}

/// Returns the kubeconfig of an administrator: the first of $KUBECONFIG, that of `portolan up`, and `~/.kube/config` that
/// exists.
pub fn default_kubeconfig() -> Option<PathBuf> {
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
    [Some(PathBuf::from(ADMIN_KUBECONFIG)), home]
        .into_iter()
        .flatten()
        .find(|path| path.exists())
}
