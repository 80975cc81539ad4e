//! Checks of the origin of a request, against pages of other sites in the browser of the same person.

use std::net::IpAddr;

use http::StatusCode;
use http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use http::uri::Authority;

use super::response::Refusal;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks that the client names this host by a name of the loopback interface. A page of another site that resolves its
/// own name to 127.0.0.1 (DNS rebinding) names itself.
///
/// # Errors
///
/// A [`Refusal`] for other names.
pub(super) fn check_host(headers: &HeaderMap) -> Result<(), Refusal> {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok());
    let authority = host.and_then(|text| text.parse::<Authority>().ok());
    match authority {
        Some(authority) if is_loopback(authority.host()) => Ok(()),
        _ => Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "the Host header must be localhost or a loopback address, such as 127.0.0.1: the chart has no other name",
        )),
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        // Browsers resolve these names to the loopback interface themselves (RFC 6761, section 6.3).
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// Checks that no other page sends the request. Pages of other ports of this host count as others.
///
/// # Errors
///
/// A [`Refusal`] if the browser names another page.
pub(super) fn check_site(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("invalid"));
    let is_own_site = matches!(text(FETCH_SITE), None | Some("same-origin" | "none"));
    let host = text(HOST).unwrap_or_default();
    let is_own_origin = match text(ORIGIN) {
        None => true,
        Some(origin) => {
            let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
            authority.eq_ignore_ascii_case(host)
        }
    };
    if is_own_site && is_own_origin {
        return Ok(());
    }
    let message = "the request comes from another page; only the chart's own page may send it";
    Err(Refusal::new(StatusCode::FORBIDDEN, message))
}

#[cfg(test)]
mod tests;
