//! Decisions about logins: a one-time secret of the person who runs the command, or a bearer token of the API.

use std::sync::{Mutex, PoisonError};

use client::{Client, ClientError, Config, JSON};
use explain::Kind;
use http::{Method, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use super::response::Refusal;
use super::secrets::{Digest, NoRandomNumbers, new_secret};
use crate::feed::KINDS_OF_COMPONENT;

/// Maximum number of bytes of a bearer token. ServiceAccount tokens have about 1 kB.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Way in which a user logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Authentication {
    /// Bearer token of the API.
    Token,
    /// Secret of the command, which works with the rights of its own kubeconfig.
    Local,
}

/// User of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct User {
    /// Name.
    pub user: String,
    /// Way of the login.
    pub authentication: Authentication,
}

/// Function that shows a new secret to the person who runs the command.
pub type Announce = Box<dyn Fn(&str) + Send + Sync>;

/// Decisions about logins.
pub enum Access {
    /// One-time secrets. A reader of the terminal of the command may log in.
    Secret {
        /// User name of the kubeconfig.
        user: String,
        /// Digest of the valid secret.
        valid: Mutex<Digest>,
        /// Shows the next secret.
        announce: Announce,
    },
    /// Bearer tokens, with which the API server is queried for the rights of the user.
    Token {
        /// Address and CA of the API server, without credentials.
        server: Box<Config>,
    },
}

impl Access {
    /// Returns access by one-time secrets, and shows the first one.
    ///
    /// # Errors
    ///
    /// [`NoRandomNumbers`] if the kernel provides none.
    pub fn by_secret(user: &str, announce: Announce) -> Result<Self, NoRandomNumbers> {
        let secret = new_secret()?;
        announce(&secret);
        Ok(Self::Secret {
            user: user.to_owned(),
            valid: Mutex::new(Digest::of(&secret)),
            announce,
        })
    }

    /// Returns access by bearer tokens of the API at a server. Credentials in `server` are not used.
    pub fn by_token(server: &Config) -> Self {
        Self::Token {
            server: Box::new(Config {
                server: server.server.clone(),
                further_servers: server.further_servers.clone(),
                certificate_authority: server.certificate_authority.clone(),
                insecure_skip_tls_verify: server.insecure_skip_tls_verify,
                tls_server_name: server.tls_server_name.clone(),
                ..Config::default()
            }),
        }
    }

    /// Decides about a login.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if the secret or token is invalid, the user lacks a right, or the API server does not respond.
    pub async fn log_in(&self, token: &str) -> Result<User, Refusal> {
        match self {
            Self::Secret {
                user,
                valid,
                announce,
            } => {
                let next = new_secret()
                    .map_err(|error| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
                {
                    let mut valid = valid.lock().unwrap_or_else(PoisonError::into_inner);
                    if *valid != Digest::of(token) {
                        let message =
                            "the secret is invalid or was used: open the URL that the command printed last";
                        return Err(Refusal::new(StatusCode::UNAUTHORIZED, message));
                    }
                    *valid = Digest::of(&next);
                }
                announce(&next);
                Ok(User {
                    user: user.clone(),
                    authentication: Authentication::Local,
                })
            }
            Self::Token { server } => review(server, token).await,
        }
    }

    /// Decides again about the user of a session. Sessions of one-time secrets stay valid.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] as for [`Access::log_in`].
    pub async fn check_again(&self, token: &str) -> Result<(), Refusal> {
        match self {
            Self::Secret { .. } => Ok(()),
            Self::Token { server } => review(server, token).await.map(drop),
        }
    }

    /// Returns true if sessions keep the token of their login, to check it again.
    pub fn keeps_tokens(&self) -> bool {
        matches!(self, Self::Token { .. })
    }
}

/// Requests the user of a token from the API, and reviews of the rights of this user to everything that the map shows.
async fn review(server: &Config, token: &str) -> Result<User, Refusal> {
    let is_token = |byte: u8| byte.is_ascii_graphic();
    if token.is_empty() || token.len() > TOKEN_BYTES_MAX || !token.bytes().all(is_token) {
        let message = "expected a bearer token of the API, such as that of kubectl create token";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
    }
    let config = Config {
        token: Some(token.to_owned()),
        ..server.clone()
    };
    let client = Client::new(config)
        .map_err(|error| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?
        .named("portolan-chart-login");
    let user = user_name(&client).await.map_err(|error| refusal(&error))?;
    let mut missing = Vec::new();
    for kind in KINDS_OF_COMPONENT {
        if !may_list(&client, kind).await.map_err(|error| refusal(&error))? {
            missing.push(format!("list {}", kind.name()));
        }
    }
    // The traffic shows the addresses of clients.
    let flows = json!({"verb": "get", "group": "", "resource": "nodes", "subresource": "flows"});
    if !is_allowed(&client, flows)
        .await
        .map_err(|error| refusal(&error))?
    {
        missing.push("get nodes/flows".to_owned());
    }
    if missing.is_empty() {
        return Ok(User {
            user,
            authentication: Authentication::Token,
        });
    }
    let message = format!(
        "missing rights in all namespaces: {}; the ClusterRole system:portolan-chart has them",
        missing.join(", ")
    );
    Err(Refusal::new(StatusCode::FORBIDDEN, message))
}

/// Returns the name of the client's user.
///
/// # Errors
///
/// The error of the request.
pub async fn user_name(client: &Client) -> Result<String, ClientError> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let response = client.request(Method::POST, path, JSON, Some(&review)).await?;
    let name = response["status"]["userInfo"]["username"].as_str();
    Ok(name.unwrap_or_default().to_owned())
}

async fn may_list(client: &Client, kind: Kind) -> Result<bool, ClientError> {
    let collection = kind.collection();
    let parts: Vec<&str> = collection.trim_start_matches('/').split('/').collect();
    let (group, resource) = match parts.as_slice() {
        ["apis", group, _, resource] => (*group, *resource),
        [.., resource] => ("", *resource),
        [] => ("", ""),
    };
    let attributes = json!({"verb": "list", "group": group, "resource": resource});
    is_allowed(client, attributes).await
}

async fn is_allowed(client: &Client, attributes: Value) -> Result<bool, ClientError> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let response: Value = client.request(Method::POST, path, JSON, Some(&review)).await?;
    Ok(response["status"]["allowed"] == true)
}

fn refusal(error: &ClientError) -> Refusal {
    match error.code() {
        Some(401) => Refusal::new(StatusCode::UNAUTHORIZED, "the API does not accept the token"),
        Some(403) => Refusal::new(
            StatusCode::FORBIDDEN,
            "the user has no right to review its own identity and rights; grant the ClusterRole system:basic-user",
        ),
        _ => {
            tracing::warn!(%error, "token of a login not reviewed");
            let message = "the API server did not review the token; retry later";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message)
        }
    }
}
