//! Health, readiness and metrics over HTTP, under the paths of upstream's components.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, Uri};
use reconcile::now;
use telemetry::{Handler, Response, listen, serve};

use crate::metrics::Metrics;

/// Delay between two attempts to bind the address.
const BIND_RETRY_PERIOD: Duration = Duration::from_secs(5);

/// Serves `/healthz`, `/livez`, `/readyz` and `/metrics` until the future is dropped. A failed bind is
/// retried; the controllers run without it.
pub async fn serve_status(address: SocketAddr, metrics: Arc<Metrics>) {
    let handler: Handler = Arc::new(move |uri| route(&metrics, uri));
    loop {
        match listen(address) {
            Ok(listener) => return serve(listener, handler).await,
            Err(error) => {
                tracing::warn!(%address, %error, "bind of the metrics and health address failed; retrying")
            }
        }
        tokio::time::sleep(BIND_RETRY_PERIOD).await;
    }
}

fn route(metrics: &Metrics, uri: &Uri) -> Response {
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
