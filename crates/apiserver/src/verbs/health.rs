//! Health endpoints `/livez`, `/readyz` and `/healthz`, as a whole and for each check.

use std::time::Duration;

use http::{HeaderValue, StatusCode};

use crate::request::query::Query;
use crate::transport::response::{self, ApiResponse};
use crate::verbs::resource::Resources;

/// Time for a read of the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// Check of a health endpoint. The names are upstream's, so that monitors find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// The server responds.
    Ping,
    /// The server writes its log.
    Log,
    /// The store is readable, with any engine.
    Store,
    /// The last write of the store succeeded. Reads need no write, so the check is not part of liveness.
    StoreWrites,
    /// The objects that every cluster has exist. The server accepts requests after their creation, so the
    /// check always passes.
    Bootstrap,
    /// The server does not shut down.
    Shutdown,
}

const LIVE: &[Check] = &[Check::Ping, Check::Log, Check::Store, Check::Bootstrap];
const READY: &[Check] = &[
    Check::Ping,
    Check::Log,
    Check::Store,
    Check::StoreWrites,
    Check::Bootstrap,
    Check::Shutdown,
];

/// Returns the response for a path at or below `/livez`, `/readyz` or `/healthz`.
pub(crate) async fn respond(resources: &Resources, path: &str, query: &Query) -> ApiResponse {
    let mut segments = path.trim_matches('/').splitn(2, '/');
    let endpoint = segments.next().unwrap_or_default();
    let checks = if endpoint == "readyz" { READY } else { LIVE };
    if let Some(name) = segments.next() {
        return match checks.iter().find(|check| check.name() == name) {
            None => response::text(StatusCode::NOT_FOUND, "404 page not found\n"),
            Some(check) => match check.fault(resources).await {
                None => text_response("ok".to_owned()),
                Some(fault) => failure_response(format!("internal server error: {fault}\n")),
            },
        };
    }
    let mut faults = Vec::with_capacity(checks.len());
    for check in checks {
        faults.push((*check, check.fault(resources).await.is_some()));
    }
    let excluded: Vec<&str> = query.all("exclude").flat_map(|names| names.split(',')).collect();
    let (is_healthy, text) = summary(endpoint, &faults, &excluded);
    match (is_healthy, query.has("verbose")) {
        (false, _) => failure_response(text),
        (true, true) => text_response(text),
        (true, false) => text_response("ok".to_owned()),
    }
}

impl Check {
    fn name(self) -> &'static str {
        match self {
            Check::Ping => "ping",
            Check::Log => "log",
            Check::Store => "etcd",
            Check::StoreWrites => "etcd-writes",
            Check::Bootstrap => "poststarthook/bootstrap-controller",
            Check::Shutdown => "shutdown",
        }
    }

    /// Returns the fault that the check finds; `None` if it passes.
    async fn fault(self, resources: &Resources) -> Option<String> {
        match self {
            Check::Ping | Check::Log | Check::Bootstrap => None,
            Check::Shutdown => resources
                .shutdown
                .is_requested()
                .then(|| "process is shutting down".to_owned()),
            Check::StoreWrites => resources.store.write_failure(),
            Check::Store => match tokio::time::timeout(STORE_TIMEOUT, resources.store.read_barrier()).await {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "store not readable");
                    Some("the store cannot be read".to_owned())
                }
                Err(_) => Some("the store does not respond in time".to_owned()),
            },
        }
    }
}

/// Returns true if all checks pass that are not excluded; and a line for each check.
fn summary(endpoint: &str, faults: &[(Check, bool)], excluded: &[&str]) -> (bool, String) {
    let (mut text, mut is_healthy) = (String::new(), true);
    for (check, has_fault) in faults {
        let name = check.name();
        text += &match (excluded.contains(&name), has_fault) {
            (true, _) => format!("[+]{name} excluded: ok\n"),
            (false, false) => format!("[+]{name} ok\n"),
            (false, true) => {
                is_healthy = false;
                format!("[-]{name} failed: reason withheld\n")
            }
        };
    }
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|name| !faults.iter().any(|(check, _)| check.name() == **name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        text += &format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            unknown.join(", ")
        );
    }
    text += &format!(
        "{endpoint} check {}\n",
        if is_healthy { "passed" } else { "failed" }
    );
    (is_healthy, text)
}

fn text_response(text: String) -> ApiResponse {
    no_sniffing(response::text(StatusCode::OK, text))
}

fn failure_response(text: String) -> ApiResponse {
    no_sniffing(response::text(StatusCode::INTERNAL_SERVER_ERROR, text))
}

fn no_sniffing(mut response: ApiResponse) -> ApiResponse {
    let nosniff = HeaderValue::from_static("nosniff");
    response
        .headers_mut()
        .insert(http::header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

#[cfg(test)]
mod tests;
