//! Directory of a node that has joined a cluster: membership, cluster CA certificate, node certificates and kubeconfig.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use client::{Client, Config, ConfigError};
use serde::{Deserialize, Serialize};
use trust::private_file;

use super::cluster_info::ClusterSettings;
use crate::error::FileError;

/// Directory below the data directory of `portolan join`.
const NAME: &str = "node";
const MEMBERSHIP: &str = "membership.json";
const AUTHORITY: &str = "ca.crt";
/// Component whose certificate the kubeconfig names.
pub(crate) const AGENT: &str = "agent";
/// kubeconfig of the agent, for `portolan status`.
const KUBECONFIG: &str = "agent.conf";

/// Membership of a node in a cluster. With it and its certificates a node restarts without a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Membership {
    /// Name of the Node.
    pub node_name: String,
    /// URLs of the API servers.
    pub servers: Vec<String>,
    /// Settings that all nodes share.
    pub cluster: ClusterSettings,
}

/// Failed access to a [`JoinDirectory`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinDirectoryError {
    /// A file cannot be read or written.
    #[error("{0}")]
    File(#[from] FileError),
    /// The membership is invalid.
    #[error(
        "invalid {}: {source}; remove {} and join again with a token",
        path.display(),
        directory.display()
    )]
    Invalid {
        /// Path of the membership.
        path: PathBuf,
        /// Directory of the node.
        directory: PathBuf,
        /// Violation of the format.
        source: serde_json::Error,
    },
    /// A file cannot be encoded.
    #[error("membership not encoded: {0}")]
    Encode(#[from] serde_json::Error),
    /// The credentials are unusable.
    #[error("{0}")]
    Config(#[from] ConfigError),
}

/// Directory of a node that has joined a cluster.
#[derive(Clone, Debug)]
pub(crate) struct JoinDirectory {
    path: PathBuf,
}

impl JoinDirectory {
    /// Returns the directory below a data directory. It need not exist.
    pub(crate) fn below(data_directory: &Path) -> Self {
        Self {
            path: data_directory.join(NAME),
        }
    }

    /// Returns the path of the agent's kubeconfig.
    pub(crate) fn kubeconfig_path(&self) -> PathBuf {
        self.path.join(KUBECONFIG)
    }

    /// Returns the path of the cluster CA certificate.
    pub(crate) fn authority_path(&self) -> PathBuf {
        self.path.join(AUTHORITY)
    }

    /// Returns the path of the certificate of a component, with its key.
    pub(crate) fn certificate_path(&self, component: &str) -> PathBuf {
        self.path.join(format!("{component}.pem"))
    }

    /// Returns the path of the key of a component's pending certificate request.
    pub(crate) fn pending_path(&self, component: &str) -> PathBuf {
        self.path.join(format!("{component}.pending"))
    }

    /// Reads the membership, or `None` if the node has not joined.
    ///
    /// # Errors
    ///
    /// [`JoinDirectoryError`] if the file is unreadable or invalid.
    pub(crate) fn membership(&self) -> Result<Option<Membership>, JoinDirectoryError> {
        let path = self.path.join(MEMBERSHIP);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FileError::at(&path)(error).into()),
        };
        let membership = serde_json::from_slice(&text).map_err(|source| JoinDirectoryError::Invalid {
            path,
            directory: self.path.clone(),
            source,
        })?;
        Ok(Some(membership))
    }

    /// Writes the membership, and the agent's kubeconfig.
    ///
    /// # Errors
    ///
    /// [`JoinDirectoryError`] if a file cannot be written.
    pub(crate) fn write_membership(&self, membership: &Membership) -> Result<(), JoinDirectoryError> {
        let path = self.path.join(MEMBERSHIP);
        private_file::write(&path, &serde_json::to_vec_pretty(membership)?).map_err(FileError::at(&path))?;
        let path = self.kubeconfig_path();
        let text = self.render_kubeconfig(membership)?;
        Ok(private_file::write(&path, text.as_bytes()).map_err(FileError::at(&path))?)
    }

    /// Renders the agent's kubeconfig, which names the file of its certificate.
    fn render_kubeconfig(&self, membership: &Membership) -> Result<String, serde_json::Error> {
        let server = membership.servers.first().map(String::as_str).unwrap_or_default();
        let agent = self.certificate_path(AGENT);
        // JSON strings are YAML strings.
        let (server, agent) = (serde_json::to_string(server)?, serde_json::to_string(&agent)?);
        let authority = serde_json::to_string(&self.authority_path())?;
        Ok(format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: portolan\n  cluster:\n    server: {server}\n    \
             certificate-authority: {authority}\ncontexts:\n- name: node\n  context:\n    cluster: portolan\n    user: node\n\
             current-context: node\nusers:\n- name: node\n  user:\n    client-certificate: {agent}\n    client-key: {agent}\n"
        ))
    }

    /// Creates the directory and writes the cluster CA certificate.
    ///
    /// # Errors
    ///
    /// [`JoinDirectoryError::File`] if the directory or the file cannot be written.
    pub(crate) fn write_authority(&self, authority: &str) -> Result<(), JoinDirectoryError> {
        private_file::create_directory(&self.path)
            .and_then(|()| private_file::write(&self.authority_path(), authority.as_bytes()))
            .map_err(|source| FileError::at(&self.path)(source).into())
    }

    /// Reads the cluster CA certificate.
    ///
    /// # Errors
    ///
    /// [`JoinDirectoryError::File`] if the file cannot be read.
    pub(crate) fn authority(&self) -> Result<String, JoinDirectoryError> {
        let path = self.authority_path();
        fs::read_to_string(&path).map_err(|source| FileError::at(&path)(source).into())
    }

    /// Returns the addresses of the API servers and the cluster CA certificate, without credentials.
    ///
    /// # Errors
    ///
    /// [`JoinDirectoryError::File`] if the cluster CA certificate cannot be read.
    pub(crate) fn config(&self, servers: &[String]) -> Result<Config, JoinDirectoryError> {
        let mut servers = servers.iter().cloned();
        Ok(Config {
            server: servers.next().unwrap_or_default(),
            further_servers: servers.collect(),
            certificate_authority: self.authority()?.into_bytes(),
            ..Config::default()
        })
    }

    /// Returns a client with the certificate of a component.
    ///
    /// # Errors
    ///
    /// [`JoinDirectoryError`] if the certificate or the cluster CA certificate is unusable.
    pub(crate) fn client(
        &self,
        membership: &Membership,
        component: &str,
    ) -> Result<Client, JoinDirectoryError> {
        let path = self.certificate_path(component);
        let config = Config {
            client_certificate_files: Some((path.clone(), path)),
            ..self.config(&membership.servers)?
        };
        Ok(Client::new(config)?.named(&format!("portolan-{component}")))
    }
}
