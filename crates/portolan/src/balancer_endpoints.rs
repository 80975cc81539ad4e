//! HTTP endpoints of load balancing on a node: `/metrics`, `/healthz`, and `/status` for `portolan balancer status`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use balancer::serving;
use client::Client;
use client::election;
use edge::status::PortStatus;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use telemetry::{Handler, MetricsText, Response};
use tokio::sync::watch;

/// Default listen address.
pub(crate) const ADDRESS: &str = "127.0.0.1:10268";
/// Time between two attempts to listen.
const LISTEN_RETRY_PERIOD: Duration = Duration::from_secs(1);

/// Components of this process that report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Endpoints {
    /// Name of the Node.
    pub node_name: String,
    /// Assigner of addresses.
    pub assigner: Option<Arc<balancer::Metrics>>,
    /// Announcer of addresses.
    pub announcer: Option<Arc<announcer::Metrics>>,
    /// BGP speaker.
    pub speaker: Option<Arc<speaker::Metrics>>,
    /// Edge of load balancer IPs.
    pub edge: Option<Arc<serving::Metrics>>,
    /// Client whose requests are counted.
    pub client: Option<Client>,
    /// Name of the Lease of the assigner, and the leadership of this process.
    pub election: Option<(String, watch::Receiver<bool>)>,
}

/// Document at `/status`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    /// Name of the Node.
    pub node: String,
    /// Assigner of addresses, if this process assigns or stands by.
    pub assigner: Option<AssignerStatus>,
    /// Announcer, if this process announces addresses.
    pub announcer: Option<AnnouncerStatus>,
    /// BGP sessions, if this process announces addresses by BGP.
    #[serde(default)]
    pub bgp: Option<speaker::Status>,
    /// Ports of the edge, if this process runs one.
    pub edge: Option<Vec<PortStatus>>,
}

/// Status of the assigner of addresses.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct AssignerStatus {
    /// Reconciled Services since the start.
    pub syncs: u64,
}

/// Status of the announcer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AnnouncerStatus {
    /// Age of the status in seconds; `None` if the announcer has not reported yet.
    pub age_seconds: Option<u64>,
    /// Last reported status.
    #[serde(flatten)]
    pub status: announcer::Status,
}

impl Endpoints {
    /// Serves the endpoints until the future is dropped. A failed attempt to listen is retried.
    pub(crate) async fn serve(self, address: SocketAddr) {
        let handler: Handler = Arc::new(move |uri| match uri.path() {
            "/metrics" => Response::metrics(self.metrics()),
            "/healthz" | "/livez" => Response::text(StatusCode::OK, "ok"),
            "/status" => match serde_json::to_value(self.status()) {
                Ok(status) => Response::json(StatusCode::OK, &status),
                Err(error) => Response::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            },
            _ => Response::not_found(),
        });
        let mut is_logged = false;
        loop {
            match telemetry::listen(address) {
                Ok(listener) => return telemetry::serve(listener, handler).await,
                Err(error) if !is_logged => {
                    tracing::warn!(%address, %error, "metrics server not started; retrying");
                    is_logged = true;
                }
                Err(_) => {}
            }
            tokio::time::sleep(LISTEN_RETRY_PERIOD).await;
        }
    }

    fn metrics(&self) -> String {
        let components = [
            self.assigner.as_ref().map(|component| component.render()),
            self.announcer.as_ref().map(|component| component.render()),
            self.speaker.as_ref().map(|component| component.render()),
            self.edge.as_ref().map(|component| component.render()),
        ];
        let mut text = MetricsText::default();
        if let Some((name, is_leader)) = &self.election {
            election::write_metrics(&mut text, name, *is_leader.borrow());
        }
        if let Some(client) = &self.client {
            client.write_metrics(&mut text, "");
        }
        telemetry::write_process(&mut text);
        components.into_iter().flatten().chain([text.finish()]).collect()
    }

    fn status(&self) -> Status {
        let announcer = |metrics: &Arc<announcer::Metrics>| match metrics.status() {
            None => AnnouncerStatus::default(),
            Some((age, status)) => AnnouncerStatus {
                age_seconds: Some(age.as_secs()),
                status: announcer::Status::clone(&status),
            },
        };
        let assigner = |metrics: &Arc<balancer::Metrics>| AssignerStatus {
            syncs: metrics.syncs(),
        };
        Status {
            node: self.node_name.clone(),
            assigner: self.assigner.as_ref().map(assigner),
            announcer: self.announcer.as_ref().map(announcer),
            bgp: self.speaker.as_ref().map(|metrics| metrics.status()),
            edge: self.edge.as_ref().map(|metrics| metrics.status()),
        }
    }
}

#[cfg(test)]
mod tests;
