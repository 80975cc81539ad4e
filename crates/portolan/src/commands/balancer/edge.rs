//! The flags of a node's edge.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use balancer::announce::Metrics;
use balancer::serving::{self, Addresses};
use clap::{Args, ValueEnum};
use edge::StickySecrets;
use edge::log::S3;
use tokio::sync::watch;

use super::super::Failure;
use crate::flags::{duration, host_name};

/// Flags of the edge.
#[derive(Clone, Debug, Args)]
pub struct EdgeFlags {
    /// Which addresses the edge of this node serves: those that the announcer of this process has, or all, for a network
    /// that leads them here in another way
    #[arg(long, default_value = "announced", value_name = "WHICH")]
    edge_addresses: EdgeAddresses,
    /// Threads that serve connections; 0 for one a core
    #[arg(long, default_value_t = 0, value_name = "N")]
    edge_threads: usize,
    /// How long open connections may take to finish at the end
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = duration)]
    edge_drain_timeout: Duration,
    /// Socket through which listening sockets are handed over: a second process that is started with the same one takes
    /// over from the first, which lets its connections finish and ends
    #[arg(long, value_name = "FILE")]
    edge_handover_socket: Option<PathBuf>,
    /// File with a secret that cookies of sticky sessions are made of, the same on all nodes; without it, they are made of
    /// what the Secret kube-system/portolan-edge-cookies holds
    #[arg(long, value_name = "FILE")]
    edge_sticky_secret_file: Option<PathBuf>,
    #[command(flatten)]
    log: AccessLogFlags,
}

/// Flags of access logs. Credentials come from the environment, as AWS's own programs have them.
#[derive(Clone, Debug, Default, Args)]
pub struct AccessLogFlags {
    /// Directory of access logs of Services that name no bucket, or of all where no S3-compatible service is known
    #[arg(long, value_name = "DIR")]
    pub edge_access_log_directory: Option<PathBuf>,
    /// URL of the S3-compatible service whose buckets hold access logs; AWS_ENDPOINT_URL, or AWS's own, if not given
    #[arg(long, value_name = "URL")]
    edge_access_log_s3_endpoint: Option<String>,
    /// Its region; AWS_REGION if not given. Buckets are used if a region, a URL or credentials (AWS_ACCESS_KEY_ID,
    /// AWS_SECRET_ACCESS_KEY) are known
    #[arg(long, value_name = "REGION")]
    edge_access_log_s3_region: Option<String>,
}

impl AccessLogFlags {
    /// Where access logs may go.
    pub fn places(&self) -> edge::log::Places {
        let mut s3 = S3::from_environment(|name| std::env::var(name).ok());
        s3.endpoint = self.edge_access_log_s3_endpoint.clone().or(s3.endpoint);
        s3.region = self.edge_access_log_s3_region.clone().or(s3.region);
        edge::log::Places {
            directory: self.edge_access_log_directory.clone(),
            s3,
            host: host_name(),
        }
    }
}

/// Whether access logs may go to buckets.
pub fn has_buckets(places: &edge::log::Places) -> bool {
    let s3 = &places.s3;
    s3.endpoint.is_some() || s3.region.is_some() || s3.access_key_id.is_some()
}

/// Which addresses an edge serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EdgeAddresses {
    /// Those that the announcer of the same process has.
    Announced,
    /// All that the assigner gave to Services of the edge.
    All,
}

impl EdgeFlags {
    /// Which addresses are served.
    pub fn addresses(&self) -> EdgeAddresses {
        self.edge_addresses
    }

    /// Whether a successor may take over.
    pub fn hands_over(&self) -> bool {
        self.edge_handover_socket.is_some()
    }

    /// The settings of the edge of a node, beside its announcer.
    ///
    /// # Errors
    /// The file with the secret cannot be read, or is empty.
    pub fn settings(
        &self,
        node_name: String,
        announcer: &Metrics,
        served: watch::Sender<Arc<Addresses>>,
    ) -> Result<serving::Settings, Failure> {
        let log_places = self.log.places();
        let sticky_secrets = match &self.edge_sticky_secret_file {
            None => None,
            Some(path) => {
                let secret = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
                if secret.is_empty() {
                    return Err(format!("{}: there is no secret in it", path.display()).into());
                }
                Some(StickySecrets {
                    current: secret,
                    previous: None,
                })
            }
        };
        Ok(serving::Settings {
            sticky_secrets,
            node_name,
            owned: match self.edge_addresses {
                EdgeAddresses::Announced => Some(announcer.follow_held()),
                EdgeAddresses::All => None,
            },
            served,
            has_buckets: has_buckets(&log_places),
            log_places,
            threads: self.edge_threads,
            handover_socket: self.edge_handover_socket.clone(),
            drain_patience: self.edge_drain_timeout,
            metrics: Arc::default(),
        })
    }
}
