//! Rewriting of the headers of forwarded requests and responses.

use std::net::SocketAddr;

use http::header::{
    AUTHORIZATION, CONNECTION, HOST, HeaderName, HeaderValue, LOCATION, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;

use crate::failure::Failure;
use crate::transport::html::Links;

/// Hop-by-hop headers (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// CORS headers, which would apply to the origin of the API server instead of the Pod.
const CORS_HEADERS: [&str; 4] = [
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
];

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

/// Returns true if the request or response upgrades the connection to another protocol.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(UPGRADE) && connection_options(headers).any(|option| option == "upgrade")
}

/// Returns the host and port of the server as the client addressed it.
pub(super) fn host(request: &Request<Incoming>) -> String {
    let header = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    let authority = || request.uri().authority().map(|authority| authority.as_str());
    header.or_else(authority).unwrap_or_default().to_owned()
}

/// Removes credentials and hop-by-hop headers from a request, and adds `X-Forwarded-*` headers.
pub(super) fn prepare_request(
    request: &mut Request<Incoming>,
    path: &str,
    prefix: &str,
) -> Result<(), Failure> {
    let host = host(request);
    let peer = request.extensions().get::<SocketAddr>().copied();
    let upgrade = is_upgrade(request.headers()).then(|| request.headers().get(UPGRADE).cloned());
    let headers = request.headers_mut();
    remove_hop_by_hop(headers);
    headers.remove(AUTHORIZATION);
    if let Some(Some(protocol)) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    }
    headers.insert(HOST, header_value(&host)?);
    headers.insert(FORWARDED_URI, header_value(&format!("{prefix}{path}"))?);
    if let Some(peer) = peer {
        let earlier = headers.get(FORWARDED_FOR).and_then(|value| value.to_str().ok());
        let all = earlier.map_or(peer.ip().to_string(), |earlier| {
            format!("{earlier}, {}", peer.ip())
        });
        headers.insert(FORWARDED_FOR, header_value(&all)?);
    }
    Ok(())
}

/// Removes hop-by-hop and CORS headers from a response, and rewrites redirects to paths of this server.
pub(super) fn clean_response(response: &mut Response<Incoming>, links: &Links) -> Result<(), Failure> {
    let upgrade = is_upgrade(response.headers()).then(|| response.headers().get(UPGRADE).cloned());
    let headers = response.headers_mut();
    remove_hop_by_hop(headers);
    if let Some(Some(protocol)) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol);
    }
    for name in CORS_HEADERS {
        headers.remove(name);
    }
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    if let Some(location) = location {
        let rewritten = header_value(&links.rewritten(location))?;
        headers.insert(LOCATION, rewritten);
    }
    Ok(())
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<String> = connection_options(headers).collect();
    for name in named {
        headers.remove(name.as_str());
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Returns the options of `Connection` in lower case.
fn connection_options(headers: &HeaderMap) -> impl Iterator<Item = String> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .map(|option| option.trim().to_ascii_lowercase())
}

fn header_value(text: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(text)
        .map_err(|_| Failure::bad_request("the host or path of the request is not a valid header value"))
}

#[cfg(test)]
mod tests;
