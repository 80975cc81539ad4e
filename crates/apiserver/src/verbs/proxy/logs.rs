//! The `log` subresource of Pods, read from the agent of the Pod's node.

use api::field::{FieldError, FieldErrors, Path};
use api::tree::{child, items, text};
use bytes::Bytes;
use http::{Response, StatusCode};
use hyper::body::Incoming;
use jiff::Timestamp;
use serde_json::Value;

use super::agent::{AgentClient, error_text};
use super::destination::find;
use crate::failure::Failure;
use crate::request::query::Query;
use crate::request::route::Target;
use crate::transport::long_running::RequestLifetime;
use crate::transport::response::{self, ApiResponse};
use crate::verbs::resource::Resources;

/// Values of the parameter `stream`.
const STREAMS: [&str; 3] = ["All", "Stderr", "Stdout"];

/// Returns the log of `target` and `query`. The response ends with `lifetime`.
pub(crate) async fn read(
    agents: &AgentClient,
    resources: &Resources,
    target: &Target,
    query: &Query,
    encoded_query: &str,
    mut lifetime: RequestLifetime,
) -> Result<ApiResponse, Failure> {
    check_options(target.name(), query)?;
    let pod = find(resources, target, "pods", target.name()).await?;
    let container = container(&pod, target.name(), query.text("container"))?;
    let node_name = text(child(&pod, "spec"), "nodeName");
    if node_name.is_empty() {
        // As upstream: a Pod without a node has no log.
        return Ok(response::text(StatusCode::NO_CONTENT, Bytes::new()));
    }
    let path = format!(
        "/containerLogs/{}/{}/{container}?{encoded_query}",
        target.namespace(),
        target.name()
    );
    let response = lifetime.during(agents.get(resources, node_name, &path)).await?;
    match response.status() {
        StatusCode::OK => Ok(response::with_lifetime(response::proxied(response), lifetime)),
        _ => Err(failure(response, node_name).await),
    }
}

/// Checks the parameters, as upstream with the feature gate `PodLogsQuerySplitStreams`
/// (`apis/core/validation/validation.go`, `ValidatePodLogOptions`).
fn check_options(pod_name: &str, query: &Query) -> Result<(), Failure> {
    let mut errors = FieldErrors::new();
    let tail_lines = whole_number(query, "tailLines")?;
    if let Some(lines) = tail_lines.filter(|lines| *lines < 0) {
        let message = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&Path::new("tailLines"), lines, message));
    }
    let positive = |errors: &mut FieldErrors, name: &str, number: Option<i64>| {
        if let Some(number) = number.filter(|number| *number < 1) {
            errors.push(FieldError::invalid(
                &Path::new(name),
                number,
                "must be greater than 0",
            ));
        }
    };
    positive(&mut errors, "limitBytes", whole_number(query, "limitBytes")?);
    let since_seconds = whole_number(query, "sinceSeconds")?;
    if has_time(query, "sinceTime")? && since_seconds.is_some() {
        let message = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(FieldError::forbidden(&Path::new("[]"), message));
    } else {
        positive(&mut errors, "sinceSeconds", since_seconds);
    }
    errors.extend(stream_error(query.text("stream"), tail_lines.is_some()));
    if errors.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid_options("", "PodLogOptions", pod_name, &errors))
}

/// Returns the error of the parameter `stream`.
fn stream_error(stream: &str, has_tail_lines: bool) -> Option<FieldError> {
    if stream.is_empty() {
        None
    } else if !STREAMS.contains(&stream) {
        Some(FieldError::not_supported(&Path::new("stream"), stream, &STREAMS))
    } else if stream != "All" && has_tail_lines {
        let message = "`tailLines` and specific `stream` are mutually exclusive for now";
        Some(FieldError::forbidden(&Path::new("[]"), message))
    } else {
        None
    }
}

/// Returns a parameter as a whole number.
fn whole_number(query: &Query, name: &str) -> Result<Option<i64>, Failure> {
    if !query.has(name) {
        return Ok(None);
    }
    let text = query.text(name);
    let invalid = || format!("strconv.ParseInt: parsing {text:?}: invalid syntax");
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(Failure::bad_request(invalid())),
    }
}

/// Returns true if the query has a parameter with a time.
fn has_time(query: &Query, name: &str) -> Result<bool, Failure> {
    let text = query.text(name);
    if text.is_empty() {
        return Ok(false);
    }
    match text.parse::<Timestamp>() {
        Ok(_) => Ok(true),
        Err(_) => Err(Failure::bad_request(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        ))),
    }
}

/// Converts an agent's error response to a failure.
async fn failure(response: Response<Incoming>, node_name: &str) -> Failure {
    let status = response.status();
    let message = error_text(response).await;
    match status {
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => Failure::bad_request(message),
        StatusCode::TOO_MANY_REQUESTS => Failure::busy(message),
        _ => Failure::unavailable(format!(
            "the agent of node {node_name:?} answered {status}: {message}"
        )),
    }
}

/// Returns the requested container, or the only one if the request names none.
pub(super) fn container<'p>(pod: &'p Value, pod_name: &str, requested: &'p str) -> Result<&'p str, Failure> {
    let spec = child(pod, "spec");
    let names = |list: &str| -> Vec<&'p str> {
        items(spec, list)
            .iter()
            .map(|container| text(container, "name"))
            .collect()
    };
    let (main, init) = (names("containers"), names("initContainers"));
    if !requested.is_empty() {
        let all = [&main, &init, &names("ephemeralContainers")];
        let exists = all.iter().any(|names| names.contains(&requested));
        return exists.then_some(requested).ok_or_else(|| {
            Failure::bad_request(format!("container {requested} is not valid for pod {pod_name}"))
        });
    }
    if let [only] = main.as_slice() {
        return Ok(only);
    }
    let mut message = format!(
        "a container name must be specified for pod {pod_name}, choose one of: [{}]",
        main.join(" ")
    );
    if !init.is_empty() {
        message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
    }
    Err(Failure::bad_request(message))
}

#[cfg(test)]
mod tests;
