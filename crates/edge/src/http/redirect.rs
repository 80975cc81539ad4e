//! Redirection of requests to `https`.

use http::{HeaderValue, Uri};

#[cfg(test)]
mod tests;

/// Returns the same target with `https` and a port; host, path and query stay. Returns `None` if the request names no
/// host.
pub fn to_https(host: &HeaderValue, target: &Uri, port: u16) -> Option<HeaderValue> {
    let host = without_port(host.to_str().ok()?);
    let port = if port == 443 {
        String::new()
    } else {
        format!(":{port}")
    };
    let path = target.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path } else { "/" };
    HeaderValue::try_from(format!("https://{host}{port}{path}")).ok()
}

fn without_port(authority: &str) -> &str {
    let host_end = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    match authority.get(host_end..).and_then(|rest| rest.find(':')) {
        Some(colon) => authority.get(..host_end + colon).unwrap_or(authority),
        None => authority,
    }
}
