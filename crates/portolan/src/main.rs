//! `portolan`: everything behind `kind: Service`, in one binary.
//!
//! | Module | Contents |
//! |---|---|
//! | [`cli`], [`dispatch`] | the command line and its help; the call of the selected subcommand |
//! | [`commands`] | one module per subcommand: its flags, and the assembly of the crates |
//! | [`flags`] | flags that several subcommands share, and parsers of values |
//! | [`cluster`] | parts of `up`, `join`, `leave` and `token`: node components, membership, certificates, supervision |
//! | [`node_observation`], [`node_reports`] | observation of this node; reports of nodes through the API server |
//! | [`playground`] | the cluster in network namespaces |
//! | [`balancer_endpoints`], [`status_client`] | `/metrics` and `/status` of load balancing; requests to such endpoints |
//! | [`traffic`] | connections of Services: connection tracking of this node, reports of other nodes |
//! | [`paged_list`] | lists of objects in pages |
//! | [`leadership`] | components that work only on the leader |
//! | [`output`], [`logging`], [`error`], [`runtime`], [`shutdown`], [`rlimit`], [`malloc`] | services of the process |

#![allow(
    rustdoc::bare_urls,
    rustdoc::broken_intra_doc_links,
    reason = "doc comments of flags are the texts of --help"
)]

mod balancer_endpoints;
mod cli;
mod cluster;
mod commands;
mod dispatch;
mod error;
mod flags;
mod leadership;
mod logging;
mod malloc;
mod node_observation;
mod node_reports;
mod output;
mod paged_list;
mod playground;
mod rlimit;
mod runtime;
mod shutdown;
mod status_client;
mod traffic;

use std::process::ExitCode;

/// Exit code for an invalid command line.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    malloc::limit_arenas();
    // Pod sandboxes and the echo program are this binary under hidden names. They need neither threads nor logs.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = agent::internal_command(&arguments) {
        return code;
    }
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(code) => return exit_code(code),
    };
    logging::start(&cli.global.log);
    match dispatch::run(cli.command) {
        Ok(code) => exit_code(code),
        Err(error) if error::is_usage(&*error) => {
            eprintln!("portolan: {error} ({})", cli::help_hint());
            ExitCode::from(EXIT_USAGE)
        }
        Err(error) => {
            eprintln!("portolan: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the exit code of a command, which has failed if its result was not written.
fn exit_code(code: ExitCode) -> ExitCode {
    match output::failure() {
        Some(error) => {
            eprintln!("portolan: standard output: {error}");
            ExitCode::FAILURE
        }
        None => code,
    }
}
