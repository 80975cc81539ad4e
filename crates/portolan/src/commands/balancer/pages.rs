//! What the parts of load balancing on a machine tell over HTTP: `/metrics`, `/healthz`, and `/status` for `portolan balancer
//! status`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use balancer::serving;
use edge::status::PortStatus;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use telemetry::{Handler, Response};

/// Where they are served if nothing else is said.
pub const ADDRESS: &str = "127.0.0.1:10268";
/// Pause between two tries to listen.
const LISTEN_RETRY_PERIOD: Duration = Duration::from_secs(1);

/// The parts that this process has.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// The Node.
    pub node_name: String,
    /// What assigns addresses.
    pub assigner: Option<Arc<balancer::Metrics>>,
    /// What announces them.
    pub announcer: Option<Arc<announcer::Metrics>>,
    /// The edge.
    pub edge: Option<Arc<serving::Metrics>>,
}

/// `/status`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    /// The Node.
    pub node: String,
    /// What assigns addresses, if this process does or stands by.
    pub assigner: Option<Assigner>,
    /// What announces them, if this process does.
    pub announcer: Option<Announcer>,
    /// The ports that the edge serves, if this process runs one.
    pub edge: Option<Vec<PortStatus>>,
}

/// What assigns addresses.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Assigner {
    /// How often it brought a Service to what it should be.
    pub syncs: u64,
}

/// What announces addresses.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcer {
    /// Seconds since it said how things are; `None` if it never did.
    pub said_seconds_ago: Option<u64>,
    /// How they are.
    #[serde(flatten)]
    pub status: announcer::Status,
}

impl Pages {
    /// Serves them until it is dropped. An address that cannot be listened on is tried again.
    pub async fn serve(self, address: SocketAddr) {
        let handler: Handler = Arc::new(move |uri| match uri.path() {
            "/metrics" => Response::metrics(self.metrics()),
            "/healthz" | "/livez" => Response::text(StatusCode::OK, "ok"),
            "/status" => match serde_json::to_value(self.page()) {
                Ok(page) => Response::json(StatusCode::OK, &page),
                Err(error) => Response::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            },
            _ => Response::not_found(),
        });
        let mut is_told = false;
        loop {
            match telemetry::listen(address) {
                Ok(listener) => return telemetry::serve(listener, handler).await,
                Err(error) if !is_told => {
                    tracing::warn!(%address, %error, "cannot listen for metrics, trying again");
                    is_told = true;
                }
                Err(_) => {}
            }
            tokio::time::sleep(LISTEN_RETRY_PERIOD).await;
        }
    }

    fn metrics(&self) -> String {
        let parts = [
            self.assigner.as_ref().map(|part| part.render()),
            self.announcer.as_ref().map(|part| part.render()),
            self.edge.as_ref().map(|part| part.render()),
        ];
        parts.into_iter().flatten().collect()
    }

    fn page(&self) -> Page {
        let announcer = |part: &Arc<announcer::Metrics>| match part.status() {
            None => Announcer::default(),
            Some((ago, status)) => Announcer {
                said_seconds_ago: Some(ago.as_secs()),
                status: announcer::Status::clone(&status),
            },
        };
        Page {
            node: self.node_name.clone(),
            assigner: self
                .assigner
                .as_ref()
                .map(|part| Assigner { syncs: part.syncs() }),
            announcer: self.announcer.as_ref().map(announcer),
            edge: self.edge.as_ref().map(|part| part.status()),
        }
    }
}

#[cfg(test)]
mod tests;
