//! Credentials of registries, from the configuration file of Docker.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::reference::{DEFAULT_REGISTRY, Reference};

/// User name that Docker writes for an identity token.
const TOKEN_USER: &str = "<token>";
/// Hosts of the default registry in files with credentials.
const DEFAULT_REGISTRY_HOSTS: [&str; 2] = ["index.docker.io", "registry-1.docker.io"];

/// Reason why a file with credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// The content is not JSON of the expected form. The message has no part of the content.
    #[error(
        "expected a Docker configuration with \"auths\", found other content at line {line}, column {column}"
    )]
    Form {
        /// Line of the fault.
        line: usize,
        /// Column of the fault.
        column: usize,
    },
    /// An `auth` is not the Base64 of `USER:PASSWORD`.
    #[error("the \"auth\" of {0:?} is not the Base64 of USER:PASSWORD")]
    Auth(String),
}

/// User and password for a registry, or for a part of its repositories.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryCredential {
    /// Registry as in Docker's configuration: `registry.example:5000`, `*.example`, `registry.example/team`.
    pub registry: String,
    /// User; empty or `<token>` if the password is an identity token.
    pub username: String,
    /// Password or identity token.
    pub password: String,
}

impl fmt::Debug for RegistryCredential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut structure = formatter.debug_struct("RegistryCredential");
        structure
            .field("registry", &self.registry)
            .field("username", &self.username);
        structure.finish_non_exhaustive()
    }
}

/// The part of a `config.json` that is read.
#[derive(Deserialize)]
struct DockerConfiguration {
    auths: BTreeMap<String, DockerAuth>,
}

/// Credentials for a registry.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct DockerAuth {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

/// Reads the credentials of Docker's `config.json`, of `.dockerconfigjson`, or of the older `.dockercfg`.
///
/// # Errors
/// [`CredentialError`] for another form.
pub fn parse_docker_credentials(content: &[u8]) -> Result<Vec<RegistryCredential>, CredentialError> {
    let form = |error: serde_json::Error| CredentialError::Form {
        line: error.line(),
        column: error.column(),
    };
    let auths = match serde_json::from_slice::<DockerConfiguration>(content) {
        Ok(configuration) => configuration.auths,
        Err(error) => {
            let older = serde_json::from_slice::<BTreeMap<String, DockerAuth>>(content);
            older.map_err(|_| form(error))?
        }
    };
    auths
        .into_iter()
        .map(|(registry, auth)| auth.credential(registry))
        .collect()
}

impl DockerAuth {
    fn credential(self, registry: String) -> Result<RegistryCredential, CredentialError> {
        if !self.identitytoken.is_empty() {
            return Ok(RegistryCredential {
                registry,
                username: TOKEN_USER.to_owned(),
                password: self.identitytoken,
            });
        }
        if self.auth.is_empty() {
            return Ok(RegistryCredential {
                registry,
                username: self.username,
                password: self.password,
            });
        }
        let decoded = STANDARD.decode(self.auth.trim()).ok();
        let text = decoded.and_then(|decoded| String::from_utf8(decoded).ok());
        let pair = text.as_deref().and_then(|text| text.split_once(':'));
        let Some((username, password)) = pair else {
            return Err(CredentialError::Auth(registry));
        };
        Ok(RegistryCredential {
            username: username.to_owned(),
            // Docker pads with zero bytes.
            password: password.trim_end_matches('\0').to_owned(),
            registry,
        })
    }
}

impl RegistryCredential {
    /// Returns `true` if the credential is for the registry and repository of a reference.
    pub fn is_for(&self, reference: &Reference) -> bool {
        self.specificity(reference.registry(), reference.repository())
            .is_some()
    }

    /// Returns `true` if the password is an identity token.
    pub(super) fn is_token(&self) -> bool {
        matches!(self.username.as_str(), "" | TOKEN_USER)
    }

    /// Returns the length of the part of `registry/repository` that the credential names, or `None` if it is for
    /// another one.
    fn specificity(&self, registry: &str, repository: &str) -> Option<usize> {
        let named = self
            .registry
            .trim_start_matches("https://")
            .trim_start_matches("http://");
        let named = named.trim_end_matches('/');
        let named = named
            .strip_suffix("/v1")
            .or(named.strip_suffix("/v2"))
            .unwrap_or(named);
        let (host, path) = named.split_once('/').unwrap_or((named, ""));
        let host = if DEFAULT_REGISTRY_HOSTS.contains(&host) {
            DEFAULT_REGISTRY
        } else {
            host
        };
        let is_below = path.is_empty()
            || repository == path
            || repository
                .strip_prefix(path)
                .is_some_and(|rest| rest.starts_with('/'));
        (is_host_of(host, registry) && is_below).then_some(named.len())
    }
}

/// Returns the credentials for a repository, the most specific ones first.
pub(super) fn matching_credentials(
    credentials: &[RegistryCredential],
    registry: &str,
    repository: &str,
) -> Vec<RegistryCredential> {
    let matches = credentials.iter().filter_map(|credential| {
        let specificity = credential.specificity(registry, repository)?;
        Some((specificity, credential.clone()))
    });
    let mut matches: Vec<_> = matches.collect();
    matches.sort_by_key(|(specificity, _)| std::cmp::Reverse(*specificity));
    matches.into_iter().map(|(_, credential)| credential).collect()
}

/// Compares label by label. `*` stands for any characters of one label.
fn is_host_of(pattern: &str, registry: &str) -> bool {
    let (mut patterns, mut labels) = (pattern.split('.'), registry.split('.'));
    loop {
        match (patterns.next(), labels.next()) {
            (None, None) => return true,
            (Some(pattern), Some(label)) if is_label_of(pattern, label) => {}
            _ => return false,
        }
    }
}

fn is_label_of(pattern: &str, label: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern.eq_ignore_ascii_case(label),
        Some((start, end)) => {
            label.len() >= start.len() + end.len() && label.starts_with(start) && label.ends_with(end)
        }
    }
}
