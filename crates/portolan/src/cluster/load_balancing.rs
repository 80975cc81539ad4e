//! Load balancing on the nodes of `portolan up` and `portolan join`: announcer and edge.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use announcer::{LinkSelection, Metrics};
use api::address_pool::LinkPattern;
use balancer::serving::{self, Addresses};
use clap::{ArgAction, Args};
use client::Client;
use tokio::sync::watch;

use super::supervisor::Supervisor;
use crate::balancer_endpoints::{self, Endpoints};
use crate::flags::edge::{AccessLogFlags, ShareFlags};
use crate::flags::values::{OptionalAddress, optional_address};
use crate::shutdown;

/// Time for open connections of the edge to finish at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Flags of load balancing on a node.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load balancing")]
pub(crate) struct LoadBalancingFlags {
    /// Announce addresses of Services of type LoadBalancer, and run the edge
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "BOOL")]
    load_balancer: bool,
    /// Interfaces for announcements, such as eth0 or en* [default: all but those of Pods]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    load_balancer_interfaces: Vec<LinkPattern>,
    /// UDP port of the probes between announcers, the same on all nodes
    #[arg(long, default_value_t = 7947, value_name = "PORT")]
    load_balancer_probe_port: u16,
    /// Announce addresses by BGP, to the routers of BGPPeers
    #[arg(long)]
    load_balancer_bgp: bool,
    /// TCP port for connections of routers; 0 to accept none
    #[arg(
        long,
        requires = "load_balancer_bgp",
        default_value_t = 179,
        value_name = "PORT"
    )]
    load_balancer_bgp_port: u16,
    /// Address of /metrics, /healthz and /status of load balancing; empty disables the server
    #[arg(long, default_value = balancer_endpoints::ADDRESS, value_name = "ADDRESS:PORT", value_parser = optional_address)]
    load_balancer_metrics_bind_address: OptionalAddress,
    #[command(flatten)]
    shares: ShareFlags,
    #[command(flatten)]
    log: AccessLogFlags,
}

/// Settings of announcer and edge.
#[derive(Clone)]
pub(crate) struct LoadBalancing {
    /// True if this node announces addresses and runs the edge.
    is_enabled: bool,
    metrics_address: Option<SocketAddr>,
    node_name: String,
    node_ip: IpAddr,
    links: LinkSelection,
    probe_port: u16,
    /// Port of the BGP speaker, if this node runs one.
    bgp_port: Option<u16>,
    shares: ShareFlags,
    log: AccessLogFlags,
}

impl LoadBalancingFlags {
    /// Returns the settings of announcer and edge. Access logs are below the data directory by default.
    pub(crate) fn settings(&self, data_directory: &Path, node_name: &str, node_ip: IpAddr) -> LoadBalancing {
        let mut log = self.log.clone();
        log.edge_access_log_directory
            .get_or_insert_with(|| data_directory.join("access-logs"));
        LoadBalancing {
            is_enabled: self.load_balancer,
            metrics_address: self.load_balancer_metrics_bind_address.0,
            node_name: node_name.to_owned(),
            node_ip,
            links: LinkSelection {
                names: self.load_balancer_interfaces.clone(),
            },
            probe_port: self.load_balancer_probe_port,
            bgp_port: self.load_balancer_bgp.then_some(self.load_balancer_bgp_port),
            shares: self.shares,
            log,
        }
    }
}

/// API clients of load balancing.
pub(crate) struct LoadBalancingClients {
    /// Client of the announcer.
    pub announcer: Client,
    /// Client of the configuration of the edge.
    pub edge: Client,
}

impl LoadBalancing {
    /// Starts announcer and edge, and serves their metrics and those of an assigner of this process.
    pub(crate) fn start(
        self,
        supervisor: &mut Supervisor,
        clients: LoadBalancingClients,
        assigner: Option<Arc<balancer::Metrics>>,
    ) {
        let mut endpoints = Endpoints {
            node_name: self.node_name.clone(),
            assigner,
            ..Endpoints::default()
        };
        let address = self.metrics_address;
        if self.is_enabled {
            let announcer = Arc::<Metrics>::default();
            let (served, served_addresses) = watch::channel(Arc::<Addresses>::default());
            let settings = self.announcer_settings(served_addresses);
            if let Some(port) = self.bgp_port {
                let metrics = Arc::<speaker::Metrics>::default();
                let settings = self.speaker_settings(port, served.subscribe());
                start_speaker(supervisor, clients.announcer.clone(), settings, &metrics);
                endpoints.speaker = Some(metrics);
            }
            start_announcer(supervisor, clients.announcer, settings, &announcer);
            let settings = self.edge_settings(&announcer, served);
            endpoints.edge = Some(Arc::clone(&settings.metrics));
            endpoints.announcer = Some(announcer);
            start_edge(supervisor, clients.edge, settings);
        }
        let has_metrics = endpoints.assigner.is_some() || endpoints.announcer.is_some();
        if let Some(address) = address.filter(|_| has_metrics) {
            supervisor.spawn_unsupervised(endpoints.serve(address));
        }
    }

    fn speaker_settings(&self, port: u16, served: watch::Receiver<Arc<Addresses>>) -> speaker::Settings {
        speaker::Settings {
            node_name: self.node_name.clone(),
            port,
            metallb_namespace: None,
            ignores_exclude_label: false,
            served: Some(served),
        }
    }

    fn announcer_settings(&self, served: watch::Receiver<Arc<Addresses>>) -> announcer::Settings {
        announcer::Settings {
            node_name: self.node_name.clone(),
            node_ip: Some(self.node_ip),
            port: self.probe_port,
            waits_for_port: false,
            links: self.links.clone(),
            metallb_namespace: None,
            ignores_exclude_label: false,
            served: Some(served),
        }
    }

    fn edge_settings(&self, announcer: &Metrics, served: watch::Sender<Arc<Addresses>>) -> serving::Settings {
        let log_destinations = self.log.destinations();
        serving::Settings {
            node_name: self.node_name.clone(),
            owned: Some(announcer.subscribe_owned()),
            served,
            buckets: self.log.buckets(&log_destinations),
            connections_max: self.shares.edge_connections_max,
            shares: self.shares.shares(),
            log_destinations,
            sticky_secrets: None,
            threads: 0,
            handover_socket: None,
            drain_timeout: DRAIN_TIMEOUT,
            metrics: Arc::default(),
        }
    }
}

fn start_announcer(
    supervisor: &mut Supervisor,
    client: Client,
    settings: announcer::Settings,
    metrics: &Arc<Metrics>,
) {
    let (metrics, shutdown) = (Arc::clone(metrics), supervisor.shutdown());
    supervisor.spawn("announcer", move || {
        let (client, settings, metrics) = (client.clone(), settings.clone(), Arc::clone(&metrics));
        let shutdown = shutdown::wait_for_request(shutdown.clone());
        async move { Ok(announcer::run(client, settings, metrics, shutdown).await?) }
    });
}

fn start_speaker(
    supervisor: &mut Supervisor,
    client: Client,
    settings: speaker::Settings,
    metrics: &Arc<speaker::Metrics>,
) {
    let (metrics, shutdown) = (Arc::clone(metrics), supervisor.shutdown());
    supervisor.spawn("speaker", move || {
        let (client, settings, metrics) = (client.clone(), settings.clone(), Arc::clone(&metrics));
        let shutdown = shutdown::wait_for_request(shutdown.clone());
        async move { Ok(speaker::run(client, settings, metrics, shutdown).await?) }
    });
}

fn start_edge(supervisor: &mut Supervisor, client: Client, settings: serving::Settings) {
    let shutdown = supervisor.shutdown();
    supervisor.spawn("edge", move || {
        let (client, settings) = (client.clone(), settings.clone());
        let shutdown = shutdown::wait_for_request(shutdown.clone());
        async move { Ok(serving::run(client, settings, shutdown).await?) }
    });
}
