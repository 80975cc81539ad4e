//! Putting the node process together.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use client::Client;
use dataplane::iptables::INVALID_DROPPED_COUNTER;
use dataplane::{Dataplane, DataplaneError};
use http::StatusCode;
use jiff::Timestamp;
use netlink::accounting::Accounting;
use netlink::conntrack::{Conntrack, ConntrackError};
use telemetry::{Handler, Response, listen, serve};
use tokio::sync::mpsc::WeakSender;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::events::Events;
use crate::health::{Moment, serve_service_checks};
use crate::localhost::relay_localhost;
use crate::metrics::Packets;
use crate::node;
use crate::sources;
use crate::worker::{Board, QUEUE_UPDATES_MAX, TrafficQuestion, Update, Worker};

/// How long the plan's thread may take to tell the busiest Services.
const TRAFFIC_PATIENCE: Duration = Duration::from_secs(3);
/// Most of them in one answer.
const TRAFFIC_SERVICES_MAX: usize = 10_000;
/// Pause between two tries to bind a health or metrics address.
const BIND_RETRY_PERIOD: Duration = Duration::from_secs(5);

/// Why the node process ended.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// No node name was given; endpoints on this node could not be told from others. No retry helps.
    #[error("the node's name is not known")]
    NoNodeName,
    /// The machine's addresses could not be read, which needs no privilege. No retry helps.
    #[error("cannot read this machine's addresses: {0}")]
    Addresses(#[from] netlink::route::RouteError),
    /// The kernel's memory of flows cannot be reached: CAP_NET_ADMIN is missing. No retry helps.
    #[error("cannot reach connection tracking: {0}")]
    Conntrack(#[source] ConntrackError),
    /// A health or metrics address could not be bound, and that is to end the process (KPF-13).
    #[error("cannot listen on {address} for {what}: {source}")]
    Bind {
        /// The server.
        what: &'static str,
        /// Its address.
        address: SocketAddr,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// No thread could be started for the plan.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// The kernel will not take rules from this process. No retry helps.
    #[error(transparent)]
    Dataplane(#[from] DataplaneError),
    /// The thread of the plan ended without being asked, which is a defect. The rules are in force; a new
    /// process takes them over.
    #[error("the thread that keeps the rules has ended")]
    WorkerEnded,
}

/// Keeps this node's rules until `shutdown` is ready. The rules stay in force afterwards.
pub async fn run<D: Dataplane + Send + 'static>(
    config: Config,
    client: Client,
    dataplane: D,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ProxyError> {
    let (_never, configs) = watch::channel(config);
    run_reloading(configs, client, dataplane, shutdown).await
}

/// The same with a configuration that may change meanwhile. What is only read at the start is named in the log.
pub async fn run_reloading<D: Dataplane + Send + 'static>(
    mut configs: watch::Receiver<Config>,
    client: Client,
    dataplane: D,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ProxyError> {
    let config = configs.borrow_and_update().clone();
    if config.node_name.is_empty() {
        return Err(ProxyError::NoNodeName);
    }
    let own_addresses = node::own_addresses()?;
    let conntrack = Conntrack::open().map_err(ProxyError::Conntrack)?;
    let board = Arc::new(Board::default());
    let events = Events::new(client.clone(), &config.node_name);
    let mut servers = JoinSet::new();
    let (sender, receiver) = mpsc::channel(QUEUE_UPDATES_MAX);
    start_servers(&config, &board, &events, &sender.downgrade(), &mut servers)?;
    servers.spawn(relay_localhost(board.localhost.clone()));
    servers.spawn(serve_service_checks(
        board.checks.clone(),
        board.health.clone(),
        events.clone(),
    ));

    let sources = sources::start(&client, &config.node_name, own_addresses.clone(), &sender);
    servers.spawn(sources::configs(configs, sender.clone()));
    let others = sender.downgrade();
    drop(sender);
    events.note_about_node("Starting", "Starting portolan proxy.".to_owned());
    let worker = Worker::new(config, dataplane, Some(conntrack), own_addresses, board, events);
    let runtime = tokio::runtime::Handle::current();
    let (ended, mut end) = oneshot::channel();
    std::thread::Builder::new()
        .name("proxy-plan".to_owned())
        .spawn(move || {
            // Nobody listens any more if `run` was dropped.
            ended.send(worker.run(receiver, others, &runtime)).ok();
        })
        .map_err(ProxyError::Thread)?;

    tokio::select! {
        () = shutdown => {}
        result = &mut end => {
            result.map_err(|_| ProxyError::WorkerEnded)??;
            return Err(ProxyError::WorkerEnded);
        }
    }
    // The queue closes with its last source; what is in it still comes into force.
    drop(sources);
    servers.shutdown().await;
    end.await.map_err(|_| ProxyError::WorkerEnded)??;
    tracing::info!("ended; the rules stay in force");
    Ok(())
}

fn start_servers(
    config: &Config,
    board: &Arc<Board>,
    events: &Events,
    worker: &WeakSender<Update>,
    servers: &mut JoinSet<()>,
) -> Result<(), ProxyError> {
    let is_strict = config.bind_address_hard_fail;
    if let Some(address) = config.healthz_bind_address {
        let board = board.clone();
        let handler: Handler = Arc::new(move |uri| health_answer(&board, uri.path()));
        let server = Server {
            what: "health",
            failure: "FailedToStartProxierHealthcheck",
            address,
            handler,
        };
        server.start(is_strict, events, servers)?;
    }
    if let Some(address) = config.metrics_bind_address {
        let (board, config, worker) = (board.clone(), config.clone(), worker.clone());
        let started = Timestamp::now();
        let handler: Handler = Arc::new(move |uri| match uri.path() {
            "/status" => {
                let mut status = board.status(&config);
                if let Some(busiest) = traffic(&worker, uri.query().unwrap_or_default()) {
                    status["services"] = busiest;
                }
                Response::json(StatusCode::OK, &status)
            }
            "/statusz" => page(config.pages.statusz(started, Timestamp::now())),
            "/flagz" => page(config.pages.flagz()),
            path => metrics_answer(&board, &config, path),
        });
        let server = Server {
            what: "metrics",
            failure: "FailedToStartMetricServer",
            address,
            handler,
        };
        server.start(is_strict, events, servers)?;
    }
    Ok(())
}

/// A server to start.
struct Server {
    what: &'static str,
    /// The reason of the Event if it cannot be started (KPR-08).
    failure: &'static str,
    address: SocketAddr,
    handler: Handler,
}

impl Server {
    /// Starts it. If its address is not free, that ends the process if it `is_strict`, else it is tried again.
    fn start(self, is_strict: bool, events: &Events, servers: &mut JoinSet<()>) -> Result<(), ProxyError> {
        let Self {
            what,
            failure,
            address,
            handler,
        } = self;
        match listen(address) {
            Ok(listener) => {
                tracing::info!(%address, what, "listening");
                servers.spawn(serve(listener, handler));
            }
            Err(source) if is_strict => {
                return Err(ProxyError::Bind {
                    what,
                    address,
                    source,
                });
            }
            Err(error) => {
                tracing::warn!(%address, what, %error, "cannot listen yet");
                events.warn_about_node(failure, format!("cannot listen on {address}: {error}"));
                servers.spawn(async move {
                    loop {
                        tokio::time::sleep(BIND_RETRY_PERIOD).await;
                        if let Ok(listener) = listen(address) {
                            tracing::info!(%address, what, "listening");
                            return serve(listener, handler).await;
                        }
                    }
                });
            }
        }
        Ok(())
    }
}

/// Port 10256 (HLT-01, HLT-02).
fn health_answer(board: &Board, path: &str) -> Response {
    let now = Moment::now();
    let answer = match path {
        "/healthz" => board.health.healthz(now),
        "/livez" => board.health.livez(now),
        _ => return Response::not_found(),
    };
    let code = usize::from(answer.status != StatusCode::OK);
    board.metrics.update(|values| {
        let counts = match path {
            "/healthz" => &mut values.proxy_healthz_total,
            _ => &mut values.proxy_livez_total,
        };
        counts[code] += 1;
    });
    answer
}

/// Port 10249 (HLT-04).
fn metrics_answer(board: &Board, config: &Config, path: &str) -> Response {
    match path {
        "/metrics" => Response::metrics(board.metrics.render(packets(board, config))),
        "/metrics/slis" => {
            let now = Moment::now();
            let is_live = board.health.is_healthy(now);
            let is_ready = board.health.healthz(now).status == StatusCode::OK;
            Response::metrics(board.metrics.render_health([is_ready, is_live]))
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

/// What is counted elsewhere.
fn packets(board: &Board, config: &Config) -> Packets {
    let invalid_dropped = (config.proxy_mode == "iptables").then(|| {
        // There is none where the kernel has no counters by name.
        Accounting::open().and_then(|mut accounting| accounting.packets(INVALID_DROPPED_COUNTER))
    });
    Packets {
        invalid_dropped: invalid_dropped.and_then(|read| {
            read.inspect_err(|error| tracing::debug!(%error, "dropped packets are not counted"))
                .ok()?
        }),
        localhost_accepted: board.localhost.accepted(),
    }
}

/// A page, if it is served.
fn page(text: Option<String>) -> Response {
    text.map_or_else(Response::not_found, |text| Response::text(StatusCode::OK, text))
}

/// The busiest Services, as many as a query `services=N` asks for; none if it does not.
fn traffic(worker: &WeakSender<Update>, query: &str) -> Option<serde_json::Value> {
    let asked = query.split('&').find_map(|part| part.strip_prefix("services="))?;
    let services_max = asked.parse::<usize>().ok()?.min(TRAFFIC_SERVICES_MAX);
    let (answer, told) = std::sync::mpsc::sync_channel(1);
    let question = TrafficQuestion { services_max, answer };
    worker.upgrade()?.try_send(Update::Traffic(question)).ok()?;
    // The thread that answers is none of the runtime's.
    let busiest = tokio::task::block_in_place(|| told.recv_timeout(TRAFFIC_PATIENCE)).ok()?;
    let busiest = busiest.iter().map(|traffic| {
        serde_json::json!({
            "service": traffic.service,
            "connections": traffic.connections,
            "bytes": traffic.bytes,
        })
    });
    Some(busiest.collect())
}
