//! Load balancing on the machines of a cluster that `portolan up` and `portolan join` make: announcing addresses, and the
//! edge; and the pool of addresses that the first machine may be told.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use announcer::{LinkSelection, Metrics};
use api::address_pool::{AddressBlock, LinkPattern};
use api::object::{AddressPool, Resource};
use balancer::serving::{self, Addresses};
use clap::{ArgAction, Args};
use client::{Client, ClientError, JSON, MERGE_PATCH};
use http::Method;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Failure;
use super::balancer::edge::{AccessLogFlags, ShareFlags};
use super::balancer::pages::{self, Pages};
use super::machine::until;
use super::up::board::Board;
use super::up::supervise::supervise;
use crate::flags::{OptionalAddress, optional_address};

/// The pool that `--load-balancer-addresses` makes.
const POOL: &str = "default";
/// How long connections of the edge may take to finish when the machine's parts end.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);

/// Flags of a machine that takes traffic for load balancers' addresses.
#[derive(Clone, Debug, Args)]
pub struct LoadBalancerFlags {
    /// Whether this machine announces addresses of Services of type LoadBalancer, and runs the edge for those that ask for
    /// more than packets
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "true|false")]
    load_balancer: bool,
    /// Links that these addresses are announced on, such as eth0 or en*; if not given, all with an address of the network,
    /// without those that lead to Pods. AddressPools may name others for their addresses
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    load_balancer_interfaces: Vec<LinkPattern>,
    /// UDP port on this machine's address at which other machines' announcers probe it, the same on all of them
    #[arg(long, default_value_t = 7947, value_name = "PORT")]
    load_balancer_probe_port: u16,
    /// Where /metrics, /healthz and /status of load balancing are served; empty for nowhere
    #[arg(long, default_value = pages::ADDRESS, value_name = "ADDRESS:PORT", value_parser = optional_address)]
    load_balancer_metrics_bind_address: OptionalAddress,
    #[command(flatten)]
    shares: ShareFlags,
    #[command(flatten)]
    log: AccessLogFlags,
}

/// The settings of a machine's parts.
#[derive(Clone)]
pub struct LoadBalancer {
    /// Whether this machine announces addresses, and runs the edge.
    is_enabled: bool,
    metrics_address: Option<SocketAddr>,
    node_name: String,
    node_ip: IpAddr,
    links: LinkSelection,
    probe_port: u16,
    shares: ShareFlags,
    log: AccessLogFlags,
}

impl LoadBalancerFlags {
    /// What the parts are told; access logs go below `data_dir` if nothing else is said.
    pub fn settings(&self, data_dir: &Path, node_name: &str, node_ip: IpAddr) -> LoadBalancer {
        let mut log = self.log.clone();
        log.edge_access_log_directory
            .get_or_insert_with(|| data_dir.join("access-logs"));
        LoadBalancer {
            is_enabled: self.load_balancer,
            metrics_address: self.load_balancer_metrics_bind_address.0,
            node_name: node_name.to_owned(),
            node_ip,
            links: LinkSelection {
                names: self.load_balancer_interfaces.clone(),
            },
            probe_port: self.load_balancer_probe_port,
            shares: self.shares,
            log,
        }
    }
}

impl LoadBalancer {
    /// Starts announcer and edge, each under its supervisor, and serves what they tell, together with what assigns addresses
    /// if that is in this process.
    pub fn start(
        self,
        parts: &mut JoinSet<()>,
        board: &Arc<Board>,
        clients: (Client, Client),
        assigner: Option<Arc<balancer::Metrics>>,
        ended: &watch::Receiver<bool>,
    ) {
        let mut pages = Pages {
            node_name: self.node_name.clone(),
            assigner,
            ..Pages::default()
        };
        let address = self.metrics_address;
        if self.is_enabled {
            let (announcer, edge) = self.start_parts(parts, board, clients, ended);
            pages.announcer = Some(announcer);
            pages.edge = Some(edge);
        }
        let tells = pages.assigner.is_some() || pages.announcer.is_some();
        if let Some(address) = address.filter(|_| tells) {
            let end = until(ended.clone());
            parts.spawn(async move {
                tokio::select! {
                    () = pages.serve(address) => {}
                    () = end => {}
                }
            });
        }
    }

    /// Starts announcer and edge; what they count.
    fn start_parts(
        self,
        parts: &mut JoinSet<()>,
        board: &Arc<Board>,
        (announcer, edge): (Client, Client),
        ended: &watch::Receiver<bool>,
    ) -> (Arc<Metrics>, Arc<serving::Metrics>) {
        let metrics = Arc::<Metrics>::default();
        let (served, follow_served) = watch::channel(Arc::<Addresses>::default());
        let (settings, counted, until_end) = (
            self.announcing(follow_served),
            Arc::clone(&metrics),
            ended.clone(),
        );
        let announcing = move || {
            let (client, settings, counted) = (announcer.clone(), settings.clone(), Arc::clone(&counted));
            let end = until(until_end.clone());
            async move { Ok::<(), Failure>(announcer::run(client, settings, counted, end).await?) }
        };
        parts.spawn(supervise(
            Arc::clone(board),
            "announcer",
            ended.clone(),
            announcing,
        ));
        let (settings, until_end) = (self.serving(&metrics, served), ended.clone());
        let counted_by_edge = Arc::clone(&settings.metrics);
        let serving = move || {
            let (client, settings, end) = (edge.clone(), settings.clone(), until(until_end.clone()));
            async move { Ok::<(), Failure>(serving::run(client, settings, end).await?) }
        };
        parts.spawn(supervise(Arc::clone(board), "edge", ended.clone(), serving));
        (metrics, counted_by_edge)
    }

    fn announcing(&self, served: watch::Receiver<Arc<Addresses>>) -> announcer::Settings {
        announcer::Settings {
            node_name: self.node_name.clone(),
            node_ip: Some(self.node_ip),
            port: self.probe_port,
            links: self.links.clone(),
            served: Some(served),
        }
    }

    fn serving(&self, announcer: &Metrics, served: watch::Sender<Arc<Addresses>>) -> serving::Settings {
        let log_destinations = self.log.places();
        serving::Settings {
            node_name: self.node_name.clone(),
            owned: Some(announcer.subscribe_held()),
            served,
            buckets: self.log.buckets(&log_destinations),
            connections_max: self.shares.edge_connections_max,
            shares: self.shares.shares(),
            log_destinations,
            sticky_secrets: None,
            threads: 0,
            handover_socket: None,
            drain_timeout: DRAIN_PATIENCE,
            metrics: Arc::default(),
        }
    }
}

/// Parses one of the addresses of a pool.
pub fn address_block(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.parse::<AddressBlock>() {
        Ok(_) => Ok(text.to_owned()),
        Err(fault) => Err(format!(
            "{text:?} {fault}; examples are 192.0.2.0/28 and 192.0.2.200-192.0.2.220"
        )),
    }
}

/// Makes the AddressPool `default` of these addresses, or gives it these.
pub async fn publish_pool(client: &Client, addresses: &[String]) -> Result<(), ClientError> {
    let collection = AddressPool::collection(None);
    let spec = json!({"spec": {"addresses": addresses}});
    let path = format!("{collection}/{POOL}");
    match client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&spec))
        .await
    {
        Err(error) if error.is_not_found() => {}
        patched => return patched.map(drop),
    }
    let mut pool = json!({
        "apiVersion": "portolan.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": POOL},
    });
    pool["spec"] = spec["spec"].clone();
    client
        .request(Method::POST, &collection, JSON, Some(&pool))
        .await
        .map(drop)
}
