//! Authorization for a repository: basic, or a token of the server that the registry names (distribution project, "Token
//! Authentication Specification").

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Url};
use serde::Deserialize;

use super::challenge::Challenge;
use super::credentials::RegistryCredential;
use super::error::PullError;
use super::hosts::{Host, authority};
use super::response::bounded_body;
use crate::text::printable;

/// Maximum number of bytes of the response of a token server.
const TOKEN_BYTES_MAX: u64 = 1 << 20;
/// Name of this client for token servers.
const CLIENT_ID: &str = "portolan";

/// Response of a token server.
#[derive(Deserialize)]
struct TokenResponse {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

/// Returns the value of the header `Authorization`, or `None` if the challenge needs credentials.
pub(super) async fn authorize(
    client: &Client,
    host: &Host,
    repository: &str,
    challenge: &Challenge,
    credential: Option<&RegistryCredential>,
    stall_timeout: Duration,
) -> Result<Option<HeaderValue>, PullError> {
    match (challenge, credential) {
        (Challenge::Basic, None) => Ok(None),
        (Challenge::Basic, Some(credential)) => basic_authorization(host, credential).map(Some),
        (Challenge::Bearer { realm, service }, credential) => {
            let service = service.as_deref();
            let token = token(
                client,
                host,
                repository,
                realm,
                service,
                credential,
                stall_timeout,
            );
            let token = token.await?;
            sensitive_header(host, &format!("Bearer {token}")).map(Some)
        }
    }
}

/// Requests a token for the repository from the token server at `realm`.
async fn token(
    client: &Client,
    host: &Host,
    repository: &str,
    realm: &str,
    service: Option<&str>,
    credential: Option<&RegistryCredential>,
    stall_timeout: Duration,
) -> Result<String, PullError> {
    let invalid = |reason: String| PullError::protocol(&host.authority, reason);
    let mut url = Url::parse(realm).map_err(|_| invalid(format!("invalid realm {:?}", printable(realm))))?;
    // A registry without TLS may be its own token server. Other servers without TLS could be any service of this host.
    if url.scheme() != "https" && url.origin() != host.base.origin() {
        return Err(invalid(format!(
            "the token server {} has no TLS",
            authority(&url)
        )));
    }
    // The scope of the challenge is not used: it could request more than the pull needs.
    let scope = format!("repository:{repository}:pull");
    let mut pairs = vec![("scope", scope.as_str())];
    pairs.extend(service.map(|service| ("service", service)));
    let request = match credential {
        Some(credential) if credential.is_token() => {
            pairs.push(("grant_type", "refresh_token"));
            pairs.push(("client_id", CLIENT_ID));
            pairs.push(("refresh_token", &credential.password));
            let mut form = Url::parse("form:///").map_err(|error| invalid(error.to_string()))?;
            form.query_pairs_mut().extend_pairs(&pairs);
            let body = form.query().unwrap_or_default().to_owned();
            client
                .post(url.clone())
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(body)
        }
        credential => {
            url.query_pairs_mut().extend_pairs(&pairs);
            let request = client.get(url.clone());
            match credential {
                Some(credential) => request.header(AUTHORIZATION, basic_authorization(host, credential)?),
                None => request,
            }
        }
    };
    let server = authority(&url);
    let failed = |error| PullError::of_request(&server, error, stall_timeout);
    let response = request.send().await.map_err(failed)?;
    let status = response.status();
    if !status.is_success() {
        return Err(PullError::Denied {
            host: server,
            status: status.as_u16(),
            message: format!("no token for {repository}"),
        });
    }
    let body = bounded_body(response, TOKEN_BYTES_MAX, &server, stall_timeout).await?;
    let parsed: Option<TokenResponse> = serde_json::from_slice(&body).ok();
    let token = parsed.and_then(|parsed| parsed.token.or(parsed.access_token));
    token.ok_or_else(|| PullError::protocol(&server, "response of the token server without token"))
}

fn basic_authorization(host: &Host, credential: &RegistryCredential) -> Result<HeaderValue, PullError> {
    let pair = STANDARD.encode(format!("{}:{}", credential.username, credential.password));
    sensitive_header(host, &format!("Basic {pair}"))
}

fn sensitive_header(host: &Host, text: &str) -> Result<HeaderValue, PullError> {
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| PullError::protocol(&host.authority, "token with invalid characters"))?;
    value.set_sensitive(true);
    Ok(value)
}
