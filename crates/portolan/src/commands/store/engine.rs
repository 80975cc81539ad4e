//! Which engine the data are kept by, and opening it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use store::{EtcdAddress, EtcdOptions, EtcdStore, HistoryLimits, SqliteOptions, SqliteStore, Store};

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
    #[command(flatten)]
    etcd: EtcdFlags,
    /// How long etcd keeps history; 0 leaves that to others
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration)]
    etcd_compaction_interval: Duration,
}

impl EngineFlags {
    /// Whether other servers may share the data.
    pub fn is_shared(&self) -> bool {
        !self.etcd_servers.is_empty()
    }

    /// Opens the store: on etcd if it is named, else the embedded one below the data directory.
    pub async fn open(&self, data_directory: &Path) -> Result<Arc<dyn Store>, Failure> {
        if self.etcd_servers.is_empty() {
            let directory = data_directory.join(STORE_DIRECTORY);
            return Ok(Arc::new(SqliteStore::open(directory, SqliteOptions::default())?));
        }
        let options = EtcdOptions {
            address: self.etcd.address(self.etcd_servers.clone())?,
            history: HistoryLimits::default(),
            compaction_interval: self.etcd_compaction_interval,
        };
        Ok(Arc::new(EtcdStore::open(options).await?))
    }
}
