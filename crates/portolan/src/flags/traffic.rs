//! Flags of commands that show traffic.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::administrator::AdministratorFlags;
use super::values::duration;
use crate::error::UsageError;
use crate::traffic::query::{INTERVAL_MAX, INTERVAL_MIN};

/// Source of traffic.
#[derive(Clone, Debug, Args)]
pub(crate) struct TrafficFlags {
    /// Time between two samples, from 100ms to 20s
    #[arg(long, default_value = "1s", value_name = "DURATION", value_parser = duration)]
    pub interval: Duration,
    /// Read connection tracking of this host only [default: query all nodes through the API server, or read this host
    /// if the API server has no reports of nodes]
    #[arg(long)]
    pub local: bool,
    /// Name of the Node of this host [default: the host name in lower case]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// File with objects as JSON or YAML, as `kubectl get -o json` prints them; repeatable; implies --local [default: the
    /// objects of the API server]
    #[arg(long, value_name = "FILE")]
    pub from_file: Vec<PathBuf>,
    /// Turn on the byte counters of this host (net.netfilter.nf_conntrack_acct); connections that exist have none
    #[arg(long)]
    pub enable_accounting: bool,
    /// API server and credentials.
    #[command(flatten)]
    pub administrator: AdministratorFlags,
}

impl TrafficFlags {
    /// Checks the interval.
    ///
    /// # Errors
    ///
    /// [`UsageError`] that names the flag.
    pub(crate) fn validate(&self) -> Result<(), UsageError> {
        if (INTERVAL_MIN..=INTERVAL_MAX).contains(&self.interval) {
            return Ok(());
        }
        Err(UsageError(format!(
            "--interval must be from {INTERVAL_MIN:?} to {INTERVAL_MAX:?}, found {:?}",
            self.interval
        )))
    }

    /// Returns true if only this host is read.
    pub(crate) fn is_local(&self) -> bool {
        self.local || !self.from_file.is_empty()
    }
}
