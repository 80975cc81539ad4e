//! The `proxy` subresource of Nodes: the node's log directory and the logs of containers, which its agent serves.

use api::tree::{child, number};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use super::agent::AgentClient;
use super::destination::{Name, find};
use super::streams::failure;
use crate::failure::Failure;
use crate::request::route::Target;
use crate::transport::long_running::RequestLifetime;
use crate::transport::response::{self, ApiResponse};
use crate::verbs::resource::Resources;

/// Paths of the agent that clients may read.
const SERVED: [&str; 2] = ["/logs/", "/containerLogs/"];

/// Returns the response of the node's agent. It ends with `lifetime`.
pub(crate) async fn read(
    agents: &AgentClient,
    resources: &Resources,
    target: &Target,
    encoded_query: &str,
    mut lifetime: RequestLifetime,
) -> Result<ApiResponse, Failure> {
    let name = Name::parse(target.name())
        .ok_or_else(|| Failure::bad_request(format!("invalid node request {:?}", target.name())))?;
    let node = find(resources, target, "nodes", name.name).await?;
    let endpoints = child(child(&node, "status"), "daemonEndpoints");
    let port = number(child(endpoints, "kubeletEndpoint"), "Port");
    if !name.port.is_empty() && name.port.parse::<i64>() != Ok(port) {
        return Err(Failure::bad_request(format!(
            "expected port {port}, that of the agent of node {:?}, found {}",
            name.name, name.port
        )));
    }
    let path = served_path(target.proxy_path.as_deref().unwrap_or_default())?;
    let path = format!("{path}?{encoded_query}");
    let reading = agents.get(resources, name.name, &path);
    let mut response = lifetime.during(reading).await?;
    if response.status() != StatusCode::OK {
        return Err(failure(response, name.name).await);
    }
    // The server drops other headers of the agent, such as cookies.
    let mut headers = HeaderMap::new();
    if let Some(content_type) = response.headers().get(CONTENT_TYPE) {
        headers.insert(CONTENT_TYPE, content_type.clone());
    }
    *response.headers_mut() = headers;
    Ok(response::with_lifetime(response::proxied(response), lifetime))
}

/// Returns the path for the agent. The path of a directory may lack its slash.
fn served_path(path: &str) -> Result<&str, Failure> {
    if path == "/logs" {
        return Ok("/logs/");
    }
    if SERVED.iter().any(|served| path.starts_with(served)) {
        return Ok(path);
    }
    let message = "expected the path /logs/… or /containerLogs/… of the node's agent";
    Err(Failure::new(StatusCode::NOT_FOUND, "NotFound", message))
}

#[cfg(test)]
mod tests;
