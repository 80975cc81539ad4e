//! Health, readiness and metrics over HTTP, at the paths of upstream's components.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, Uri};
use telemetry::{Handler, Response, listen, serve};

use crate::metrics::Metrics;
use crate::run::now;

/// Pause between two tries to bind an address.
const BIND_RETRY_PERIOD: Duration = Duration::from_secs(5);

/// Serves `/healthz`, `/livez`, `/readyz` and `/metrics` until it is dropped. An address that cannot be listened on is
/// tried again: endpoints are kept all the same.
pub async fn serve_status(address: SocketAddr, metrics: Arc<Metrics>) {
    let handler: Handler = Arc::new(move |uri| answer(&metrics, uri));
    loop {
        match listen(address) {
            Ok(listener) => return serve(listener, handler).await,
            Err(error) => {
                tracing::warn!(%address, %error, "cannot listen for metrics and health, trying again")
            }
        }
        tokio::time::sleep(BIND_RETRY_PERIOD).await;
    }
}

fn answer(metrics: &Metrics, uri: &Uri) -> Response {
    match uri.path() {
        "/metrics" => Response::metrics(metrics.render(now())),
        "/healthz" | "/livez" => Response::text(StatusCode::OK, "ok"),
        "/readyz" if metrics.is_ready() => Response::text(StatusCode::OK, "ok"),
        "/readyz" => Response::text(StatusCode::SERVICE_UNAVAILABLE, "[-]caches are being read\n"),
        _ => Response::not_found(),
    }
}

#[cfg(test)]
mod tests;
