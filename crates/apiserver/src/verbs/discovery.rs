//! Discovery, OpenAPI and version: responses that do not depend on stored objects.

use api::discovery::{self, AGGREGATED_CONTENT_TYPE};
use api::openapi::{self, v2};
use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use store::Revision;

use crate::access::authentication::service_accounts::ServiceAccounts;
use crate::failure::Failure;
use crate::request::negotiation::{Accept, Encoding, accepts_aggregated_discovery, accepts_plain_json};
use crate::request::query::Query;
use crate::transport::response::{self, ApiResponse};
use crate::verbs::printing;
use crate::version::GIT_VERSION;

/// Media types of the OpenAPI v2 document in protobuf; the second one is that of clients before 1.27.
const OPENAPI_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const OPENAPI_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Returns the response to `/version`.
///
/// # Errors
/// 406 if the client does not accept JSON.
pub(crate) fn version(headers: &HeaderMap) -> Result<ApiResponse, Failure> {
    if !accepts_plain_json(headers) {
        return Err(Failure::json_only());
    }
    let version = json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    });
    Ok(response::tree(StatusCode::OK, &version))
}

/// Returns the response to `/openid/v1/jwks`: the public keys of ServiceAccount tokens.
pub(crate) fn token_keys(accounts: &ServiceAccounts) -> ApiResponse {
    let keys = Bytes::from(accounts.key_set().to_string());
    response::document("application/jwk-set+json", keys)
}

/// Returns the response to `/.well-known/openid-configuration`.
pub(crate) fn token_issuer(accounts: &ServiceAccounts, host: &str) -> ApiResponse {
    response::tree(StatusCode::OK, &accounts.discovery(host))
}

/// Returns the list of CustomResourceDefinitions at a revision. The list is empty, because all kinds are built in.
/// Clients read it before they report that a kind is unknown.
pub(crate) fn custom_resource_definitions(revision: Revision) -> ApiResponse {
    let list = json!({
        "kind": "CustomResourceDefinitionList",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": { "resourceVersion": revision.to_string() },
        "items": [],
    });
    response::tree(StatusCode::OK, &list)
}

/// Returns the encoding of a discovery document.
///
/// # Errors
/// 406 if the client accepts none of the forms.
pub(crate) fn encoding(accept: &Accept, headers: &HeaderMap) -> Result<Encoding, Failure> {
    if accepts_aggregated_discovery(headers) {
        return Ok(Encoding::Json);
    }
    accept.document_encoding()
}

/// Returns the discovery or OpenAPI document at a path. `host` is the server's host from the request. `encoding` is that
/// of discovery documents: other documents are JSON.
pub(crate) fn document(
    path: &str,
    query: &Query,
    host: &str,
    headers: &HeaderMap,
    encoding: Encoding,
) -> Result<ApiResponse, Failure> {
    let hash = query.text("hash");
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let found = |document: Option<Value>| {
        let tree = document.ok_or_else(Failure::no_such_path)?;
        discovery_document(&tree, encoding)
    };
    match segments.as_slice() {
        [] => Ok(response::tree(StatusCode::OK, &paths())),
        ["api"] if accepts_aggregated_discovery(headers) => {
            Ok(aggregated_response(&discovery::aggregated_core()))
        }
        ["api"] => found(Some(discovery::api_versions(host))),
        ["apis"] if accepts_aggregated_discovery(headers) => {
            Ok(aggregated_response(&discovery::aggregated_groups()))
        }
        ["apis"] => found(Some(discovery::group_list())),
        ["api", version] => found(discovery::resource_list("", version)),
        ["apis", group] => found(discovery::api_group(group)),
        ["apis", group, version] => found(discovery::resource_list(group, version)),
        ["openapi", "v2"] => openapi_v2(headers),
        ["openapi", "v3"] => Ok(response::tree(StatusCode::OK, openapi::index())),
        ["openapi", "v3", "api", version] => openapi_document("", version, hash, headers),
        ["openapi", "v3", "apis", group, version] => openapi_document(group, version, hash, headers),
        _ => Err(Failure::no_such_path()),
    }
}

/// Returns a discovery document. Clients that prefer protobuf receive JSON.
fn discovery_document(tree: &Value, encoding: Encoding) -> Result<ApiResponse, Failure> {
    match encoding {
        Encoding::Yaml => {
            let text = printing::encode(tree, "", encoding)?;
            Ok(response::object(StatusCode::OK, text, encoding))
        }
        _ => Ok(response::tree(StatusCode::OK, tree)),
    }
}

/// Returns the OpenAPI document of a version. As upstream, the hash in the query leads to the current document, which a
/// client may keep for a year (`kube-openapi/pkg/handler3`).
fn openapi_document(
    group: &str,
    version: &str,
    requested: &str,
    headers: &HeaderMap,
) -> Result<ApiResponse, Failure> {
    let pieces = openapi::document(group, version).ok_or_else(Failure::no_such_path)?;
    let hash = openapi::hash(&pieces);
    if !requested.is_empty() && requested != hash {
        let location = match group {
            "" => format!("/openapi/v3/api/{version}?hash={hash}"),
            group => format!("/openapi/v3/apis/{group}/{version}?hash={hash}"),
        };
        return Ok(with_entity_tag(&hash, headers, || response::redirect(&location)));
    }
    let mut response = with_entity_tag(&hash, headers, || {
        let pieces = pieces
            .into_iter()
            .map(|piece| match piece {
                std::borrow::Cow::Borrowed(text) => Bytes::from_static(text.as_bytes()),
                std::borrow::Cow::Owned(text) => Bytes::from(text),
            })
            .collect();
        response::pieces(pieces, Encoding::Json)
    });
    if !requested.is_empty() {
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        if let Some(expires) = time_in_a_year() {
            headers.insert(EXPIRES, expires);
        }
    }
    Ok(response)
}

/// Returns the time in a year as a header.
fn time_in_a_year() -> Option<HeaderValue> {
    let year = SignedDuration::from_hours(24 * 365);
    let time = Timestamp::now().checked_add(year).ok()?;
    HeaderValue::from_str(&time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()).ok()
}

fn openapi_v2(headers: &HeaderMap) -> Result<ApiResponse, Failure> {
    let mut clauses = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .map(|clause| clause.split(';').next().unwrap_or_default().trim())
        .peekable();
    let is_anything = clauses.peek().is_none();
    let (content_type, document) = clauses
        .find_map(|media_type| match media_type {
            OPENAPI_PROTOBUF | OPENAPI_PROTOBUF_OLD => Some((OPENAPI_PROTOBUF, v2::protobuf())),
            "application/json" | "application/*" | "*/*" => Some(("application/json", v2::json())),
            _ => None,
        })
        .or_else(|| is_anything.then(|| ("application/json", v2::json())))
        .ok_or_else(Failure::not_acceptable)?;
    Ok(with_entity_tag(&document.hash, headers, || {
        response::document(content_type, Bytes::from_static(&document.bytes))
    }))
}

/// Returns a document with its hash as the entity tag, or 304 if the client has the document.
fn with_entity_tag(hash: &str, headers: &HeaderMap, document: impl FnOnce() -> ApiResponse) -> ApiResponse {
    let tag = format!("\"{hash}\"");
    let client_tags = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_current = client_tags.is_some_and(|tags| {
        tags.split(',')
            .any(|client_tag| client_tag.trim().trim_start_matches("W/") == tag)
    });
    let mut response = if is_current {
        response::not_modified()
    } else {
        document()
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
        .headers_mut()
        .append(VARY, HeaderValue::from_static("Accept"));
    response
}

fn aggregated_response(tree: &Value) -> ApiResponse {
    response::document(AGGREGATED_CONTENT_TYPE, Bytes::from(tree.to_string()))
}

/// Returns the paths that `/` lists.
fn paths() -> Value {
    let mut paths: Vec<String> = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in discovery::groups() {
        paths.push(format!("/apis/{group}"));
        paths.extend(
            versions
                .into_iter()
                .map(|version| format!("/apis/{group}/{version}")),
        );
    }
    for path in [
        "/.well-known/openid-configuration",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/readyz",
        "/version",
    ] {
        paths.push(path.to_owned());
    }
    json!({ "paths": paths })
}

/// Returns Go's name of the CPU architecture, as clients expect it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
