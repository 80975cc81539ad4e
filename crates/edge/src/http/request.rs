//! What a request of either version of HTTP must be like to be passed on, once it has been decoded. For HTTP/1,
//! [`super::head`] has looked at its bytes before; most of this is for HTTP/2.

use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderValue, Method, Version};

use super::head::{FIELDS_MAX, TARGET_BYTES_MAX, is_authority, is_framing_in_disguise};
use super::refusal::Refusal;

#[cfg(test)]
mod tests;

/// Checks a request and says for what host it is, if it says so: only HTTP/1.0 may leave it out.
pub fn check(parts: &Parts) -> Result<Option<HeaderValue>, Refusal> {
    if parts.method == Method::CONNECT {
        return Err(Refusal::Method("CONNECT"));
    }
    if parts.headers.len() > FIELDS_MAX {
        return Err(Refusal::HeadTooLarge);
    }
    path(parts)?;
    for (name, value) in &parts.headers {
        if is_framing_in_disguise(name.as_str().as_bytes()) {
            return Err(Refusal::Malformed(
                "a field's name is one that backends take for another",
            ));
        }
        let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        // RFC 9113, 8.2.1: backends would not see what was at the ends.
        if is_blank(value.as_bytes().first()) || is_blank(value.as_bytes().last()) {
            return Err(Refusal::Malformed("a field's value begins or ends with a space"));
        }
    }
    if parts.headers.get_all(CONTENT_LENGTH).iter().count() > 1 {
        return Err(Refusal::Malformed("Content-Length is there twice"));
    }
    host(parts)
}

fn path(parts: &Parts) -> Result<(), Refusal> {
    let Some(target) = parts.uri.path_and_query() else {
        return Ok(());
    };
    let bytes = target.as_str().as_bytes();
    if bytes.len() > TARGET_BYTES_MAX {
        return Err(Refusal::TargetTooLong);
    }
    if !bytes.iter().all(u8::is_ascii_graphic) {
        return Err(Refusal::Malformed("the target has bytes that no URI has"));
    }
    // An absolute URI may have no path: then it is the root's.
    let is_path = bytes.starts_with(b"/") || (parts.uri.authority().is_some() && bytes.starts_with(b"?"));
    if is_path || (bytes == b"*" && parts.method == Method::OPTIONS) {
        return Ok(());
    }
    Err(Refusal::Malformed("the target is neither a path nor a URI"))
}

/// The host: of the target if that has one, and Host if there is one must say the same (RFC 9112, 3.2.2; RFC 9113, 8.3.1).
fn host(parts: &Parts) -> Result<Option<HeaderValue>, Refusal> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(Refusal::Malformed("Host is there twice"));
    }
    if host.is_some_and(|host| !is_authority(host.as_bytes())) {
        return Err(Refusal::Malformed("Host is no name of a host"));
    }
    match (parts.uri.authority(), host) {
        (Some(authority), host) => {
            let authority = authority.as_str();
            if !is_authority(authority.as_bytes()) {
                return Err(Refusal::Malformed("the target names no host"));
            }
            if host.is_some_and(|host| !host.as_bytes().eq_ignore_ascii_case(authority.as_bytes())) {
                return Err(Refusal::Malformed("Host differs from the target's host"));
            }
            let value = HeaderValue::from_str(authority);
            value
                .map(Some)
                .map_err(|_| Refusal::Malformed("the target names no host"))
        }
        (None, Some(host)) => Ok(Some(host.clone())),
        (None, None) if parts.version == Version::HTTP_10 => Ok(None),
        (None, None) => Err(Refusal::Malformed("Host is missing")),
    }
}
