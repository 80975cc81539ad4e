//! Membership of a cluster in a set of clusters that export Services to each other (KEP-1645).

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use client::{Client, Config};
use controllers::multicluster::{ClusterId, OTHER_CLUSTERS_MAX, OtherCluster, Settings, UNREACHABLE_AFTER};

use crate::error::{CommandError, InvalidValue, UsageError};
use crate::flags::values::duration;

/// Default DNS zone of a set.
const DOMAIN: &str = "clusterset.local";
/// Default time after which the endpoints of an unreachable cluster are removed: an upgrade of a control plane takes
/// minutes, and its Pods serve meanwhile.
const UNREACHABLE_GRACE_PERIOD: &str = "1h";

/// Flags of the membership in a set.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Multi-cluster Services")]
pub(crate) struct ClusterSetFlags {
    /// Name of this cluster in its set, a DNS label; imports the Services that the clusters of the set export.
    /// Without it, existing imports remain
    #[arg(long, value_name = "NAME")]
    cluster_id: Option<ClusterId>,
    /// kubeconfig of another cluster of the set, for a user with the role portolan:clusterset-reader; can be repeated
    #[arg(long, value_name = "NAME=FILE", requires = "cluster_id", value_parser = kubeconfig)]
    clusterset_kubeconfig: Vec<(ClusterId, PathBuf)>,
    /// Time after which the endpoints of an unreachable cluster are removed, at least 10s
    #[arg(
        long,
        default_value = UNREACHABLE_GRACE_PERIOD,
        value_name = "DURATION",
        requires = "cluster_id",
        value_parser = grace_period
    )]
    clusterset_unreachable_grace_period: Duration,
}

impl ClusterSetFlags {
    /// Returns the settings of the controller; `None` for a cluster that is in no set.
    ///
    /// # Errors
    ///
    /// An error if a name occurs twice or a kubeconfig is invalid.
    pub(crate) fn settings(&self) -> Result<Option<Settings>, CommandError> {
        let Some(cluster_id) = self.cluster_id.clone() else {
            return Ok(None);
        };
        if self.clusterset_kubeconfig.len() > OTHER_CLUSTERS_MAX {
            return Err(UsageError(format!(
                "expected --clusterset-kubeconfig at most {OTHER_CLUSTERS_MAX} times, found {}; remove clusters from the set",
                self.clusterset_kubeconfig.len()
            ))
            .into());
        }
        let mut others: Vec<OtherCluster> = Vec::new();
        for (id, file) in &self.clusterset_kubeconfig {
            if *id == cluster_id || others.iter().any(|other| other.id == *id) {
                return Err(UsageError(format!(
                    "expected distinct names in --cluster-id and --clusterset-kubeconfig, found {id} twice; give each cluster a name of its own"
                ))
                .into());
            }
            let client = Client::new(Config::from_kubeconfig(file)?)?.named("portolan-controllers");
            others.push(OtherCluster {
                id: id.clone(),
                client,
            });
        }
        Ok(Some(Settings {
            cluster_id,
            others,
            unreachable_grace_period: self.clusterset_unreachable_grace_period,
        }))
    }

    /// Returns the DNS zone of the set, which `given` overrides; `None` for a cluster that is in no set.
    pub(crate) fn domain(&self, given: Option<&str>) -> Option<String> {
        let default = self.cluster_id.as_ref().map(|_| DOMAIN);
        given.or(default).map(str::to_owned)
    }

    /// Returns the files with credentials.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.clusterset_kubeconfig.iter().map(|(_, file)| file.clone())
    }
}

/// Parses a grace period. A shorter one than the minimum would end before the cluster is reported as unreachable.
fn grace_period(text: &str) -> Result<Duration, InvalidValue> {
    let parsed = duration(text).ok().filter(|period| *period >= UNREACHABLE_AFTER);
    parsed.ok_or_else(|| InvalidValue::new(text, "a duration of at least 10s, for example 1h"))
}

/// Parses the name of a cluster with its kubeconfig.
fn kubeconfig(text: &str) -> Result<(ClusterId, PathBuf), InvalidValue> {
    let parsed = text.split_once('=').and_then(|(name, file)| {
        let id = name.parse().ok()?;
        (!file.is_empty()).then(|| (id, PathBuf::from(file)))
    });
    parsed.ok_or_else(|| InvalidValue::new(text, "NAME=FILE, for example west=/etc/portolan/west.conf"))
}

#[cfg(test)]
mod tests;
