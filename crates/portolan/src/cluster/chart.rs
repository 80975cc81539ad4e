//! The map of the cluster, as a component of `portolan up`. Without readers it is a listening socket and nothing else.

use std::net::SocketAddr;

use chart::feed::{Feed, KINDS_OF_COMPONENT};
use chart::server::access::Access;
use chart::server::{ADDRESS, Server, ServerError};
use clap::Args;
use client::{Client, Config};

use super::supervisor::Supervisor;
use crate::flags::values::{OptionalAddress, optional_address};

/// Flags of the map.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Chart")]
pub struct ChartFlags {
    /// Listen address of the chart, a web page for users with a token of the API; only loopback addresses; empty disables it
    #[arg(long, default_value = ADDRESS, value_name = "ADDRESS:PORT", value_parser = optional_address)]
    chart_bind_address: OptionalAddress,
}

impl ChartFlags {
    /// Returns the settings.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the address is not of the loopback interface.
    pub fn settings(&self, cluster: &str, cluster_domain: &str) -> Result<ChartSettings, ServerError> {
        let address = self.chart_bind_address.0;
        if let Some(address) = address.filter(|address| !address.ip().is_loopback()) {
            return Err(ServerError::NotLoopback(address));
        }
        Ok(ChartSettings {
            address,
            cluster: cluster.to_owned(),
            cluster_domain: cluster_domain.to_owned(),
        })
    }
}

/// Settings of the map.
#[derive(Clone, Debug)]
pub struct ChartSettings {
    /// Listen address; absent if the map is disabled.
    address: Option<SocketAddr>,
    /// Name of the cluster.
    cluster: String,
    /// Domain of the cluster.
    cluster_domain: String,
}

/// Starts the map. `api` is the address of the API server, which decides about the tokens of users.
///
/// The cluster does not need the map, so a used address is logged and nothing else.
pub fn start(supervisor: &mut Supervisor, client: Client, api: &Config, settings: ChartSettings) {
    let Some(address) = settings.address else {
        return;
    };
    let feed = Feed::new(client, &settings.cluster, &KINDS_OF_COMPONENT);
    let access = Access::by_token(api);
    supervisor.spawn_unsupervised(async move {
        match Server::listen(address) {
            Ok(listening) => {
                Server::new(listening, feed, access, &settings.cluster_domain)
                    .run()
                    .await
            }
            Err(error) => tracing::error!(%error, "chart not started"),
        }
    });
}
