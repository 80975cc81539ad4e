//! Assembly of the node proxy: sources, worker, servers and shutdown.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use dataplane::iptables::INVALID_DROPPED_COUNTER;
use dataplane::two_tier::ForwardedPackets;
use dataplane::{Dataplane, DataplaneError};
use http::StatusCode;
use jiff::Timestamp;
use netlink::accounting::AccountingConnection;
use netlink::conntrack::{Conntrack, ConntrackError};
use telemetry::{Handler, Response, listen, serve};
use tokio::sync::mpsc::WeakSender;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::connections::lost_nodes;
use crate::health::{Moment, serve_service_checks};
use crate::instance::{AnotherProxy, InstanceGuard};
use crate::localhost::relay_localhost;
use crate::node;
use crate::plan_reader::PlanReader;
use crate::reports::events::Events;
use crate::reports::metrics::Packets;
use crate::sources;
use crate::worker::{QUEUE_UPDATES_MAX, SharedStatus, TrafficQuery, Update, Worker};

/// Time limit of a query for the busiest Services.
const TRAFFIC_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of Services in a response.
const TRAFFIC_SERVICES_MAX: usize = 10_000;
/// Pause between attempts to bind the address of a health or metrics server.
const BIND_RETRY_PERIOD: Duration = Duration::from_secs(1);

/// Reasons why the proxy exits.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// No node name is set, so local endpoints cannot be recognized. A retry does not help.
    #[error("expected a name of the Node, found none; set --hostname-override")]
    NoNodeName,
    /// The addresses of this node could not be read, which needs no privilege. A retry does not help.
    #[error("cannot read the addresses of this node: {0}")]
    Addresses(#[from] netlink::route::RouteError),
    /// Connection tracking is not reachable: CAP_NET_ADMIN is missing. A retry does not help.
    #[error("cannot reach connection tracking: {0}")]
    Conntrack(#[source] ConntrackError),
    /// The address of a health or metrics server could not be bound, and the configuration requires it (KPF-13).
    #[error("cannot listen on {address} for {purpose}: {source}")]
    Bind {
        /// Name of the server.
        purpose: &'static str,
        /// Address of the server.
        address: SocketAddr,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// Another proxy writes the rules of this network namespace.
    #[error(transparent)]
    AnotherProxy(#[from] AnotherProxy),
    /// The worker thread could not start.
    #[error("cannot start the worker thread: {0}")]
    Thread(#[source] std::io::Error),
    /// The data plane cannot write rules. A retry does not help.
    #[error(transparent)]
    Dataplane(#[from] DataplaneError),
    /// The worker thread exited unexpectedly, which is a defect. The rules stay in the kernel; a new process takes
    /// them over.
    #[error("the worker thread exited unexpectedly; the log has the reason")]
    WorkerEnded,
}

/// Maintains the rules of this node until `shutdown` is ready. The rules stay in the kernel afterwards.
///
/// # Errors
///
/// A [`ProxyError`] if the proxy cannot start, or cannot write rules.
pub async fn run<D: Dataplane + Send + 'static>(
    config: Config,
    client: Client,
    dataplane: D,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ProxyError> {
    run_readable(config, client, dataplane, &PlanReader::default(), shutdown).await
}

/// Runs as [`run`] does. `plan_reader` reads the plan of this proxy meanwhile.
///
/// # Errors
///
/// A [`ProxyError`] if the proxy cannot start, or cannot write rules.
pub async fn run_readable<D: Dataplane + Send + 'static>(
    config: Config,
    client: Client,
    dataplane: D,
    plan_reader: &PlanReader,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ProxyError> {
    let (_never, configs) = watch::channel(config);
    start(configs, client, dataplane, plan_reader, shutdown).await
}

/// Runs as [`run`] does, and applies changes of the configuration. Changed settings that are read at the start only
/// are logged.
///
/// # Errors
///
/// A [`ProxyError`] if the proxy cannot start, or cannot write rules.
pub async fn run_reloading<D: Dataplane + Send + 'static>(
    configs: watch::Receiver<Config>,
    client: Client,
    dataplane: D,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ProxyError> {
    start(configs, client, dataplane, &PlanReader::default(), shutdown).await
}

/// Starts the proxy, and runs it until `shutdown` resolves.
async fn start<D: Dataplane + Send + 'static>(
    mut configs: watch::Receiver<Config>,
    client: Client,
    dataplane: D,
    plan_reader: &PlanReader,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ProxyError> {
    let config = configs.borrow_and_update().clone();
    if config.node_name.is_empty() {
        return Err(ProxyError::NoNodeName);
    }
    let _guard = InstanceGuard::acquire().await?;
    let own_addresses = node::own_addresses()?;
    let conntrack = Conntrack::open().map_err(ProxyError::Conntrack)?;
    let shared_status = Arc::new(SharedStatus::default());
    let (events, write_events) = Events::new(client.clone(), &config.node_name);
    let mut servers = JoinSet::new();
    servers.spawn(write_events);
    let (sender, receiver) = mpsc::channel(QUEUE_UPDATES_MAX);
    plan_reader.connect(sender.downgrade());
    start_servers(
        &config,
        &shared_status,
        &events,
        &client,
        &sender.downgrade(),
        &mut servers,
    )?;
    let mut sources = sources::start(&client, &config.node_name, own_addresses.clone(), &sender);
    let (node_watch, is_needed) = watch::channel(false);
    sources.spawn(sources::watch_cluster_nodes(
        client.clone(),
        is_needed,
        sender.clone(),
    ));
    servers.spawn(sources::forward_configs(configs, sender.clone()));
    let (departed_sender, departed) = mpsc::channel(lost_nodes::QUEUE_BATCHES_MAX);
    let check_delay = lost_nodes::check_delay(&config.node_name);
    let check = lost_nodes::check_departed(client.clone(), check_delay, departed, sender.downgrade());
    servers.spawn(check);
    let change_sender = sender.downgrade();
    drop(sender);
    events.record_node_event("Starting", "Starting portolan proxy.".to_owned());
    let worker = Worker::new(
        config,
        dataplane,
        Some(conntrack),
        own_addresses,
        shared_status,
        events,
    )
    .check_departed(departed_sender)
    .watch_nodes_by(node_watch);
    let end = start_worker(worker, receiver, change_sender)?;
    run_until(shutdown, sources, servers, end).await
}

/// Runs until `shutdown` resolves, then ends the tasks and the worker. Fails if the worker ends earlier.
async fn run_until(
    shutdown: impl Future<Output = ()>,
    sources: JoinSet<()>,
    mut servers: JoinSet<()>,
    mut end: oneshot::Receiver<Result<(), DataplaneError>>,
) -> Result<(), ProxyError> {
    tokio::select! {
        () = shutdown => {}
        result = &mut end => {
            result.map_err(|_| ProxyError::WorkerEnded)??;
            return Err(ProxyError::WorkerEnded);
        }
    }
    // The queue closes with its last source; queued updates are still applied.
    drop(sources);
    servers.shutdown().await;
    end.await.map_err(|_| ProxyError::WorkerEnded)??;
    tracing::info!("exited; the rules stay in the kernel");
    Ok(())
}

/// Starts the thread of the worker. The returned channel receives the result of the worker.
fn start_worker<D: Dataplane + Send + 'static>(
    worker: Worker<D>,
    updates: mpsc::Receiver<Update>,
    change_sender: WeakSender<Update>,
) -> Result<oneshot::Receiver<Result<(), DataplaneError>>, ProxyError> {
    let runtime = tokio::runtime::Handle::current();
    let (ended, end) = oneshot::channel();
    std::thread::Builder::new()
        .name("proxy-plan".to_owned())
        .spawn(move || {
            // The receiver does not exist any more if `run` was dropped.
            ended.send(worker.run(updates, change_sender, &runtime)).ok();
        })
        .map_err(ProxyError::Thread)?;
    Ok(end)
}

/// Starts the configured servers of health and metrics, the servers of health check node ports, and the relay of node
/// ports on 127.0.0.1.
fn start_servers(
    config: &Config,
    shared_status: &Arc<SharedStatus>,
    events: &Events,
    client: &Client,
    worker: &WeakSender<Update>,
    servers: &mut JoinSet<()>,
) -> Result<(), ProxyError> {
    let is_strict = config.bind_address_hard_fail;
    if let Some(address) = config.healthz_bind_address {
        let shared_status = shared_status.clone();
        let handler: Handler = Arc::new(move |uri| health_answer(&shared_status, uri.path()));
        let server = Server {
            purpose: "health",
            failure: "FailedToStartProxierHealthcheck",
            address,
            handler,
        };
        server.start(is_strict, events, worker, servers)?;
    }
    if let Some(address) = config.metrics_bind_address {
        let (shared_status, config, released) = (shared_status.clone(), config.clone(), worker.clone());
        let (client, worker) = (client.clone(), worker.clone());
        let started = Timestamp::now();
        let handler: Handler = Arc::new(move |uri| match uri.path() {
            "/status" => {
                let mut status = shared_status.status(&config);
                let unreachable_for = client.unreachable_for().unwrap_or_default();
                status["secondsWithoutAPI"] = unreachable_for.as_secs().into();
                if let Some(busiest) = traffic(&worker, uri.query().unwrap_or_default()) {
                    status["services"] = busiest;
                }
                Response::json(StatusCode::OK, &status)
            }
            "/statusz" => page(config.pages.statusz(started, Timestamp::now())),
            "/flagz" => page(config.pages.flagz()),
            path => metrics_answer(&shared_status, &config, &client, path),
        });
        let server = Server {
            purpose: "metrics",
            failure: "FailedToStartMetricServer",
            address,
            handler,
        };
        server.start(is_strict, events, &released, servers)?;
    }
    servers.spawn(relay_localhost(shared_status.localhost.clone()));
    servers.spawn(serve_service_checks(
        shared_status.checks.clone(),
        shared_status.health.clone(),
        events.clone(),
    ));
    Ok(())
}

/// A server to start.
struct Server {
    purpose: &'static str,
    /// Reason of the Event if the address cannot be bound (KPR-08).
    failure: &'static str,
    address: SocketAddr,
    handler: Handler,
}

impl Server {
    /// Starts the server. If its address cannot be bound, this function fails with `is_strict`, and tries again
    /// otherwise. It informs the worker when the address becomes free.
    fn start(
        self,
        is_strict: bool,
        events: &Events,
        worker: &WeakSender<Update>,
        servers: &mut JoinSet<()>,
    ) -> Result<(), ProxyError> {
        let Self {
            purpose,
            failure,
            address,
            handler,
        } = self;
        match listen(address) {
            Ok(listener) => {
                tracing::info!(%address, purpose, "listening");
                servers.spawn(serve(listener, handler));
            }
            Err(source) if is_strict => {
                return Err(ProxyError::Bind {
                    purpose,
                    address,
                    source,
                });
            }
            Err(error) => {
                tracing::warn!(%address, purpose, %error, "listen failed; retrying");
                events.record_node_warning(failure, format!("cannot listen on {address}: {error}"));
                let worker = worker.clone();
                servers.spawn(async move {
                    loop {
                        tokio::time::sleep(BIND_RETRY_PERIOD).await;
                        if let Ok(listener) = listen(address) {
                            tracing::info!(%address, purpose, "listening");
                            if let Some(worker) = worker.upgrade() {
                                // The queue is closed at shutdown only.
                                worker.send(Update::AddressReleased).await.ok();
                            }
                            return serve(listener, handler).await;
                        }
                    }
                });
            }
        }
        Ok(())
    }
}

/// Responds on port 10256 (HLT-01, HLT-02).
fn health_answer(shared_status: &SharedStatus, path: &str) -> Response {
    let now = Moment::now();
    let answer = match path {
        "/healthz" => shared_status.health.healthz(now),
        "/livez" => shared_status.health.livez(now),
        _ => return Response::not_found(),
    };
    let code = usize::from(answer.status != StatusCode::OK);
    shared_status.metrics.update(|values| {
        let counts = match path {
            "/healthz" => &mut values.proxy_healthz_total,
            _ => &mut values.proxy_livez_total,
        };
        counts[code] += 1;
    });
    answer
}

/// Responds on port 10249 (HLT-04).
fn metrics_answer(shared_status: &SharedStatus, config: &Config, client: &Client, path: &str) -> Response {
    match path {
        "/metrics" => {
            let mut text = shared_status.metrics.render(packets(shared_status, config));
            client.write_metrics(&mut text, "");
            telemetry::write_process(&mut text);
            Response::metrics(text.finish())
        }
        "/metrics/slis" => {
            let now = Moment::now();
            let is_live = shared_status.health.is_healthy(now);
            let is_ready = shared_status.health.healthz(now).status == StatusCode::OK;
            Response::metrics(shared_status.metrics.render_health([is_ready, is_live]))
        }
        "/proxyMode" => Response::text(StatusCode::OK, &config.proxy_mode),
        "/configz" => Response::json(
            StatusCode::OK,
            &serde_json::json!({"kubeproxy.config.k8s.io": config.configuration}),
        ),
        "/healthz" => Response::text(StatusCode::OK, "ok"),
        _ => Response::not_found(),
    }
}

/// Reads counters that other parts maintain.
fn packets(shared_status: &SharedStatus, config: &Config) -> Packets {
    let invalid_dropped = (config.proxy_mode == "iptables").then(|| {
        // The counter is missing if the kernel lacks nfacct.
        AccountingConnection::open().and_then(|mut accounting| accounting.packets(INVALID_DROPPED_COUNTER))
    });
    Packets {
        invalid_dropped: invalid_dropped.and_then(|read| {
            read.inspect_err(|error| tracing::debug!(%error, "counter of dropped packets not read"))
                .ok()?
        }),
        localhost_accepted: shared_status.localhost.accepted(),
        two_tier: ForwardedPackets::read()
            .inspect_err(|error| tracing::debug!(%error, "counters of two-tier forwarding not read"))
            .ok()
            .flatten(),
    }
}

/// Returns a page if it is enabled.
fn page(text: Option<String>) -> Response {
    text.map_or_else(Response::not_found, |text| Response::text(StatusCode::OK, text))
}

/// Returns the busiest Services if the query has `services=N`, at most N.
fn traffic(worker: &WeakSender<Update>, query: &str) -> Option<serde_json::Value> {
    let count = query.split('&').find_map(|part| part.strip_prefix("services="))?;
    let services_max = count.parse::<usize>().ok()?.min(TRAFFIC_SERVICES_MAX);
    let (response, receiver) = std::sync::mpsc::sync_channel(1);
    let query = TrafficQuery {
        services_max,
        response,
    };
    worker.upgrade()?.try_send(Update::Traffic(query)).ok()?;
    // The worker is not a task of the runtime.
    let busiest = tokio::task::block_in_place(|| receiver.recv_timeout(TRAFFIC_TIMEOUT)).ok()?;
    let busiest = busiest.iter().map(|traffic| {
        serde_json::json!({
            "service": traffic.service,
            "connections": traffic.connections,
            "bytes": traffic.bytes,
            "chosenAtConnect": traffic.chosen_at_connect,
            "refusedAtConnect": traffic.refused_at_connect,
        })
    });
    Some(busiest.collect())
}
