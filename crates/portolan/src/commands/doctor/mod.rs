//! `portolan doctor`: causes for which Services do not answer, from the objects of a cluster or of files.
//!
//! - [`recurring`]: repeated examinations, with Events and metrics
//! - [`source`]: objects of the API or of files
//! - [`scope`]: the Service that the command names
//! - [`report`]: output of the findings and exit code
//! - [`text`]: human-readable form of the findings
//! - [`node`]: `portolan doctor node`, the state of this machine beside the objects

mod node;
mod recurring;
mod report;
pub mod scope;
pub mod source;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use client::Client;
use explain::{Options, Scope, Severity, examine};

use crate::error::CommandError;
use crate::flags::administrator::AdministratorFlags;
use crate::runtime;
use report::{EXIT_NOT_EXAMINED, Format};
use scope::ScopeFlags;
use source::Source;

/// Flags of `portolan doctor`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Flags {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    scope: ScopeFlags,
    /// File with objects as JSON or YAML, as `kubectl get -o json` prints them, or - for standard input; repeatable
    /// [default: the objects of the API server]
    #[arg(long, value_name = "FILE")]
    from_file: Vec<PathBuf>,
    /// Node whose clients are judged [default: all nodes]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Output format
    #[arg(long, short, default_value = "text", value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    recurring: recurring::RecurringFlags,
    #[command(flatten)]
    administrator: AdministratorFlags,
}

/// Subcommands of `portolan doctor`.
#[derive(Debug, Subcommand)]
enum Action {
    /// Examine this machine: kernel, processes, network, and on request responses to probes
    Node(Box<node::Flags>),
}

/// Examines the objects and prints the findings. The exit code is 1 with an error or warning, and 2 if the objects cannot be
/// read.
///
/// # Errors
///
/// An error if a flag is invalid, or the output cannot be encoded.
pub fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    if let Some(Action::Node(flags)) = &flags.action {
        return node::run(flags);
    }
    let options = Options {
        node: flags.node.clone(),
    };
    if let Some(interval) = flags.recurring.interval {
        return recurring::run(&flags.recurring, interval, &flags.administrator, options);
    }
    let scope = flags.scope.parse()?;
    let source = match read(flags) {
        Ok(source) => source,
        Err(error) => {
            eprintln!("portolan: {error}");
            return Ok(ExitCode::from(EXIT_NOT_EXAMINED));
        }
    };
    report::warn(&source.problems(flags.node.as_deref()));
    let absent = text::absent(&source);
    let world = source.builder.build();
    let findings = examine(&world, &scope, &options);
    let subject = text::subject(&world, &scope);
    report::print(flags.output, &subject, &findings, &absent)
}

/// Numbers of errors and warnings that an examination of all Services finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Findings for which connections fail.
    pub errors: usize,
    /// Findings for which some connections fail.
    pub warnings: usize,
    /// Kinds that the user must not list. Findings that depend on them are missing.
    pub forbidden: Vec<&'static str>,
}

/// Examines all Services of a cluster, and counts the findings.
///
/// # Errors
///
/// An error if the server does not respond, or if Services cannot be read.
pub async fn count(client: &Client) -> Result<Counts, CommandError> {
    let source = Source::from_api(client).await?;
    let world = source.builder.build();
    let findings = examine(&world, &Scope::All, &Options::default());
    let of = |severity| {
        let alike = findings.iter().filter(|finding| finding.severity == severity);
        alike.count()
    };
    Ok(Counts {
        errors: of(Severity::Error),
        warnings: of(Severity::Warning),
        forbidden: source.forbidden,
    })
}

fn read(flags: &Flags) -> Result<Source, CommandError> {
    if flags.from_file.is_empty() {
        let client = flags.administrator.client()?;
        return runtime::multi_thread(1)?.block_on(Source::from_api(&client));
    }
    Source::from_files(&flags.from_file)
}

#[cfg(test)]
mod tests;
