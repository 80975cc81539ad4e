//! Flags of the edge that `portolan balancer --edge` runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use announcer::Metrics;
use balancer::serving::{self, Addresses};
use clap::{Args, ValueEnum};
use edge::StickySecrets;
use tokio::sync::watch;

use crate::error::{CommandError, FileError};
use crate::flags::edge::{AccessLogFlags, ShareFlags};
use crate::flags::values::duration;

/// Flags of the edge.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Edge")]
pub(super) struct EdgeFlags {
    /// Run the edge on this node, for Services of class portolan.dev/edge and those whose annotations need it
    #[arg(long)]
    pub edge: bool,
    /// Addresses that the edge serves: announced (those that this node announces), or all that route to this node
    #[arg(
        long,
        default_value = "announced",
        value_name = "announced|all",
        hide_possible_values = true
    )]
    pub edge_addresses: EdgeAddresses,
    /// Threads that serve connections; 0 for one per core
    #[arg(long, default_value_t = 0, value_name = "N")]
    edge_threads: usize,
    /// Time for open connections to finish at shutdown
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = duration)]
    edge_drain_timeout: Duration,
    /// Unix socket at which a successor process with the same flag takes over the listening sockets
    #[arg(long, value_name = "FILE")]
    edge_handover_socket: Option<PathBuf>,
    /// Secret for sticky-session cookies, the same on all nodes [default: Secret kube-system/portolan-edge-cookies]
    #[arg(long, value_name = "FILE")]
    edge_sticky_secret_file: Option<PathBuf>,
    #[command(flatten)]
    shares: ShareFlags,
    #[command(flatten)]
    log: AccessLogFlags,
}

/// Addresses that an edge serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EdgeAddresses {
    /// Addresses that the announcer of this process announces
    Announced,
    /// All addresses that are assigned to Services of the edge
    All,
}

impl EdgeFlags {
    /// Returns true if a successor process can take over.
    pub(super) fn has_handover(&self) -> bool {
        self.edge_handover_socket.is_some()
    }

    /// Returns the settings of the edge, alongside the announcer of this process.
    ///
    /// # Errors
    ///
    /// An error if the file with the secret cannot be read or is empty.
    pub(super) fn settings(
        &self,
        node_name: String,
        announcer: &Metrics,
        served: watch::Sender<Arc<Addresses>>,
    ) -> Result<serving::Settings, CommandError> {
        let log_destinations = self.log.destinations();
        let sticky_secrets = self.edge_sticky_secret_file.as_deref().map(read_sticky_secret);
        Ok(serving::Settings {
            sticky_secrets: sticky_secrets.transpose()?,
            node_name,
            owned: match self.edge_addresses {
                EdgeAddresses::Announced => Some(announcer.subscribe_owned()),
                EdgeAddresses::All => None,
            },
            served,
            buckets: self.log.buckets(&log_destinations),
            connections_max: self.shares.edge_connections_max,
            shares: self.shares.shares(),
            log_destinations,
            threads: self.edge_threads,
            handover_socket: self.edge_handover_socket.clone(),
            drain_timeout: self.edge_drain_timeout,
            metrics: Arc::default(),
        })
    }
}

fn read_sticky_secret(path: &Path) -> Result<StickySecrets, CommandError> {
    let secret = std::fs::read(path).map_err(FileError::at(path))?;
    if secret.is_empty() {
        return Err(format!("{}: expected a secret, found an empty file", path.display()).into());
    }
    Ok(StickySecrets {
        current: secret,
        previous: None,
    })
}
