//! The subresources `attach`, `exec` and `portforward` of Pods: the upgraded connection leads to the agent of the Pod's
//! node.

use api::kind;
use api::tree::{child, text};
use http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::Value;

use super::agent::{AgentClient, error_text};
use super::destination::find;
use super::{headers, logs, tunnel};
use crate::failure::Failure;
use crate::request::query::Query;
use crate::request::route::Target;
use crate::transport::long_running::RequestLifetime;
use crate::transport::response::{self, ApiResponse};
use crate::verbs::resource::Resources;

/// Header in which SPDY clients list protocols.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// Headers of an upgrade that the agent receives. Compression of WebSocket messages is not offered.
const FORWARDED: [HeaderName; 5] = [
    UPGRADE,
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION,
    STREAM_PROTOCOL,
];
/// Headers of an upgrade that the client receives. The server drops other headers of the agent, such as cookies.
const RETURNED: [HeaderName; 5] = [
    CONNECTION,
    UPGRADE,
    SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_PROTOCOL,
    STREAM_PROTOCOL,
];
/// Parameters of a command, with the names of the kubelet.
const STREAMS: [(&str, &str); 4] = [
    ("stdin", "input"),
    ("stdout", "output"),
    ("stderr", "error"),
    ("tty", "tty"),
];

/// Connects a client with the agent of the Pod's node. The connection ends with `lifetime`.
pub(crate) async fn connect(
    agents: &AgentClient,
    resources: &Resources,
    target: &Target,
    query: &Query,
    mut request: Request<Incoming>,
    mut lifetime: RequestLifetime,
) -> Result<ApiResponse, Failure> {
    let pod = find(resources, target, "pods", target.name()).await?;
    let encoded_query = request.uri().query().unwrap_or_default();
    let path = path(&pod, target, query.text("container"), encoded_query)?;
    let node_name = text(child(&pod, "spec"), "nodeName");
    if node_name.is_empty() {
        return Err(Failure::bad_request(format!(
            "pod {} does not have a host assigned",
            target.name()
        )));
    }
    if !headers::is_upgrade(request.headers()) {
        return Err(Failure::bad_request("Upgrade request required"));
    }
    let method = request.method().clone();
    let upgrade = selected_headers(request.headers(), FORWARDED);
    let client = hyper::upgrade::on(&mut request);
    let connecting = agents.connect(resources, node_name, method, &path, upgrade);
    let mut response = lifetime.during(connecting).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(failure(response, node_name).await);
    }
    *response.headers_mut() = selected_headers(response.headers(), RETURNED);
    let agent = hyper::upgrade::on(&mut response);
    tokio::spawn(tunnel::run(client, agent, resources.shutdown.clone(), lifetime));
    Ok(response::proxied(response))
}

/// Returns the path and query of the agent for a request.
fn path(pod: &Value, target: &Target, container: &str, encoded_query: &str) -> Result<String, Failure> {
    let (namespace, name) = (target.namespace(), target.name());
    let operation = match target.subresource {
        Some(kind::PORT_FORWARD) => {
            let query = forwarded_ports(encoded_query)?;
            return Ok(format!("/portForward/{namespace}/{name}{query}"));
        }
        Some(kind::ATTACH) => "attach",
        _ => "exec",
    };
    let container = logs::container(pod, name, container)?;
    let pairs = || {
        let pairs = encoded_query.split('&');
        pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    };
    let is_set = |parameter: &str| {
        let value = pairs().find(|(name, _)| *name == parameter);
        value.is_some_and(|(_, value)| !matches!(value, "0" | "f" | "false"))
    };
    let mut parameters: Vec<String> = STREAMS
        .into_iter()
        .filter(|(parameter, _)| is_set(parameter))
        .map(|(_, of_agent)| format!("{of_agent}=1"))
        .collect();
    if parameters.iter().all(|parameter| parameter == "tty=1") {
        return Err(Failure::bad_request(
            "you must specify at least 1 of stdin, stdout, stderr",
        ));
    }
    // The agent decodes percent-encoding only.
    let words = pairs().filter(|(name, _)| *name == "command");
    parameters.extend(words.map(|(_, word)| format!("command={}", word.replace('+', "%20"))));
    Ok(format!(
        "/{operation}/{namespace}/{name}/{container}?{}",
        parameters.join("&")
    ))
}

/// Returns the ports of a request over WebSocket channels, with the kubelet's name of the parameter. A value may list
/// several ports, separated by commas.
fn forwarded_ports(encoded_query: &str) -> Result<String, Failure> {
    let pairs = encoded_query.split('&').filter_map(|pair| pair.split_once('='));
    let mut parameters = Vec::new();
    let values = pairs
        .filter(|(name, _)| *name == "ports")
        .map(|(_, value)| value.replace("%2C", ",").replace("%2c", ","))
        .collect::<Vec<_>>();
    for value in values.iter().flat_map(|value| value.split(',')) {
        // As upstream.
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let reason = if is_number {
            "value out of range"
        } else {
            "invalid syntax"
        };
        let port = value.parse::<u16>().ok().filter(|_| is_number).ok_or_else(|| {
            Failure::bad_request(format!(
                "cannot convert to []int32: strconv.ParseUint: parsing {value:?}: {reason}"
            ))
        })?;
        parameters.push(format!("port={port}"));
    }
    Ok(match parameters.as_slice() {
        [] => String::new(),
        all => format!("?{}", all.join("&")),
    })
}

fn selected_headers(headers: &HeaderMap, names: [HeaderName; 5]) -> HeaderMap {
    let mut selected = HeaderMap::new();
    for name in names {
        for value in headers.get_all(&name) {
            selected.append(name.clone(), value.clone());
        }
    }
    selected
}

/// Converts an agent's error response to a failure.
pub(super) async fn failure(response: Response<Incoming>, node_name: &str) -> Failure {
    let status = response.status();
    let message = error_text(response).await;
    match status {
        StatusCode::BAD_REQUEST => Failure::bad_request(message),
        StatusCode::FORBIDDEN => Failure::new(StatusCode::FORBIDDEN, "Forbidden", message),
        StatusCode::NOT_FOUND => Failure::new(StatusCode::NOT_FOUND, "NotFound", message),
        StatusCode::TOO_MANY_REQUESTS => Failure::busy(message),
        _ => Failure::unavailable(format!(
            "the agent of node {node_name:?} answered {status}: {message}"
        )),
    }
}

#[cfg(test)]
mod tests;
