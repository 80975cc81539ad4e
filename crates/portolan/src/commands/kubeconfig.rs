//! `portolan kubeconfig`: credentials for a component, or for a person, signed by the cluster's authority.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::Failure;

/// Flags of `portolan kubeconfig`; names are those of `kubeadm kubeconfig user`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Directory of the API server's data, with the authority
    #[arg(long, default_value = "/var/lib/portolan", value_name = "DIR")]
    data_dir: PathBuf,
    /// URL at which the client reaches the API
    #[arg(long, default_value = "https://127.0.0.1:6443", value_name = "URL")]
    server: String,
    /// The user: system:kube-proxy, system:kube-dns, system:kube-controller-manager, system:node:NAME, or anybody
    #[arg(long, value_name = "NAME")]
    client_name: String,
    /// The user's group: system:nodes for the agent of a node
    #[arg(long, default_value = "", hide_default_value = true, value_name = "GROUP")]
    org: String,
}

/// Prints the kubeconfig.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let directory = flags.data_dir.join("pki");
    let name = file_name(&flags.client_name);
    let client = apiserver::pki::client(&directory, &name, &flags.client_name, &flags.org)?;
    let text = apiserver::kubeconfig::render(&flags.server, &flags.client_name, &client);
    crate::cli::say(&text);
    Ok(ExitCode::SUCCESS)
}

/// The name of the files in which a user's certificate is kept: no two users have the same one, and no path leads
/// elsewhere.
pub fn file_name(user: &str) -> String {
    let mut name = String::from("client-");
    for letter in user.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | ':' | '@' => name.push(letter),
            other => name.push_str(&format!("%{:x}", u32::from(other))),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_stay_in_their_directory() {
        assert_eq!(file_name("system:node:n1"), "client-system:node:n1");
        assert_eq!(file_name("../ca"), "client-..%2fca");
        assert_ne!(file_name("a_b"), file_name("a b"));
    }
}
