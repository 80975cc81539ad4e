//! Storage engine of the API server: SQLite, or etcd.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::EncryptionAtRest;
use clap::Args;
use store::{EtcdAddress, EtcdSettings, EtcdStore, HistoryLimits, SqliteOptions, SqliteStore, Store};

use super::encryption::{EncryptionFlags, transformation};
use super::values::duration;
use crate::error::{CommandError, UsageError};

/// Directory of the SQLite database, below a data directory.
pub(crate) const STORE_DIRECTORY: &str = "store";

/// Credentials and key prefix of etcd, with upstream's names.
#[derive(Clone, Debug, Args)]
pub(crate) struct EtcdFlags {
    /// PEM file of the CA certificates of the etcd servers
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,
    /// PEM file of the client certificate for etcd
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,
    /// PEM file of the key of the client certificate
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// Prefix of all keys in etcd; it differs from upstream's /registry, so both can share an etcd
    #[arg(long, default_value = "/portolan", value_name = "PREFIX")]
    pub etcd_prefix: String,
}

impl EtcdFlags {
    /// Returns the address of an etcd cluster, with these credentials.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the prefix does not begin with a slash.
    pub(crate) fn address(&self, servers: Vec<String>) -> Result<EtcdAddress, UsageError> {
        if !self.etcd_prefix.starts_with('/') {
            return Err(UsageError(format!(
                "--etcd-prefix {:?}: expected a slash at the start",
                self.etcd_prefix
            )));
        }
        Ok(EtcdAddress {
            servers,
            ca_file: self.etcd_cafile.clone(),
            identity_files: self.etcd_certfile.clone().zip(self.etcd_keyfile.clone()),
            prefix: self.etcd_prefix.clone(),
        })
    }
}

/// Flags of the storage engine of an API server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Storage")]
pub(crate) struct EngineFlags {
    /// Store data in etcd, which other API servers can share [default: SQLite in the data directory]
    #[arg(long, value_delimiter = ',', value_name = "URL[,URL]")]
    etcd_servers: Vec<String>,
    /// Credentials and key prefix of etcd.
    #[command(flatten)]
    pub etcd: EtcdFlags,
    /// Age at which revisions in etcd are compacted; 0 disables compaction
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration)]
    etcd_compaction_interval: Duration,
    /// Flags of encryption at rest.
    #[command(flatten)]
    pub encryption: EncryptionFlags,
}

impl EngineFlags {
    /// Returns true if other servers can share the data.
    pub(crate) fn is_shared(&self) -> bool {
        !self.etcd_servers.is_empty()
    }

    /// Opens the store: etcd if its servers are given, otherwise SQLite below the data directory.
    ///
    /// # Errors
    ///
    /// An error if the store cannot be opened.
    pub(crate) async fn open(
        &self,
        data_directory: &Path,
        at_rest: Option<&EncryptionAtRest>,
    ) -> Result<Arc<dyn Store>, CommandError> {
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
            .filter(|server| is_remote_plain_http(server))
        {
            tracing::warn!(
                %server,
                "connection to etcd without TLS: every host on the network path can read and change all data, Secrets \
                 included; use https with --etcd-cafile, --etcd-certfile and --etcd-keyfile"
            );
        }
        let settings = EtcdSettings {
            address: self.etcd.address(self.etcd_servers.clone())?,
            history: HistoryLimits::default(),
            compaction_interval: self.etcd_compaction_interval,
            transformation,
        };
        Ok(Arc::new(EtcdStore::open(settings).await?))
    }
}

/// Returns true if a URL names another host and has the scheme `http`.
fn is_remote_plain_http(url: &str) -> bool {
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
