//! Clients with the credentials of attackers and of the administrator.

use client::{Client, Config};

use crate::support::Api;

/// Returns a client with a certificate of the cluster CA for a user and a group; without a group if it is empty.
pub(crate) fn with_certificate(api: &Api, user: &str, group: &str) -> Client {
    let directory = api.directory.path().join("data/pki");
    let file = format!("attacker-{}", user.replace(':', "-"));
    let issued = apiserver::pki::client(&directory, &file, user, group).expect("a certificate");
    let config = Config {
        server: api.server.clone(),
        certificate_authority: issued.authority.into_bytes(),
        client_certificate: Some((issued.pair.certificate.into_bytes(), issued.pair.key.into_bytes())),
        ..Config::default()
    };
    Client::new(config).expect("a client")
}

/// Returns a client with the kubeconfig of the administrator.
pub(crate) fn administrator(api: &Api) -> Client {
    let config = Config::from_kubeconfig(&api.kubeconfig()).expect("a kubeconfig");
    Client::new(config).expect("a client")
}

/// Returns a client with the certificate of the agent of a node.
pub(crate) fn node(api: &Api, name: &str) -> Client {
    with_certificate(api, &format!("system:node:{name}"), "system:nodes")
}
