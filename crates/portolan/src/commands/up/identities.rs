//! Who the parts are to the API: each has a certificate of its own, and the rights that its work needs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use agent::settings::ServerSettings;
use api::certificates::NodePart;
use client::{CertificateFiles, Client, Config};

use super::super::Failure;
use super::super::kubeconfig::file_name;

/// Gives the parts their credentials.
pub struct Identities {
    /// The directory of the cluster's authority.
    pub directory: PathBuf,
    /// Where the API is reached from here.
    pub server: String,
}

impl Identities {
    /// A client that asks as the controllers.
    pub fn controllers(&self) -> Result<Client, Failure> {
        self.client("portolan-controllers", "system:kube-controller-manager", "")
    }

    /// A client that asks as a part of a node's machine.
    pub fn part(&self, part: NodePart, node_name: &str) -> Result<Client, Failure> {
        let component = match part {
            NodePart::Proxy => "portolan-proxy",
            NodePart::Dns => "portolan-dns",
            NodePart::Announcer => "portolan-announcer",
            NodePart::Edge => "portolan-edge",
        };
        self.client(component, &part.user(node_name), part.group())
    }

    /// A client that asks as what assigns load balancers' addresses.
    pub fn balancer(&self) -> Result<Client, Failure> {
        self.client("portolan-balancer", "system:portolan-balancer", "")
    }

    /// A client that asks as the agent of a node.
    pub fn agent(&self, node_name: &str) -> Result<Client, Failure> {
        self.client(
            "portolan-agent",
            &format!("system:node:{node_name}"),
            "system:nodes",
        )
    }

    /// What the agent of a node serves the API server with.
    pub fn agent_serving(&self, node_name: &str, listen: SocketAddr) -> Result<ServerSettings, Failure> {
        let issued = apiserver::pki::node_serving(&self.directory, node_name, &[listen.ip()])?;
        let file = |extension: &str| self.directory.join(format!("serving-{node_name}.{extension}"));
        Ok(ServerSettings {
            listen,
            certificate: Arc::new(CertificateFiles::new(file("crt"), file("key"))),
            client_authority: issued.authority.into_bytes(),
        })
    }

    fn client(&self, component: &str, user: &str, group: &str) -> Result<Client, Failure> {
        let issued = apiserver::pki::client(&self.directory, &file_name(user), user, group)?;
        let config = Config {
            server: self.server.clone(),
            certificate_authority: issued.authority.into_bytes(),
            client_certificate: Some((issued.pair.certificate.into_bytes(), issued.pair.key.into_bytes())),
            ..Config::default()
        };
        Ok(Client::new(config)?.named(component))
    }
}
