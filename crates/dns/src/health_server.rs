//! Health, readiness, metrics and explanations over HTTP, at the ports and paths of CoreDNS.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use client::Client;
use http::{StatusCode, Uri};
use telemetry::{Handler, MetricType, MetricsText, Response, listen, serve};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::query_explanation::{explain, query_type_of};
use crate::run::unix_seconds;
use crate::server::Responder;
use crate::wire::{Name, kind};
use crate::zone::ZoneState;

/// Pause between two attempts to bind an address.
const BIND_RETRY_PERIOD: Duration = Duration::from_secs(5);

/// State behind the HTTP endpoints.
pub(crate) struct Status {
    responder: Arc<Responder>,
    client: Option<Client>,
    is_lameduck: AtomicBool,
    /// Time at which the snapshot was written, in seconds since 1970; 0 for no snapshot.
    snapshot_unix_seconds: AtomicU64,
}

impl Status {
    /// Creates the state for `responder`, and for the client that feeds it.
    pub(crate) fn new(responder: Arc<Responder>, client: Option<Client>) -> Self {
        Self {
            responder,
            client,
            is_lameduck: AtomicBool::new(false),
            snapshot_unix_seconds: AtomicU64::new(0),
        }
    }

    /// Makes `/health` and `/ready` report the lameduck period. The readiness probe then removes the endpoint, so that
    /// proxies move UDP flows to other servers while this one still responds.
    pub(crate) fn set_lameduck(&self) {
        self.is_lameduck.store(true, Ordering::Release);
    }

    /// Sets the time at which the snapshot was written.
    pub(crate) fn set_snapshot_time(&self, unix_seconds: u64) {
        self.snapshot_unix_seconds.store(unix_seconds, Ordering::Release);
    }

    /// Serves `/health`.
    fn health(&self, uri: &Uri) -> Response {
        match uri.path() {
            "/health" if self.is_lameduck.load(Ordering::Acquire) => {
                Response::text(StatusCode::SERVICE_UNAVAILABLE, "lameduck")
            }
            "/health" => Response::text(StatusCode::OK, "OK"),
            _ => Response::not_found(),
        }
    }

    /// Serves `/ready`: ready means that the zone has data and no shutdown was requested.
    fn ready(&self, uri: &Uri) -> Response {
        match (uri.path(), self.responder.zone().state()) {
            ("/ready", _) if self.is_lameduck.load(Ordering::Acquire) => {
                Response::text(StatusCode::SERVICE_UNAVAILABLE, "lameduck")
            }
            ("/ready", ZoneState::Unknown) => Response::text(StatusCode::SERVICE_UNAVAILABLE, "kubernetes"),
            ("/ready", ZoneState::Snapshot | ZoneState::Live) => Response::text(StatusCode::OK, "OK"),
            _ => Response::not_found(),
        }
    }

    fn metrics(&self, uri: &Uri) -> Response {
        match uri.path() {
            "/metrics" => {
                let mut text = MetricsText::default();
                self.responder.metrics().write(&mut text);
                self.responder.forwarder().write_metrics(&mut text);
                if let Some(client) = &self.client {
                    client.write_metrics(&mut text, "coredns_kubernetes_");
                }
                self.write_state(&mut text);
                telemetry::write_process(&mut text);
                Response::metrics(text.finish())
            }
            "/explain" => self.explain(uri.query().unwrap_or_default()),
            _ => Response::not_found(),
        }
    }

    /// Writes the metrics of the zone's state.
    fn write_state(&self, text: &mut MetricsText) {
        let state = self.responder.zone().state();
        text.family(
            "portolan_dns_zone_state",
            MetricType::Gauge,
            "State that the server answers from: 1 for the current state, otherwise 0.",
        );
        for (name, labelled) in [
            ("none", ZoneState::Unknown),
            ("stale", ZoneState::Snapshot),
            ("live", ZoneState::Live),
        ] {
            let value = u8::from(labelled == state);
            text.sample("portolan_dns_zone_state", &format!("state=\"{name}\""), value);
        }
        let written = self.snapshot_unix_seconds.load(Ordering::Acquire);
        let age = match state {
            ZoneState::Snapshot => unix_seconds().saturating_sub(written),
            ZoneState::Unknown | ZoneState::Live => 0,
        };
        text.single(
            "portolan_dns_zone_stale_seconds",
            MetricType::Gauge,
            "Age in seconds of the snapshot that the server answers from; 0 while it answers from live data.",
            age,
        );
    }

    /// Serves `/explain?name=NAME&type=TYPE&from=ADDRESS`.
    fn explain(&self, query: &str) -> Response {
        let value = |key_wanted: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs
                .filter(|(key, _)| *key == key_wanted)
                .map(|(_, value)| value)
                .next_back()
        };
        let name = value("name").map(Name::from_text);
        let kind = value("type").map_or(Some(kind::A), query_type_of);
        let from = value("from").map(str::parse::<IpAddr>);
        match (name, kind, from.transpose()) {
            (Some(Ok(name)), Some(kind), Ok(from)) => {
                Response::text(StatusCode::OK, explain(&self.responder, &name, kind, from))
            }
            _ => Response::text(
                StatusCode::BAD_REQUEST,
                "expected /explain?name=NAME&type=TYPE&from=ADDRESS; type and from are optional\n",
            ),
        }
    }
}

/// Starts the configured HTTP servers; dropping the set ends them. An address that cannot be bound is retried,
/// while the DNS server works.
pub(crate) fn start_servers(config: &Config, status: &Arc<Status>) -> JoinSet<()> {
    type Page = fn(&Status, &Uri) -> Response;
    let mut servers = JoinSet::new();
    let endpoints: [(&'static str, Option<SocketAddr>, Page); 3] = [
        ("health", config.health_address, Status::health),
        ("readiness", config.ready_address, Status::ready),
        ("metrics", config.metrics_address, Status::metrics),
    ];
    for (endpoint, address, page) in endpoints {
        let Some(address) = address else { continue };
        let status = status.clone();
        let handler: Handler = Arc::new(move |uri| page(&status, uri));
        servers.spawn(async move {
            loop {
                match listen(address) {
                    Ok(listener) => return serve(listener, handler).await,
                    Err(error) => {
                        tracing::warn!(%address, endpoint, %error, "bind failed; retrying");
                    }
                }
                tokio::time::sleep(BIND_RETRY_PERIOD).await;
            }
        });
    }
    servers
}

#[cfg(test)]
mod tests;
