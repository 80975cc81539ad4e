//! Leader election of components with one active instance.

use std::time::Duration;

use clap::{ArgAction, Args};
use client::election::{Settings, SettingsError};

use super::values::{duration, hostname};

/// Flags of leader election, with upstream's names and defaults.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub(crate) struct ElectionFlags {
    /// Work only while this instance holds the Lease; disable for a single instance
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub leader_elect: bool,
    /// Time after which another instance takes over a Lease that is not renewed
    #[arg(long, default_value = "15s", value_name = "DURATION", value_parser = duration)]
    leader_elect_lease_duration: Duration,
    /// Time after which a leader that cannot renew stops; less than the lease duration
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = duration)]
    leader_elect_renew_deadline: Duration,
    /// Time between attempts to acquire or renew the Lease
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = duration)]
    leader_elect_retry_period: Duration,
    /// Name of the Lease
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the Lease
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE")]
    leader_elect_resource_namespace: String,
}

impl ElectionFlags {
    /// Returns the settings of the election, or `None` if there is no election. `lease_name` is the default name of the Lease.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if the durations contradict each other.
    pub(crate) fn settings(&self, lease_name: &str) -> Result<Option<Settings>, SettingsError> {
        if !self.leader_elect {
            return Ok(None);
        }
        let settings = Settings {
            identity: candidate_identity(),
            namespace: self.leader_elect_resource_namespace.clone(),
            name: self
                .leader_elect_resource_name
                .clone()
                .unwrap_or_else(|| lease_name.to_owned()),
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        settings.check()?;
        Ok(Some(settings))
    }
}

/// Returns an identity for an election. A restarted process is another candidate, because it has lost its state.
pub(crate) fn candidate_identity() -> String {
    format!("{}_{}", hostname(), uuid::Uuid::new_v4())
}
