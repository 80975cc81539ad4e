//! Invalid input and faults: hostile clients, crashes, full disks, missing privileges.

mod cluster;
mod command_line;
mod crashes;
mod disk;
mod hostile_clients;
mod lost_members;
mod several_servers;
mod standalone;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/test_host.rs"]
mod test_host;

use client::{Client, Config};
use support::Api;

/// Returns a client with the kubeconfig of the administrator.
fn client_of(api: &Api) -> Client {
    let config = Config::from_kubeconfig(&api.kubeconfig()).expect("a kubeconfig");
    Client::new(config).expect("a client")
}
