//! `portolan kubeconfig`: credentials signed by the cluster CA, and the cluster in the kubeconfig of a user.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::cluster::identities::certificate_file_name;
use crate::cluster::kubeconfig_merge::{CONTEXT, merge_administrator, remove_from_file, user_file};
use crate::error::CommandError;
use crate::flags::values::DATA_DIRECTORY;
use crate::output;

/// Flags of `portolan kubeconfig`; names are those of `kubeadm kubeconfig user`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Flags {
    #[command(subcommand)]
    command: Option<Command>,
    /// User: system:kube-proxy, system:kube-dns, system:kube-controller-manager, system:node:NAME, or another name
    #[arg(long, value_name = "NAME", required = true)]
    client_name: Option<String>,
    /// Group of the user: system:nodes for the agent of a node
    #[arg(long, default_value = "", hide_default_value = true, value_name = "GROUP")]
    org: String,
    /// URL of the API server
    #[arg(long, default_value = "https://127.0.0.1:6443", value_name = "URL")]
    server: String,
    /// Data directory of the API server, with the cluster CA
    #[arg(long, default_value = DATA_DIRECTORY, value_name = "DIR")]
    data_dir: PathBuf,
}

/// Changes of a user's kubeconfig.
#[derive(Debug, Subcommand)]
enum Command {
    /// Merge this cluster into the kubeconfig of kubectl, and make it the current context
    Merge(MergeFlags),
    /// Remove this cluster from the kubeconfig of kubectl
    Remove(RemoveFlags),
}

#[derive(Debug, Args)]
struct MergeFlags {
    /// Administrator's kubeconfig of this cluster
    #[arg(long, default_value = "/var/lib/portolan/admin.conf", value_name = "FILE")]
    from: PathBuf,
    /// kubeconfig to change [default: ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Name of the context, the cluster and the user
    #[arg(long, default_value = CONTEXT, value_name = "NAME")]
    context: String,
    /// Keep the current context
    #[arg(long)]
    keep_current_context: bool,
}

#[derive(Debug, Args)]
struct RemoveFlags {
    /// kubeconfig to change [default: ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Name of the context, the cluster and the user
    #[arg(long, default_value = CONTEXT, value_name = "NAME")]
    context: String,
}

/// Prints a kubeconfig with a new certificate, or changes the kubeconfig of a user.
///
/// # Errors
///
/// An error if the certificate cannot be issued or a file cannot be changed.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    match (&flags.command, &flags.client_name) {
        (Some(Command::Merge(flags)), _) => {
            let into = user_file(flags.into.as_ref())?;
            merge_administrator(&flags.from, &into, &flags.context, flags.keep_current_context)?;
            output::print(&format!(
                "context {:?} set in {}\n",
                flags.context,
                into.display()
            ));
        }
        (Some(Command::Remove(flags)), _) => {
            let from = user_file(flags.from.as_ref())?;
            let was_removed = remove_from_file(&from, &flags.context)?;
            let outcome = if was_removed { "removed from" } else { "is not in" };
            output::print(&format!(
                "context {:?} {outcome} {}\n",
                flags.context,
                from.display()
            ));
        }
        (None, Some(user)) => {
            let directory = flags.data_dir.join("pki");
            let client = apiserver::pki::client(&directory, &certificate_file_name(user), user, &flags.org)?;
            output::print(&apiserver::kubeconfig::render(&flags.server, user, &client));
        }
        (None, None) => return Err("expected --client-name, merge or remove".into()),
    }
    Ok(ExitCode::SUCCESS)
}
