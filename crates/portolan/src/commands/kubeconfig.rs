//! `portolan kubeconfig`: credentials for a component, or for a person, signed by the cluster's authority; and the
//! administrator's among the other clusters of a person.

pub mod merge;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::Failure;

/// Flags of `portolan kubeconfig`; names are those of `kubeadm kubeconfig user`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Flags {
    #[command(subcommand)]
    command: Option<Command>,
    /// Directory of the API server's data, with the authority
    #[arg(long, default_value = "/var/lib/portolan", value_name = "DIR")]
    data_dir: PathBuf,
    /// URL at which the client reaches the API
    #[arg(long, default_value = "https://127.0.0.1:6443", value_name = "URL")]
    server: String,
    /// The user: system:kube-proxy, system:kube-dns, system:kube-controller-manager, system:node:NAME, or anybody
    #[arg(long, value_name = "NAME", required = true)]
    client_name: Option<String>,
    /// The user's group: system:nodes for the agent of a node
    #[arg(long, default_value = "", hide_default_value = true, value_name = "GROUP")]
    org: String,
}

/// What to do with the administrator's kubeconfig.
#[derive(Debug, Subcommand)]
enum Command {
    /// Put this cluster into the kubeconfig that kubectl reads, and make it the current one
    Merge(MergeFlags),
    /// Take this cluster out of it
    Remove(RemoveFlags),
}

/// The name of the context that is made if none is given.
pub const CONTEXT: &str = "portolan";

#[derive(Debug, Args)]
struct MergeFlags {
    /// The kubeconfig of this cluster's administrator
    #[arg(long, default_value = "/var/lib/portolan/admin.conf", value_name = "FILE")]
    from: PathBuf,
    /// The kubeconfig to put it into; ~/.kube/config if not given
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Name of the context, the cluster and the user
    #[arg(long, default_value = CONTEXT, value_name = "NAME")]
    context: String,
    /// Leave the current context as it is
    #[arg(long)]
    keep_current_context: bool,
}

#[derive(Debug, Args)]
struct RemoveFlags {
    /// The kubeconfig to take it out of; ~/.kube/config if not given
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Name of the context, the cluster and the user
    #[arg(long, default_value = CONTEXT, value_name = "NAME")]
    context: String,
}

/// Prints a kubeconfig, or changes one.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    match (&flags.command, &flags.client_name) {
        (Some(Command::Merge(flags)), _) => {
            let into = person_file(flags.into.as_ref())?;
            merge_administrator(&flags.from, &into, &flags.context, flags.keep_current_context)?;
            crate::cli::say(&format!(
                "context {:?} set in {}\n",
                flags.context,
                into.display()
            ));
        }
        (Some(Command::Remove(flags)), _) => {
            let from = person_file(flags.from.as_ref())?;
            let was_there = merge::remove_from_file(&from, &flags.context)?;
            let what = if was_there { "removed from" } else { "is not in" };
            crate::cli::say(&format!(
                "context {:?} {what} {}\n",
                flags.context,
                from.display()
            ));
        }
        (None, Some(client_name)) => {
            let directory = flags.data_dir.join("pki");
            let name = file_name(client_name);
            let client = apiserver::pki::client(&directory, &name, client_name, &flags.org)?;
            crate::cli::say(&apiserver::kubeconfig::render(
                &flags.server,
                client_name,
                &client,
            ));
        }
        (None, None) => return Err("--client-name is needed, or one of merge and remove".into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// The kubeconfig that a person's kubectl reads.
pub fn person_file(given: Option<&PathBuf>) -> Result<PathBuf, Failure> {
    let file = given.cloned().or_else(merge::default_file);
    file.ok_or_else(|| "there is no ~/.kube/config without $HOME; name a file".into())
}

/// Puts an administrator's kubeconfig into a person's.
pub fn merge_administrator(
    from: &Path,
    into: &Path,
    context: &str,
    keeps_current: bool,
) -> Result<(), Failure> {
    if !from.exists() {
        return Err(format!(
            "{} is not there; is portolan up running? Its --write-kubeconfig names another file for --from",
            from.display()
        )
        .into());
    }
    Ok(merge::merge_file(from, into, context, keeps_current)?)
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
mod tests;
