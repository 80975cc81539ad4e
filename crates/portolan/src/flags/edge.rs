//! Connection limits and access logs of the load-balancer edge.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use balancer::serving::AllowedBuckets;
use clap::Args;
use edge::Shares;
use edge::log::{Destinations, DirectoryLimits, S3};

use super::values::hostname;

/// Limits of a quota in MiB. A log file has up to 8 MiB and one line; 16 TiB exceed any host.
const LOG_QUOTA_MIB: RangeInclusive<u64> = 16..=16_777_216;
/// Default quota of all access logs.
const LOG_QUOTA_MIB_DEFAULT: u64 = 1_024;
/// Default quota of the access logs of one Service.
const SERVICE_LOG_QUOTA_MIB_DEFAULT: u64 = 256;

/// Flags of the connection limits of an edge.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ShareFlags {
    /// Maximum number of open connections of the edge; 0 for as many as the limit of open files allows
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub edge_connections_max: usize,
    /// Maximum percentage of these connections for one Service; competing Services get equal parts
    #[arg(long, default_value_t = Shares::default().service_percent, value_name = "PERCENT",
          value_parser = clap::value_parser!(u8).range(1..=100))]
    edge_service_share: u8,
    /// Percentage of these connections for one client (IPv6: one /64), if the Service has no limit of its own
    #[arg(long, default_value_t = Shares::default().client_percent, value_name = "PERCENT",
          value_parser = clap::value_parser!(u8).range(1..=100))]
    edge_client_share: u8,
}

impl ShareFlags {
    /// Returns the shares of Services and clients.
    pub(crate) fn shares(&self) -> Shares {
        Shares {
            service_percent: self.edge_service_share,
            client_percent: self.edge_client_share,
        }
    }
}

/// Flags of access logs. Credentials are read from the environment, with the variables of the AWS tools.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Access logs")]
pub(crate) struct AccessLogFlags {
    /// Directory of access logs that do not go to a bucket
    #[arg(long, value_name = "DIR")]
    pub edge_access_log_directory: Option<PathBuf>,
    /// URL of the S3-compatible service for access logs [default: $AWS_ENDPOINT_URL, or that of AWS]
    #[arg(long, value_name = "URL")]
    edge_access_log_s3_endpoint: Option<String>,
    /// Region of that service [default: $AWS_REGION]
    #[arg(long, value_name = "REGION")]
    edge_access_log_s3_region: Option<String>,
    /// Buckets that Services may name for access logs; * for all; none without this flag
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    edge_access_log_buckets: Vec<String>,
    /// MiB of access logs in the directory; above it, the edge removes the oldest files of the largest Service
    #[arg(long, default_value_t = LOG_QUOTA_MIB_DEFAULT, value_name = "MIB", value_parser = clap::value_parser!(u64).range(LOG_QUOTA_MIB))]
    edge_access_log_quota: u64,
    /// MiB of access logs of one Service in the directory; above it, the edge removes its oldest files
    #[arg(long, default_value_t = SERVICE_LOG_QUOTA_MIB_DEFAULT, value_name = "MIB", value_parser = clap::value_parser!(u64).range(LOG_QUOTA_MIB))]
    edge_access_log_service_quota: u64,
    /// Percentage of the directory's file system that must be free; below it, the edge drops access logs
    #[arg(long, default_value_t = DirectoryLimits::default().free_percent_min, value_name = "PERCENT",
          value_parser = clap::value_parser!(u8).range(0..=99))]
    edge_access_log_min_free: u8,
}

impl AccessLogFlags {
    /// Returns the destinations of access logs.
    pub(crate) fn destinations(&self) -> Destinations {
        let mut s3 = S3::from_environment(|name| std::env::var(name).ok());
        s3.endpoint = self.edge_access_log_s3_endpoint.clone().or(s3.endpoint);
        s3.region = self.edge_access_log_s3_region.clone().or(s3.region);
        Destinations {
            directory: self.edge_access_log_directory.clone(),
            directory_limits: DirectoryLimits {
                bytes_max: self.edge_access_log_quota << 20,
                service_bytes_max: self.edge_access_log_service_quota << 20,
                free_percent_min: self.edge_access_log_min_free,
            },
            s3,
            host: hostname(),
        }
    }

    /// Returns the buckets that Services may name, or `Unknown` if no S3-compatible service is configured.
    pub(crate) fn buckets(&self, destinations: &Destinations) -> AllowedBuckets {
        let s3 = &destinations.s3;
        let is_configured = s3.endpoint.is_some() || s3.region.is_some() || s3.access_key_id.is_some();
        if !is_configured {
            return AllowedBuckets::Unknown;
        }
        let names = self.edge_access_log_buckets.iter();
        AllowedBuckets::Allowed(names.map(|name| name.trim().into()).collect())
    }
}
