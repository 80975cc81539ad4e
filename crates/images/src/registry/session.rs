//! Requests to one host for one repository: redirects, authentication, bounded responses.

use std::sync::Mutex;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, LOCATION, RANGE, WWW_AUTHENTICATE};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response, StatusCode, Url};
use serde::Deserialize;

use super::authentication::authorize;
use super::challenge::Challenge;
use super::credentials::RegistryCredential;
use super::error::PullError;
use super::hosts::{Host, authority};
use super::response::bounded_body;
use crate::manifest::{ACCEPTED_MEDIA_TYPES, Descriptor};
use crate::reference::Reference;
use crate::text::printable;

/// Maximum number of redirects of one request. Registries redirect once, to a store of objects.
const REDIRECTS_MAX: usize = 5;
/// Maximum number of bytes of the body of an error that are read.
const ERROR_BYTES_MAX: u64 = 16 << 10;
/// Maximum number of attempts for a request that fails for a passing reason.
const ATTEMPTS_MAX: u32 = 3;
/// Delay before the second attempt. It doubles with each attempt.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Session with one host.
pub(super) struct Session {
    pub(super) host: Host,
    client: Client,
    repository: String,
    credentials: Vec<RegistryCredential>,
    authorization: Mutex<Option<HeaderValue>>,
    stall_timeout: Duration,
}

/// Body of an error (OCI distribution specification, "Error Codes").
#[derive(Deserialize)]
struct ErrorBody {
    errors: Vec<ErrorEntry>,
}

/// An error in the body of a response.
#[derive(Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Session {
    pub(super) fn new(
        host: Host,
        reference: &Reference,
        credentials: Vec<RegistryCredential>,
        stall_timeout: Duration,
    ) -> Result<Self, PullError> {
        let mut builder = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(stall_timeout)
            .read_timeout(stall_timeout)
            .user_agent(concat!("portolan/", env!("CARGO_PKG_VERSION")))
            .danger_accept_invalid_certs(host.skip_verify);
        for authority in &host.authorities {
            let certificates = Certificate::from_pem_bundle(authority);
            let failed = |error| PullError::of_request(&host.authority, error, stall_timeout);
            for certificate in certificates.map_err(failed)? {
                builder = builder.add_root_certificate(certificate);
            }
        }
        let client = builder.build();
        Ok(Self {
            client: client.map_err(|error| PullError::of_request(&host.authority, error, stall_timeout))?,
            repository: reference.repository().to_owned(),
            credentials,
            authorization: Mutex::new(None),
            stall_timeout,
            host,
        })
    }

    /// Returns the manifest with a tag or digest, of at most `bytes_max`.
    pub(super) async fn manifest(
        &self,
        selector: &str,
        bytes_max: u64,
    ) -> Result<(Vec<u8>, HeaderMap), PullError> {
        let path = format!("manifests/{selector}");
        let response = self
            .get_with_retries(&path, Some(&ACCEPTED_MEDIA_TYPES.join(", ")))
            .await?;
        let headers = response.headers().clone();
        Ok((self.body(response, bytes_max).await?, headers))
    }

    /// Returns the content with a digest, of at most `bytes_max`.
    pub(super) async fn blob(&self, digest: &str, bytes_max: u64) -> Result<Vec<u8>, PullError> {
        let response = self.get_with_retries(&format!("blobs/{digest}"), None).await?;
        self.body(response, bytes_max).await
    }

    /// Starts to download content with a digest from a position.
    pub(super) async fn blob_from(&self, digest: &str, position: u64) -> Result<Response, PullError> {
        self.get(&format!("blobs/{digest}"), None, position).await
    }

    /// Returns true if the host gives the content of a layer. Requests its last byte.
    pub(super) async fn has_blob(&self, layer: &Descriptor) -> bool {
        let last = layer.size.saturating_sub(1);
        self.blob_from(&layer.digest.to_string(), last).await.is_ok()
    }

    /// Returns true if the session has credentials for the repository.
    pub(super) fn has_credentials(&self) -> bool {
        !self.credentials.is_empty()
    }

    /// Returns the error of a response whose body broke.
    pub(super) fn broken(&self, error: reqwest::Error) -> PullError {
        PullError::of_request(&self.host.authority, error, self.stall_timeout)
    }

    async fn get_with_retries(&self, path: &str, accept: Option<&str>) -> Result<Response, PullError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.get(path, accept, 0).await {
                Err(error) if error.is_transient() && attempt < ATTEMPTS_MAX => {
                    tokio::time::sleep(RETRY_DELAY * 2_u32.pow(attempt - 1)).await;
                }
                result => return result,
            }
        }
    }

    /// Sends a request, and authenticates if the registry requires it.
    async fn get(&self, path: &str, accept: Option<&str>, position: u64) -> Result<Response, PullError> {
        let mut url = self.host.base.clone();
        url.set_path(&format!(
            "{}/{}/{path}",
            url.path().trim_end_matches('/'),
            self.repository
        ));
        if let Some(registry) = &self.host.mirrored {
            url.query_pairs_mut().append_pair("ns", registry);
        }
        let authorization = self
            .authorization
            .lock()
            .map(|held| held.clone())
            .unwrap_or_default();
        let response = self
            .follow(&url, accept, position, authorization.as_ref())
            .await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return self.check(response, path).await;
        }
        // The target of a redirect could name a token server of its own, which would receive the credentials.
        let is_of_host = response.url().origin() == self.host.base.origin();
        let Some(challenge) = challenge(&response).filter(|_| is_of_host) else {
            return self.check(response, path).await;
        };
        let mut refusal = Ok(response);
        // Without credentials, a registry gives tokens for public repositories.
        let anonymous = self.credentials.is_empty().then_some(None);
        for credential in self.credentials.iter().map(Some).chain(anonymous) {
            let authorized = authorize(
                &self.client,
                &self.host,
                &self.repository,
                &challenge,
                credential,
                self.stall_timeout,
            );
            let authorization = match authorized.await {
                Ok(Some(authorization)) => authorization,
                Ok(None) => continue,
                Err(error) => {
                    refusal = Err(error);
                    continue;
                }
            };
            let response = self.follow(&url, accept, position, Some(&authorization)).await?;
            if !matches!(
                response.status(),
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
            ) {
                if let Ok(mut held) = self.authorization.lock() {
                    *held = Some(authorization);
                }
                return self.check(response, path).await;
            }
            refusal = Ok(response);
        }
        self.check(refusal?, path).await
    }

    /// Sends a request and follows redirects. Only the host itself gets the authorization and the configured headers.
    async fn follow(
        &self,
        url: &Url,
        accept: Option<&str>,
        position: u64,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response, PullError> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let mut request = self.client.get(url.clone());
            if let Some(accept) = accept {
                request = request.header(ACCEPT, accept);
            }
            if position > 0 {
                request = request.header(RANGE, format!("bytes={position}-"));
            }
            if url.origin() == self.host.base.origin() {
                request = request.headers(self.host.headers.clone());
                if let Some(authorization) = authorization {
                    request = request.header(AUTHORIZATION, authorization.clone());
                }
            }
            let response = request.send().await.map_err(|error| self.broken(error))?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location = response
                .headers()
                .get(LOCATION)
                .and_then(|location| location.to_str().ok());
            let target = location.and_then(|location| url.join(location).ok());
            let target =
                target.ok_or_else(|| PullError::protocol(&self.host.authority, "redirect without URL"))?;
            // A registry on a loopback address must not lead to services without TLS in the networks of this host.
            let is_safe = target.scheme() == "https" || target.origin() == url.origin();
            if !is_safe {
                let reason = format!("redirect to {}, which has no TLS", authority(&target));
                return Err(PullError::protocol(&self.host.authority, reason));
            }
            url = target;
        }
        let reason = format!("more than {REDIRECTS_MAX} redirects");
        Err(PullError::protocol(&self.host.authority, reason))
    }

    /// Returns a successful response, or the error with the message of the registry.
    async fn check(&self, response: Response, path: &str) -> Result<Response, PullError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let host = self.host.authority.clone();
        // The response of another host is not shown: a redirect may lead into a private network.
        let message = if response.url().origin() == self.host.base.origin() {
            let body = self.body(response, ERROR_BYTES_MAX).await.unwrap_or_default();
            message(&body, status)
        } else {
            let target = authority(response.url());
            format!("{} after a redirect to {target}", message(b"", status))
        };
        Err(match status {
            StatusCode::NOT_FOUND => PullError::NotFound {
                host,
                subject: printable(path),
                message,
            },
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => PullError::Denied {
                host,
                status: status.as_u16(),
                message,
            },
            _ => PullError::Status {
                host,
                status: status.as_u16(),
                message,
            },
        })
    }

    /// Reads a body of at most `bytes_max`.
    async fn body(&self, response: Response, bytes_max: u64) -> Result<Vec<u8>, PullError> {
        bounded_body(response, bytes_max, &self.host.authority, self.stall_timeout).await
    }
}

/// Returns the challenge of a response. Tokens are preferred to passwords.
fn challenge(response: &Response) -> Option<Challenge> {
    let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
    let mut challenges: Vec<Challenge> = headers
        .filter_map(|header| Challenge::parse(header.to_str().ok()?))
        .collect();
    challenges.sort_by_key(|challenge| *challenge == Challenge::Basic);
    challenges.into_iter().next()
}

fn message(body: &[u8], status: StatusCode) -> String {
    let parsed = serde_json::from_slice::<ErrorBody>(body).ok();
    match parsed.and_then(|body| body.errors.into_iter().next()) {
        Some(error) if !error.message.is_empty() => printable(&error.message),
        Some(error) if !error.code.is_empty() => printable(&error.code),
        _ => status.canonical_reason().unwrap_or("error").to_owned(),
    }
}
