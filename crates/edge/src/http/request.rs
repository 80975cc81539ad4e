//! Checks for decoded requests of all versions of HTTP. For HTTP/1, [`super::head`] has checked the bytes before, so
//! most of these checks concern HTTP/2.

use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderValue, Method, Version};

use super::head::{FIELDS_MAX, TARGET_BYTES_MAX, is_authority, is_framing_alias};
use super::rejection::RequestRejection;

#[cfg(test)]
mod tests;

/// Checks a request. Returns its host, which only HTTP/1.0 may leave out.
///
/// # Errors
/// The rejection of the request.
pub fn check(parts: &Parts) -> Result<Option<HeaderValue>, RequestRejection> {
    if parts.method == Method::CONNECT {
        return Err(RequestRejection::Method("CONNECT"));
    }
    if parts.headers.len() > FIELDS_MAX {
        return Err(RequestRejection::HeadTooLarge);
    }
    path(parts)?;
    for (name, value) in &parts.headers {
        if is_framing_alias(name.as_str().as_bytes()) {
            return Err(RequestRejection::Malformed(
                "expected an unambiguous field name, found one that backends can read as another",
            ));
        }
        let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        // Backends would not receive spaces at the ends (RFC 9113, section 8.2.1).
        if is_blank(value.as_bytes().first()) || is_blank(value.as_bytes().last()) {
            return Err(RequestRejection::Malformed(
                "expected a field value without spaces at its ends, found one with them",
            ));
        }
    }
    if parts.headers.get_all(CONTENT_LENGTH).iter().count() > 1 {
        return Err(RequestRejection::Malformed(
            "expected one Content-Length, found several",
        ));
    }
    host(parts)
}

fn path(parts: &Parts) -> Result<(), RequestRejection> {
    let Some(target) = parts.uri.path_and_query() else {
        return Ok(());
    };
    let bytes = target.as_str().as_bytes();
    if bytes.len() > TARGET_BYTES_MAX {
        return Err(RequestRejection::TargetTooLong);
    }
    if !bytes.iter().all(u8::is_ascii_graphic) {
        return Err(RequestRejection::Malformed(
            "expected a URI as the target, found bytes that a URI must not contain",
        ));
    }
    // An absolute URI without a path means the root.
    let is_path = bytes.starts_with(b"/") || (parts.uri.authority().is_some() && bytes.starts_with(b"?"));
    if is_path || (bytes == b"*" && parts.method == Method::OPTIONS) {
        return Ok(());
    }
    Err(RequestRejection::Malformed(
        "expected a path or a URI as the target, found another form",
    ))
}

/// Returns the host of the target, or of `Host`. If both are present, they have to be the same (RFC 9112,
/// section 3.2.2; RFC 9113, section 8.3.1).
fn host(parts: &Parts) -> Result<Option<HeaderValue>, RequestRejection> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(RequestRejection::Malformed("expected one Host, found several"));
    }
    if host.is_some_and(|host| !is_authority(host.as_bytes())) {
        return Err(RequestRejection::Malformed(
            "expected a host in Host, found another value",
        ));
    }
    match (parts.uri.authority(), host) {
        (Some(authority), host) => {
            let authority = authority.as_str();
            if !is_authority(authority.as_bytes()) {
                return Err(RequestRejection::Malformed(
                    "expected a host in the target, found none",
                ));
            }
            if host.is_some_and(|host| !host.as_bytes().eq_ignore_ascii_case(authority.as_bytes())) {
                return Err(RequestRejection::Malformed(
                    "expected the host of the target in Host, found another one",
                ));
            }
            let value = HeaderValue::from_str(authority);
            value
                .map(Some)
                .map_err(|_| RequestRejection::Malformed("expected a host in the target, found none"))
        }
        (None, Some(host)) => Ok(Some(host.clone())),
        (None, None) if parts.version == Version::HTTP_10 => Ok(None),
        (None, None) => Err(RequestRejection::Malformed("expected Host, found none")),
    }
}
