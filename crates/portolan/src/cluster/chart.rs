//! The map of the cluster, as a component of `portolan up`. Without readers it is a listening socket and nothing else.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use chart::feed::{Feed, KINDS_OF_COMPONENT};
use chart::server::access::Access;
use chart::server::{ADDRESS, Server, ServerError};
use clap::Args;
use client::{Client, Config};
use tokio::net::TcpListener;

use super::supervisor::Supervisor;
use crate::flags::values::{OptionalAddress, optional_address};

/// File of the data directory with the URL of the map. A user who enters a token trusts this file, because only root
/// writes it. On a host with other users, another program can listen on the default port.
const URL_FILE: &str = "chart-url";

/// Flags of the map.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Chart")]
pub(crate) struct ChartFlags {
    /// Listen address of the chart, a web page for users with a token of the API; only loopback addresses; port 0 for a
    /// free one; empty disables it. The file chart-url in the data directory has the URL
    #[arg(long, default_value = ADDRESS, value_name = "ADDRESS:PORT", value_parser = optional_address)]
    chart_bind_address: OptionalAddress,
}

impl ChartFlags {
    /// Returns the settings.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the address is not of the loopback interface.
    pub(crate) fn settings(
        &self,
        cluster: &str,
        cluster_domain: &str,
        data_directory: &Path,
    ) -> Result<ChartSettings, ServerError> {
        let address = self.chart_bind_address.0;
        if let Some(address) = address.filter(|address| !address.ip().is_loopback()) {
            return Err(ServerError::NotLoopback(address));
        }
        Ok(ChartSettings {
            address,
            url_file: data_directory.join(URL_FILE),
            cluster: cluster.to_owned(),
            cluster_domain: cluster_domain.to_owned(),
        })
    }
}

/// Settings of the map.
#[derive(Clone, Debug)]
pub(crate) struct ChartSettings {
    /// Listen address; absent if the map is disabled.
    address: Option<SocketAddr>,
    /// File with the URL.
    url_file: PathBuf,
    /// Name of the cluster.
    cluster: String,
    /// Domain of the cluster.
    cluster_domain: String,
}

/// The map is not available.
#[derive(Debug, thiserror::Error)]
enum StartError {
    /// The address cannot be used.
    #[error("{0}; free the address or set another one by --chart-bind-address")]
    Listen(#[from] ServerError),
    /// The file with the URL cannot be replaced.
    #[error("cannot replace {}: {source}", file.display())]
    UrlFile {
        /// File.
        file: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
}

/// File with the URL of a map that listens; it is removed with the value.
#[derive(Debug)]
struct UrlFile(PathBuf);

impl UrlFile {
    /// Removes the file of an earlier process, which may name a port that another program has now.
    fn remove_former(file: &Path) -> Result<(), StartError> {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StartError::UrlFile {
                file: file.to_owned(),
                source: error,
            }),
            _ => Ok(()),
        }
    }

    /// Listens on an address and writes its URL.
    fn listen(address: SocketAddr, file: &Path) -> Result<(Self, (TcpListener, SocketAddr)), StartError> {
        let failed = |source| StartError::UrlFile {
            file: file.to_owned(),
            source,
        };
        let listening = Server::listen(address)?;
        let url = format!("http://{}/\n", listening.1);
        trust::private_file::write_unsynced(file, url.as_bytes()).map_err(failed)?;
        Ok((Self(file.to_owned()), listening))
    }
}

impl Drop for UrlFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(%error, file = %self.0.display(), "file with the URL of the chart not removed");
        }
    }
}

/// Starts the map. `api` is the address of the API server, which decides about the tokens of users.
///
/// The cluster does not need the map, so a used address is logged and nothing else.
pub(crate) fn start(supervisor: &mut Supervisor, client: Client, api: &Config, settings: ChartSettings) {
    if let Err(error) = UrlFile::remove_former(&settings.url_file) {
        tracing::error!(%error, "chart not started");
        return;
    }
    let Some(address) = settings.address else {
        return;
    };
    let feed = Feed::new(client, &settings.cluster, &KINDS_OF_COMPONENT);
    let access = Access::by_token(api);
    supervisor.spawn_unsupervised(async move {
        match UrlFile::listen(address, &settings.url_file) {
            Ok((_url_file, listening)) => {
                Server::new(listening, feed, access, &settings.cluster_domain)
                    .run()
                    .await
            }
            Err(error) => tracing::error!(%error, "chart not started"),
        }
    });
}

#[cfg(test)]
mod tests;
