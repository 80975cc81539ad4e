//! Flags of the BGP speaker that `portolan balancer --bgp` runs.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use clap::Args;
use tokio::sync::watch;

/// Flags of the BGP speaker.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "BGP")]
pub(super) struct BgpFlags {
    /// Announce addresses by BGP, to the routers of BGPPeers
    #[arg(long)]
    pub bgp: bool,
    /// TCP port for connections of routers; 0 to accept none
    #[arg(long, requires = "bgp", default_value_t = 179, value_name = "PORT")]
    bgp_port: u16,
}

impl BgpFlags {
    /// Returns the settings of the speaker. `served` are the addresses of the edge of this process.
    pub(super) fn settings(
        &self,
        node_name: String,
        metallb_namespace: Option<String>,
        ignores_exclude_label: bool,
        served: Option<watch::Receiver<Arc<BTreeSet<IpAddr>>>>,
    ) -> speaker::Settings {
        speaker::Settings {
            node_name,
            port: self.bgp_port,
            metallb_namespace,
            ignores_exclude_label,
            served,
        }
    }
}
