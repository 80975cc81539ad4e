//! API server and credentials of an administrator, found as `kubectl` finds them.

use std::path::PathBuf;

use clap::Args;
use client::{Client, Config, ConfigError};

/// kubeconfig that `portolan up` writes by default.
const ADMIN_KUBECONFIG: &str = "/var/lib/portolan/admin.conf";

/// Variable that each container in a cluster has.
const POD_VARIABLE: &str = "KUBERNETES_SERVICE_HOST";

/// API server and credentials of an administrator.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdministratorFlags {
    /// kubeconfig file [default: first of $KUBECONFIG, /var/lib/portolan/admin.conf and ~/.kube/config that exists]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Reasons why the API server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdministratorError {
    /// There is no kubeconfig, and this process runs in no Pod.
    #[error(
        "no kubeconfig found: expected --kubeconfig FILE, $KUBECONFIG, {ADMIN_KUBECONFIG} or ~/.kube/config; `portolan up` \
         writes one on the server, which needs its user (sudo)"
    )]
    NoKubeconfig,
    /// The kubeconfig or the credentials of the Pod are unusable.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl AdministratorFlags {
    /// Returns a client of the API server.
    ///
    /// # Errors
    ///
    /// [`AdministratorError`] if there is no kubeconfig, or it is unusable.
    pub(crate) fn client(&self) -> Result<Client, AdministratorError> {
        let config = match self.kubeconfig.clone().or_else(default_kubeconfig) {
            Some(path) => Config::from_kubeconfig(&path)?,
            None if std::env::var_os(POD_VARIABLE).is_none() => return Err(AdministratorError::NoKubeconfig),
            None => Config::in_cluster()?,
        };
        Ok(Client::new(config)?)
    }
}

/// Returns the kubeconfig of an administrator: the first of $KUBECONFIG, that of `portolan up`, and `~/.kube/config` that
/// exists.
pub(crate) fn default_kubeconfig() -> Option<PathBuf> {
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
