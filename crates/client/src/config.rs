//! Configuration of clients: kubeconfig files and in-cluster settings.

use std::path::{Path, PathBuf};

use base64::Engine;
use serde::Deserialize;

/// Directory in which Kubernetes gives Pods their credentials.
const IN_CLUSTER_DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Address and credentials for an API server.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Scheme, host and port: `https://127.0.0.1:6443`.
    pub server: String,
    /// CA certificates of the server as PEM; empty trusts none.
    pub certificate_authority: Vec<u8>,
    /// Skips verification of the server certificate.
    pub insecure_skip_tls_verify: bool,
    /// Name that the server certificate must have, instead of the host.
    pub tls_server_name: Option<String>,
    /// Further servers of the same cluster; when one does not respond, the next one is used.
    pub further_servers: Vec<String>,
    /// Client certificate chain and key as PEM.
    pub client_certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// Files with the client certificate and key, which are read again for new connections because they may be
    /// rotated.
    pub client_certificate_files: Option<(PathBuf, PathBuf)>,
    /// Bearer token.
    pub token: Option<String>,
    /// File with the bearer token, which is read again for new connections because it may be rotated.
    pub token_file: Option<PathBuf>,
}

/// Invalid configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The kubeconfig is not YAML of the expected form.
    #[error("expected a kubeconfig in {path}: {reason}")]
    Parse {
        /// Path of the file.
        path: PathBuf,
        /// Description of the fault.
        reason: String,
    },
    /// An undefined name is used.
    #[error("{path}: {subject} {name:?} is not defined")]
    Undefined {
        /// Path of the file.
        path: PathBuf,
        /// context, cluster or user.
        subject: &'static str,
        /// Undefined name.
        name: String,
    },
    /// A `…-data` field is not base64.
    #[error("{path}: {field} is not base64: {source}")]
    Base64 {
        /// Path of the file.
        path: PathBuf,
        /// Name of the field.
        field: &'static str,
        /// Description of the fault.
        source: base64::DecodeError,
    },
    /// The user entry requires an unsupported authentication method.
    #[error("{path}: users with {field} are not supported; use a client certificate, token or tokenFile")]
    Unsupported {
        /// Path of the file.
        path: PathBuf,
        /// Name of the field.
        field: &'static str,
    },
    /// Certificates, keys or the address of the server are invalid.
    #[error("{subject} cannot be used: {reason}")]
    Unusable {
        /// Affected part.
        subject: &'static str,
        /// Description of the fault.
        reason: String,
    },
    /// No kubeconfig is set, and the process does not run in a Pod.
    #[error("expected --kubeconfig, or KUBERNETES_SERVICE_HOST as in a Pod; found neither")]
    NotInCluster,
}

impl Config {
    /// Reads the current context of a kubeconfig file. Relative file names are relative to the file.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] if a file cannot be read or its contents are invalid.
    pub fn from_kubeconfig(path: &Path) -> Result<Self, ConfigError> {
        let text = read(path)?;
        let text = String::from_utf8_lossy(&text);
        let file: KubeconfigFile = serde_saphyr::from_str(&text).map_err(|error| ConfigError::Parse {
            path: path.into(),
            // The text around the fault can contain a token or a key.
            reason: error.without_snippet().to_string(),
        })?;
        let undefined = |subject, name: &str| ConfigError::Undefined {
            path: path.into(),
            subject,
            name: name.to_owned(),
        };
        let context = find(&file.contexts, &file.current_context)
            .ok_or_else(|| undefined("context", &file.current_context))?;
        let cluster = find(&file.clusters, &context.context.cluster)
            .ok_or_else(|| undefined("cluster", &context.context.cluster))?;
        let user = find(&file.users, &context.context.user)
            .ok_or_else(|| undefined("user", &context.context.user))?;
        let mut config = Self {
            server: cluster.cluster.server.clone(),
            insecure_skip_tls_verify: cluster.cluster.insecure_skip_tls_verify,
            tls_server_name: cluster.cluster.tls_server_name.clone(),
            ..Self::default()
        };
        config.certificate_authority = bytes_of(
            path,
            "certificate-authority-data",
            &cluster.cluster.certificate_authority_data,
            &cluster.cluster.certificate_authority,
        )?
        .unwrap_or_default();
        user.user.identify(path, &mut config)?;
        Ok(config)
    }

    /// Returns the configuration that Kubernetes provides to a Pod.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] outside of a Pod, or if the CA certificate cannot be read.
    pub fn in_cluster() -> Result<Self, ConfigError> {
        let (Ok(host), Ok(port)) = (
            std::env::var("KUBERNETES_SERVICE_HOST"),
            std::env::var("KUBERNETES_SERVICE_PORT"),
        ) else {
            return Err(ConfigError::NotInCluster);
        };
        let directory = Path::new(IN_CLUSTER_DIRECTORY);
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        Ok(Self {
            server: format!("https://{host}:{port}"),
            certificate_authority: read(&directory.join("ca.crt"))?,
            token_file: Some(directory.join("token")),
            ..Self::default()
        })
    }

    /// Returns the current bearer token, if there is one.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] if the token file cannot be read.
    pub fn bearer(&self) -> Result<Option<String>, ConfigError> {
        match (&self.token, &self.token_file) {
            (Some(token), _) => Ok(Some(token.clone())),
            (None, Some(file)) => Ok(Some(String::from_utf8_lossy(&read(file)?).trim().to_owned())),
            (None, None) => Ok(None),
        }
    }
}

/// The part of a kubeconfig that is read.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct KubeconfigFile {
    current_context: String,
    contexts: Vec<NamedContext>,
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

/// Entry of a kubeconfig with a name.
trait Named {
    fn name(&self) -> &str;
}

fn find<'a, T: Named>(entries: &'a [T], name: &str) -> Option<&'a T> {
    entries.iter().find(|entry| entry.name() == name)
}

macro_rules! named {
    ($entry:ident, $field:ident: $content:ident) => {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct $entry {
            name: String,
            $field: $content,
        }

        impl Named for $entry {
            fn name(&self) -> &str {
                &self.name
            }
        }
    };
}

named!(NamedContext, context: Context);
named!(NamedCluster, cluster: Cluster);
named!(NamedUser, user: User);

/// A context: the names of a cluster and a user.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

/// Address of a cluster, and the authority that its certificate is verified with.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: bool,
    tls_server_name: Option<String>,
}

/// Credentials of a user.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct User {
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
    username: Option<String>,
    exec: Option<serde_json::Value>,
    auth_provider: Option<serde_json::Value>,
}

impl User {
    fn identify(&self, path: &Path, config: &mut Config) -> Result<(), ConfigError> {
        let unsupported = [
            ("exec", self.exec.is_some()),
            ("auth-provider", self.auth_provider.is_some()),
            ("username", self.username.is_some()),
        ];
        if let Some((field, _)) = unsupported.into_iter().find(|(_, present)| *present) {
            return Err(ConfigError::Unsupported {
                path: path.into(),
                field,
            });
        }
        if let (None, None, Some(certificate), Some(key)) = (
            &self.client_certificate_data,
            &self.client_key_data,
            &self.client_certificate,
            &self.client_key,
        ) {
            config.client_certificate_files =
                Some((sibling_path(path, certificate), sibling_path(path, key)));
        }
        let certificate = bytes_of(
            path,
            "client-certificate-data",
            &self.client_certificate_data,
            &self.client_certificate,
        )?;
        let key = bytes_of(path, "client-key-data", &self.client_key_data, &self.client_key)?;
        config.client_certificate = certificate.zip(key);
        config.token = self.token.clone().filter(|token| !token.is_empty());
        config.token_file = self.token_file.as_ref().map(|file| sibling_path(path, file));
        Ok(())
    }
}

/// Returns the bytes of a pair of fields: base64 in the kubeconfig, or the name of another file.
fn bytes_of(
    path: &Path,
    field: &'static str,
    data: &Option<String>,
    file: &Option<String>,
) -> Result<Option<Vec<u8>>, ConfigError> {
    match (data, file) {
        (Some(data), _) => base64::engine::general_purpose::STANDARD
            .decode(data.trim())
            .map(Some)
            .map_err(|source| ConfigError::Base64 {
                path: path.into(),
                field,
                source,
            }),
        (None, Some(file)) => read(&sibling_path(path, file)).map(Some),
        (None, None) => Ok(None),
    }
}

fn sibling_path(path: &Path, file: &str) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).join(file)
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(path).map_err(|source| ConfigError::Read {
        path: path.into(),
        source,
    })
}

#[cfg(test)]
mod tests;
