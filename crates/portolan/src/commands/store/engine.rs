//! Which engine the data are kept by, and opening it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::EncryptionAtRest;
use clap::Args;
use store::{EtcdAddress, EtcdOptions, EtcdStore, HistoryLimits, SqliteOptions, SqliteStore, Store};

use super::encryption::{EncryptionFlags, transformation};
use crate::commands::Failure;
use crate::flags::{BadValue, duration};

/// Where the embedded store is below a data directory.
pub(super) const STORE_DIRECTORY: &str = "store";

/// Where etcd is; upstream's names.
#[derive(Clone, Debug, Args)]
pub struct EtcdFlags {
    /// PEM certificates that those of the etcd servers must be signed by
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,
    /// PEM certificate that identifies us to etcd
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,
    /// PEM key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// What all keys in etcd begin with; not upstream's /registry, so that both may share an etcd
    #[arg(long, default_value = "/portolan", value_name = "PREFIX")]
    pub etcd_prefix: String,
}

impl EtcdFlags {
    /// The address that these flags and the servers make.
    pub fn address(&self, servers: Vec<String>) -> Result<EtcdAddress, BadValue> {
        if !self.etcd_prefix.starts_with('/') {
            return Err(BadValue("--etcd-prefix begins with a slash".to_owned()));
        }
        Ok(EtcdAddress {
            servers,
            ca_file: self.etcd_cafile.clone(),
            identity_files: self.etcd_certfile.clone().zip(self.etcd_keyfile.clone()),
            prefix: self.etcd_prefix.clone(),
        })
    }
}

/// Flags of the servers that keep data.
#[derive(Clone, Debug, Args)]
pub struct EngineFlags {
    /// Keep the data in etcd, which other API servers may share, in the place of the embedded store
    #[arg(long, value_delimiter = ',', value_name = "URL[,URL]")]
    etcd_servers: Vec<String>,
    /// Address and credentials of etcd.
    #[command(flatten)]
    pub etcd: EtcdFlags,
    /// How long etcd keeps history; 0 leaves that to others
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration)]
    etcd_compaction_interval: Duration,
    /// Flags of encryption at rest.
    #[command(flatten)]
    pub encryption: EncryptionFlags,
}

impl EngineFlags {
    /// Whether other servers may share the data.
    pub fn is_shared(&self) -> bool {
        !self.etcd_servers.is_empty()
    }

    /// Opens the store: on etcd if it is named, else the embedded one below the data directory.
    pub async fn open(
        &self,
        data_directory: &Path,
        at_rest: Option<&EncryptionAtRest>,
    ) -> Result<Arc<dyn Store>, Failure> {
        let transformation = transformation(at_rest);
        if self.etcd_servers.is_empty() {
            let directory = data_directory.join(STORE_DIRECTORY);
            let options = SqliteOptions {
                transformation,
                ..SqliteOptions::default()
            };
            return Ok(Arc::new(SqliteStore::open(directory, options)?));
        }
        for server in self
            .etcd_servers
            .iter()
            .filter(|server| is_open_to_others(server))
        {
            tracing::warn!(
                %server,
                "etcd is reached without TLS: whoever is on the path reads and changes everything, Secrets included; \
                 use https with --etcd-cafile, --etcd-certfile and --etcd-keyfile"
            );
        }
        let options = EtcdOptions {
            address: self.etcd.address(self.etcd_servers.clone())?,
            history: HistoryLimits::default(),
            compaction_interval: self.etcd_compaction_interval,
            transformation,
        };
        Ok(Arc::new(EtcdStore::open(options).await?))
    }
}

/// Returns true if a URL leads to another host by plain HTTP.
fn is_open_to_others(url: &str) -> bool {
    let Some(authority) = url.strip_prefix("http://") else {
        return false;
    };
    let authority = authority.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next(),
        None => authority.split(':').next(),
    };
    let host = host.unwrap_or_default();
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    !is_loopback && host != "localhost"
}

#[cfg(test)]
mod tests;
