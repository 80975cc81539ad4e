//! Credentials of the components of the first node. Each component is a user with a certificate and minimal rights.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use agent::settings::ServerSettings;
use api::certificates::{NODE_USER_PREFIX, NODES, NodePart};
use client::{CertificateFiles, Client, Config};

use super::node_components::ComponentClients;
use crate::error::CommandError;

#[cfg(test)]
mod tests;

/// Credentials of all components of the first node.
pub(crate) struct Credentials {
    /// Client of the controllers.
    pub controllers: Client,
    /// Client of the assigner of load balancer IPs.
    pub assigner: Client,
    /// Client of the chart, and the address of the API server without credentials.
    pub chart: (Client, Config),
    /// Clients of the components of the node.
    pub node: ComponentClients,
    /// The agent's endpoint for the API server.
    pub serving: ServerSettings,
}

/// Issuer of the credentials of components.
#[derive(Clone)]
pub(crate) struct Identities {
    /// Directory of the cluster CA.
    pub pki_directory: PathBuf,
    /// URL of the API server for this host.
    pub server: String,
}

impl Identities {
    /// Issues the credentials of all components on a thread for blocking work. The cluster CA must exist.
    ///
    /// # Errors
    ///
    /// An error if a certificate cannot be issued.
    pub(crate) async fn issue(
        &self,
        node_name: &str,
        agent_endpoint: SocketAddr,
    ) -> Result<Credentials, CommandError> {
        let (identities, node_name) = (self.clone(), node_name.to_owned());
        tokio::task::spawn_blocking(move || identities.all(&node_name, agent_endpoint)).await?
    }

    fn all(&self, node_name: &str, agent_endpoint: SocketAddr) -> Result<Credentials, CommandError> {
        Ok(Credentials {
            controllers: self.client("portolan-controllers", "system:kube-controller-manager", "")?,
            assigner: self.client("portolan-balancer", "system:portolan-balancer", "")?,
            chart: self.chart()?,
            node: ComponentClients {
                agent: self.client("portolan-agent", &format!("{NODE_USER_PREFIX}{node_name}"), NODES)?,
                proxy: self.part(NodePart::Proxy, node_name)?,
                dns: self.part(NodePart::Dns, node_name)?,
                announcer: self.part(NodePart::Announcer, node_name)?,
                edge: self.part(NodePart::Edge, node_name)?,
            },
            serving: self.agent_serving(node_name, agent_endpoint)?,
        })
    }

    /// Returns the client of a component of a node.
    fn part(&self, part: NodePart, node_name: &str) -> Result<Client, CommandError> {
        let component = match part {
            NodePart::Proxy => "portolan-proxy",
            NodePart::Dns => "portolan-dns",
            NodePart::Announcer => "portolan-announcer",
            NodePart::Edge => "portolan-edge",
        };
        self.client(component, &part.user(node_name), part.group())
    }

    /// Returns the client of the chart, and the address of the API server without credentials.
    fn chart(&self) -> Result<(Client, Config), CommandError> {
        let config = self.config("system:portolan-chart", "")?;
        let server = Config {
            server: config.server.clone(),
            certificate_authority: config.certificate_authority.clone(),
            ..Config::default()
        };
        Ok((Client::new(config)?.named("portolan-chart"), server))
    }

    /// Returns address, certificate and client CA of the agent's endpoint for the API server.
    fn agent_serving(&self, node_name: &str, listen: SocketAddr) -> Result<ServerSettings, CommandError> {
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
