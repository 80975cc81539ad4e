//! The flags of leader election, for components of which one instance works at a time.

use std::time::Duration;

use clap::{ArgAction, Args};
use client::election::Settings;

use super::Failure;
use crate::flags::{duration, host_name};

/// Flags of leader election; names and defaults are upstream's.
#[derive(Clone, Debug, Args)]
pub struct ElectionFlags {
    /// Work only as the holder of a Lease, and stand by otherwise; switch it off where there is one
    /// instance only
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub leader_elect: bool,
    /// How long others respect a lease that is not renewed
    #[arg(long, default_value = "15s", value_name = "DURATION", value_parser = duration)]
    leader_elect_lease_duration: Duration,
    /// How long the leader goes on when it cannot renew; must be less than the lease duration, and what lies
    /// between them is how far clocks and slow requests may be off without two instances writing
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = duration)]
    leader_elect_renew_deadline: Duration,
    /// How often it is tried to get or to renew the lease
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = duration)]
    leader_elect_retry_period: Duration,
    /// Name of the Lease; portolan-controllers for the controllers and portolan-balancer for the balancer if not given
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the Lease
    #[arg(long, default_value = "kube-system", value_name = "NAMESPACE")]
    leader_elect_resource_namespace: String,
}

impl ElectionFlags {
    /// How the election is held, for a component whose Lease has this name if none is given; `None` if there is none.
    pub fn settings(&self, lease_name: &str) -> Result<Option<Settings>, Failure> {
        if !self.leader_elect {
            return Ok(None);
        }
        let settings = Settings {
            // A process that starts again is another candidate: it knows nothing of what it did before.
            identity: format!("{}_{}", host_name(), uuid::Uuid::new_v4()),
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
