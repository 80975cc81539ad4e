//! Responses: a status code, headers and a [`Body`].

pub(crate) mod body;
mod memory;
mod warnings;

use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use http::{Response, StatusCode};
use hyper::body::Incoming;
use serde_json::Value;

use crate::failure::Failure;
use crate::request::negotiation::Encoding;
use crate::transport::html::{self, HtmlBody, Links};
use crate::transport::long_running::RequestLifetime;
use crate::verbs::printing::{self, STATUS_DEFINITION};
pub(crate) use body::{Body, FRAME_BYTES};
pub(crate) use memory::{ResponseMemory, ResponsePermit};
pub(crate) use warnings::{with_deprecation, with_warnings};

/// Responses depend on the user and change at any time.
const NO_STORE: (HeaderName, HeaderValue) = (CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Response of the server.
pub(crate) type ApiResponse = Response<Body>;

/// `Status` of a failure, an extension of its response. The audit log records it in JSON, independent of the encoding
/// of the response.
#[derive(Clone)]
pub(crate) struct StatusTree(pub(crate) Value);

/// Returns a response with encoded bytes.
pub(crate) fn object(code: StatusCode, bytes: Bytes, encoding: Encoding) -> ApiResponse {
    let content_type = HeaderValue::from_static(encoding.content_type());
    new(code, content_type, Body::Whole(Some(bytes)))
}

/// Reserves the memory of a response until its client has received it. Without memory, the response is a failure.
/// Long-running responses return the permit.
pub(crate) fn reserve_memory(
    response: ApiResponse,
    permit: Option<ResponsePermit>,
    is_compressed: bool,
    encoding: Encoding,
) -> (ApiResponse, Option<ResponsePermit>) {
    let Some(mut permit) = permit.filter(|_| !response.body().is_long_running()) else {
        return (response, None);
    };
    match permit.reserve(response.body().held_bytes(), is_compressed) {
        Ok(()) => (response, Some(permit)),
        Err(refusal) => (failure(&refusal, encoding), Some(permit)),
    }
}

/// Returns the response to HEAD: the headers of `response`. HTTP/2 forbids a body (RFC 9110 section 9.3.2).
pub(crate) fn without_body(response: ApiResponse) -> ApiResponse {
    response.map(|_| Body::Whole(None))
}

/// Returns a JSON response.
pub(crate) fn tree(code: StatusCode, tree: &Value) -> ApiResponse {
    object(code, Bytes::from(tree.to_string()), Encoding::Json)
}

/// Returns a response with encoded pieces.
pub(crate) fn pieces(pieces: Vec<Bytes>, encoding: Encoding) -> ApiResponse {
    let content_type = HeaderValue::from_static(encoding.content_type());
    new(StatusCode::OK, content_type, Body::pieces(pieces))
}

/// Returns a response with the events of a watch.
pub(crate) fn stream(stream: Pin<Box<dyn Stream<Item = Bytes> + Send>>, encoding: Encoding) -> ApiResponse {
    let content_type = HeaderValue::from_static(encoding.stream_content_type());
    let body = Body::Stream {
        stream,
        lifetime: None,
    };
    new(StatusCode::OK, content_type, body)
}

/// Returns a document of any media type in pieces.
pub(crate) fn document_stream(
    content_type: &'static str,
    stream: Pin<Box<dyn Stream<Item = Bytes> + Send>>,
) -> ApiResponse {
    let body = Body::Stream {
        stream,
        lifetime: None,
    };
    new(StatusCode::OK, HeaderValue::from_static(content_type), body)
}

/// Returns the response of a Pod or node agent, forwarded as it arrives.
pub(crate) fn proxied(response: Response<Incoming>) -> ApiResponse {
    response.map(|body| Body::Proxied { body, lifetime: None })
}

/// Returns the response of a Pod with rewritten links, if it is a page; otherwise forwarded as it arrives.
pub(crate) fn proxied_page(response: Response<Incoming>, links: &Links) -> ApiResponse {
    if !html::is_rewritable(response.status(), response.headers()) {
        return proxied(response);
    }
    let (mut parts, body) = response.into_parts();
    let page = HtmlBody::new(body, &parts.headers, links.clone());
    parts.headers.remove(CONTENT_LENGTH);
    let body = Body::Html {
        page: Box::new(page),
        lifetime: None,
    };
    Response::from_parts(parts, body)
}

/// Ends a long-running response together with the lifetime of its request.
pub(crate) fn with_lifetime(mut response: ApiResponse, request: RequestLifetime) -> ApiResponse {
    if let Body::Proxied { lifetime, .. } | Body::Html { lifetime, .. } | Body::Stream { lifetime, .. } =
        response.body_mut()
    {
        *lifetime = Some(request);
    }
    response
}

/// Returns a permanent redirect to a location.
pub(crate) fn redirect(location: &str) -> ApiResponse {
    let mut response = text(StatusCode::MOVED_PERMANENTLY, Bytes::new());
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// Returns the response 304 for a client that has the current document.
pub(crate) fn not_modified() -> ApiResponse {
    text(StatusCode::NOT_MODIFIED, Bytes::new())
}

/// Returns a response with plain text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> ApiResponse {
    new(code, PLAIN, Body::Whole(Some(text.into())))
}

/// Returns a document of any media type.
pub(crate) fn document(content_type: &'static str, bytes: Bytes) -> ApiResponse {
    let content_type = HeaderValue::from_static(content_type);
    new(StatusCode::OK, content_type, Body::Whole(Some(bytes)))
}

/// Returns the failure as a `Status`.
pub(crate) fn failure(failure: &Failure, encoding: Encoding) -> ApiResponse {
    let status = failure.status();
    let mut response = match printing::encode(&status, STATUS_DEFINITION, encoding) {
        Ok(bytes) => object(failure.code(), bytes, encoding),
        Err(_) => tree(failure.code(), &status),
    };
    if matches!(
        failure.code(),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
    ) {
        let one_second = HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, one_second);
    }
    response.extensions_mut().insert(StatusTree(status));
    with_warnings(response, failure.warnings())
}

fn new(code: StatusCode, content_type: HeaderValue, body: Body) -> ApiResponse {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().reserve(2);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response.headers_mut().insert(NO_STORE.0, NO_STORE.1);
    response
}
