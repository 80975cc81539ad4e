//! Credentials of the components of the first node. Each component is a user with a certificate and minimal rights.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use agent::settings::ServerSettings;
use api::certificates::NodePart;
use client::{CertificateFiles, Client, Config};

use crate::error::CommandError;

#[cfg(test)]
mod tests;

/// Issuer of the credentials of components.
pub(crate) struct Identities {
    /// Directory of the cluster CA.
    pub pki_directory: PathBuf,
    /// URL of the API server for this host.
    pub server: String,
}

impl Identities {
    /// Returns the client of the controllers.
    ///
    /// # Errors
    ///
    /// An error if the certificate cannot be issued.
    pub(crate) fn controllers(&self) -> Result<Client, CommandError> {
        self.client("portolan-controllers", "system:kube-controller-manager", "")
    }

    /// Returns the client of a component of a node.
    ///
    /// # Errors
    ///
    /// An error if the certificate cannot be issued.
    pub(crate) fn part(&self, part: NodePart, node_name: &str) -> Result<Client, CommandError> {
        let component = match part {
            NodePart::Proxy => "portolan-proxy",
            NodePart::Dns => "portolan-dns",
            NodePart::Announcer => "portolan-announcer",
            NodePart::Edge => "portolan-edge",
        };
        self.client(component, &part.user(node_name), part.group())
    }

    /// Returns the client of the assigner of load balancer IPs.
    ///
    /// # Errors
    ///
    /// An error if the certificate cannot be issued.
    pub(crate) fn balancer(&self) -> Result<Client, CommandError> {
        self.client("portolan-balancer", "system:portolan-balancer", "")
    }

    /// Returns the client of the chart, and the address of the API server without credentials.
    ///
    /// # Errors
    ///
    /// An error if the certificate cannot be issued.
    pub(crate) fn chart(&self) -> Result<(Client, Config), CommandError> {
        let config = self.config("system:portolan-chart", "")?;
        let server = Config {
            server: config.server.clone(),
            certificate_authority: config.certificate_authority.clone(),
            ..Config::default()
        };
        Ok((Client::new(config)?.named("portolan-chart"), server))
    }

    /// Returns the client of the agent of a node.
    ///
    /// # Errors
    ///
    /// An error if the certificate cannot be issued.
    pub(crate) fn agent(&self, node_name: &str) -> Result<Client, CommandError> {
        self.client(
            "portolan-agent",
            &format!("system:node:{node_name}"),
            "system:nodes",
        )
    }

    /// Returns address, certificate and client CA of the agent's endpoint for the API server.
    ///
    /// # Errors
    ///
    /// An error if the certificate cannot be issued.
    pub(crate) fn agent_serving(
        &self,
        node_name: &str,
        listen: SocketAddr,
    ) -> Result<ServerSettings, CommandError> {
        let issued = apiserver::pki::node_serving(&self.pki_directory, node_name, &[listen.ip()])?;
        let file = |extension: &str| {
            self.pki_directory
                .join(format!("serving-{node_name}.{extension}"))
        };
        Ok(ServerSettings {
            listen,
            certificate: Arc::new(CertificateFiles::new(file("crt"), file("key"))),
            client_authority: issued.authority.into_bytes(),
        })
    }

    fn client(&self, component: &str, user: &str, group: &str) -> Result<Client, CommandError> {
        Ok(Client::new(self.config(user, group)?)?.named(component))
    }

    fn config(&self, user: &str, group: &str) -> Result<Config, CommandError> {
        let issued = apiserver::pki::client(&self.pki_directory, &certificate_file_name(user), user, group)?;
        Ok(Config {
            server: self.server.clone(),
            certificate_authority: issued.authority.into_bytes(),
            client_certificate: Some((issued.pair.certificate.into_bytes(), issued.pair.key.into_bytes())),
            ..Config::default()
        })
    }
}

/// Returns the file name of a user's certificate, without extension. Names of different users differ, and none contains
/// a path separator.
pub(crate) fn certificate_file_name(user: &str) -> String {
    let mut name = String::from("client-");
    for letter in user.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | ':' | '@' => name.push(letter),
            other => name.push_str(&format!("%{:x}", u32::from(other))),
        }
    }
    name
}
