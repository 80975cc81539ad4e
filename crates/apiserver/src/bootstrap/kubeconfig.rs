//! kubeconfig files of the administrator and of components.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use trust::private_file;

use crate::bootstrap::pki::{Client, Pki};

/// Returns the URL for clients on this host of a server that listens on `address`: a wildcard becomes loopback.
pub fn server_url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("https://{}", SocketAddr::new(ip, address.port()))
}

/// Name of the administrator in kubeconfig files.
const ADMINISTRATOR: &str = "kubernetes-admin";

/// Writes the administrator's kubeconfig for a server, atomically and with mode 0600. A server does so at each start, so
/// the write does not wait for the disk.
///
/// # Errors
/// The file or its directory is not writable.
pub fn write(path: &Path, server: &str, pki: &Pki) -> io::Result<()> {
    let client = Client {
        authority: pki.authority.clone(),
        pair: pki.admin.clone(),
    };
    create_directory_of(path)?;
    private_file::write_unsynced(path, render(server, ADMINISTRATOR, &client).as_bytes())
}

/// Writes the kubeconfig of a client, atomically and with mode 0600.
///
/// # Errors
/// The file or its directory is not writable.
pub fn write_for(path: &Path, server: &str, user: &str, client: &Client) -> io::Result<()> {
    write_text(path, &render(server, user, client))
}

/// Writes the text of a kubeconfig, atomically and with mode 0600.
///
/// # Errors
/// The file or its directory is not writable.
pub fn write_text(path: &Path, text: &str) -> io::Result<()> {
    create_directory_of(path)?;
    private_file::write(path, text.as_bytes())
}

fn create_directory_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => private_file::create_directory(directory),
        _ => Ok(()),
    }
}

/// Returns the text of a client's kubeconfig.
pub fn render(server: &str, user: &str, client: &Client) -> String {
    let mut text = String::new();
    let lines = [
        "apiVersion: v1".to_owned(),
        "kind: Config".to_owned(),
        "clusters:".to_owned(),
        "- name: portolan".to_owned(),
        "  cluster:".to_owned(),
        format!("    server: {server}"),
        format!(
            "    certificate-authority-data: {}",
            STANDARD.encode(&client.authority)
        ),
        "contexts:".to_owned(),
        format!("- name: {user}@portolan"),
        "  context:".to_owned(),
        "    cluster: portolan".to_owned(),
        format!("    user: {user}"),
        format!("current-context: {user}@portolan"),
        "users:".to_owned(),
        format!("- name: {user}"),
        "  user:".to_owned(),
        format!(
            "    client-certificate-data: {}",
            STANDARD.encode(&client.pair.certificate)
        ),
        format!("    client-key-data: {}", STANDARD.encode(&client.pair.key)),
    ];
    for line in lines {
        // Writes to a String do not fail.
        writeln!(text, "{line}").ok();
    }
    text
}

#[cfg(test)]
mod tests;
