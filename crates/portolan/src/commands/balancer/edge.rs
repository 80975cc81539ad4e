//! The flags of a node's edge.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use announcer::Metrics;
use balancer::serving::{self, Addresses, Buckets};
use clap::{Args, ValueEnum};
use edge::log::{DirectoryLimits, S3};
use edge::{Shares, StickySecrets};
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
    shares: ShareFlags,
    #[command(flatten)]
    log: AccessLogFlags,
}

/// Flags of how Services and clients share what the edge of a node can bear.
#[derive(Clone, Copy, Debug, Args)]
pub struct ShareFlags {
    /// Connections that the edge of this node has open at once; 0 for as many as the limit of open files allows
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub edge_connections_max: usize,
    /// Percent of these connections that one Service may have at most; several that ask for more get equal parts, and
    /// leave a part free for the others
    #[arg(long, default_value_t = Shares::default().service_percent, value_name = "PERCENT",
          value_parser = clap::value_parser!(u8).range(1..=100))]
    edge_service_share: u8,
    /// Percent of these connections that one client address (of IPv6: one /64) may have to a Service whose annotation
    /// portolan.dev/edge-connections-per-client says nothing else
    #[arg(long, default_value_t = Shares::default().client_percent, value_name = "PERCENT",
          value_parser = clap::value_parser!(u8).range(1..=100))]
    edge_client_share: u8,
}

impl ShareFlags {
    /// The shares.
    pub fn shares(&self) -> Shares {
        Shares {
            service_percent: self.edge_service_share,
            client_percent: self.edge_client_share,
        }
    }
}

/// Flags of access logs. Credentials come from the environment, as AWS's own programs have them.
#[derive(Clone, Debug, Args)]
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
    /// Buckets that Services may name for their access logs; * for all that the credentials lead to. Without it no log goes
    /// to a bucket
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    edge_access_log_buckets: Vec<String>,
    /// MiB of all access logs in the directory: beyond that, the oldest files of the Service that has most are removed
    #[arg(long, default_value_t = 1_024, value_name = "MIB", value_parser = clap::value_parser!(u64).range(LOG_QUOTA_MIB))]
    edge_access_log_quota: u64,
    /// MiB of the access logs of one Service in the directory: beyond that, its oldest files are removed
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u64).range(LOG_QUOTA_MIB))]
    edge_access_log_service_quota: u64,
}

/// A file of a log has up to 8 MiB and a line; 16 TiB are more than anybody means.
const LOG_QUOTA_MIB: std::ops::RangeInclusive<u64> = 16..=16_777_216;

impl Default for AccessLogFlags {
    fn default() -> Self {
        Self {
            edge_access_log_directory: None,
            edge_access_log_s3_endpoint: None,
            edge_access_log_s3_region: None,
            edge_access_log_buckets: Vec::new(),
            edge_access_log_quota: 1_024,
            edge_access_log_service_quota: 256,
        }
    }
}

impl AccessLogFlags {
    /// Where access logs may go.
    pub fn places(&self) -> edge::log::Destinations {
        let mut s3 = S3::from_environment(|name| std::env::var(name).ok());
        s3.endpoint = self.edge_access_log_s3_endpoint.clone().or(s3.endpoint);
        s3.region = self.edge_access_log_s3_region.clone().or(s3.region);
        edge::log::Destinations {
            directory: self.edge_access_log_directory.clone(),
            directory_limits: DirectoryLimits {
                bytes_max: self.edge_access_log_quota << 20,
                service_bytes_max: self.edge_access_log_service_quota << 20,
                ..DirectoryLimits::default()
            },
            s3,
            host: host_name(),
        }
    }

    /// The buckets that access logs may go to, where an S3-compatible service is known.
    pub fn buckets(&self, places: &edge::log::Destinations) -> Buckets {
        let s3 = &places.s3;
        let is_known = s3.endpoint.is_some() || s3.region.is_some() || s3.access_key_id.is_some();
        if !is_known {
            return Buckets::Unknown;
        }
        let names = self.edge_access_log_buckets.iter();
        Buckets::Allowed(names.map(|name| name.trim().into()).collect())
    }
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
        let log_destinations = self.log.places();
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
                EdgeAddresses::Announced => Some(announcer.subscribe_held()),
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
