//! Header fields of requests in audit events.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{AUTHORIZATION, USER_AGENT};

/// Maximum recorded length of `User-Agent` (upstream's `maxUserAgentLength`).
const USER_AGENT_BYTES_MAX: usize = 1024;
/// Suffix of a truncated `User-Agent`.
const TRUNCATED: &str = "...TRUNCATED";

/// Returns the `User-Agent`, truncated as upstream.
pub(super) fn user_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    let agent = agent.unwrap_or_default();
    // `to_str` returns visible ASCII only, so any byte index is a character boundary.
    match agent.get(..USER_AGENT_BYTES_MAX) {
        Some(beginning) if agent.len() > USER_AGENT_BYTES_MAX => format!("{beginning}{TRUNCATED}"),
        _ => agent.to_owned(),
    }
}

/// Returns the addresses of a request; the last one is that of the connection. The client can choose all others.
pub(super) fn source_ips(headers: &HeaderMap, peer: Option<IpAddr>) -> Vec<String> {
    let addresses = |name: &str| -> Vec<IpAddr> {
        let text = headers.get(name).and_then(|value| value.to_str().ok());
        let parts = text.unwrap_or_default().split(',');
        parts.filter_map(|part| part.trim().parse().ok()).collect()
    };
    let mut all = addresses("x-forwarded-for");
    for address in addresses("x-real-ip").into_iter().take(1) {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    let peer = peer.map(|peer| peer.to_canonical());
    if peer.is_some() && all.last() != peer.as_ref() {
        all.extend(peer);
    }
    all.iter().map(ToString::to_string).collect()
}

/// Returns upstream's message for failed authentication.
pub(crate) fn attempted_authentication(headers: &HeaderMap, has_certificate: bool) -> String {
    let authorization = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut methods = Vec::new();
    match authorization.trim().split_once(' ') {
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("basic") => methods.push("basic"),
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("bearer") => methods.push("bearer"),
        _ => {}
    }
    if has_certificate {
        methods.push("x509");
    }
    if methods.is_empty() {
        "Authentication failed, no credentials provided".to_owned()
    } else {
        format!("Authentication failed, attempted: {}", methods.join(", "))
    }
}
