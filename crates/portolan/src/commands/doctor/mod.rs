//! `portolan doctor`: diagnosis of Services that do not respond, from the objects of a cluster or of files.
//!
//! - [`recurring`]: repeated examinations, with Events and metrics
//! - [`source`]: objects of the API or of files
//! - [`observations`]: observations of nodes through the API server
//! - [`outside`]: probes from this host
//! - [`client`]: the client whose connections are examined
//! - [`scope`]: the Service that the command names
//! - [`report`]: output of the findings and exit code
//! - [`text`]: human-readable form of the findings
//! - [`node`]: `portolan doctor node`, the state of this host alongside the objects

mod client;
mod node;
mod observations;
mod outside;
mod recurring;
mod report;
pub(crate) mod scope;
pub(crate) mod source;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use ::client::Client;
use clap::{Args, Subcommand};
use explain::trace::ClientName;
use explain::{Options, Scope, Severity, examine};

use self::client::ExaminedClient;
use crate::error::{CommandError, UsageError, is_usage};
use crate::flags::administrator::AdministratorFlags;
use crate::runtime;
use observations::ObservationFlags;
use outside::OutsideProbes;
use report::{EXIT_NOT_EXAMINED, Format};
use scope::ScopeFlags;
use source::Source;

/// Flags of `portolan doctor`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Flags {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    scope: ScopeFlags,
    /// File with objects as JSON or YAML, as `kubectl get -o json` prints them, or - for standard input; repeatable
    /// [default: the objects of the API server]
    #[arg(long, value_name = "FILE")]
    from_file: Vec<PathBuf>,
    /// Examine connections from this node [default: all nodes]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Examine the connections of this client: pod/NAMESPACE/NAME, node/NAME, or the address of a Pod or Node.
    /// Selects its node, as --node does; a Pod sends the probes of --probe to cluster IPs
    #[arg(long, value_name = "CLIENT", conflicts_with_all = ["node", "interval"])]
    from: Option<ClientName>,
    /// Output format
    #[arg(long, short, default_value = "text", value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    administrator: AdministratorFlags,
    #[command(flatten)]
    observations: ObservationFlags,
    #[command(flatten)]
    recurring: recurring::RecurringFlags,
}

/// Subcommands of `portolan doctor`.
#[derive(Debug, Subcommand)]
enum Action {
    /// Examine this host: kernel, processes, network, and on request responses to probes
    Node(Box<node::Flags>),
}

/// Examines the objects and prints the findings. The exit code is 1 with an error or warning, and 2 if the objects
/// cannot be read.
///
/// # Errors
///
/// An error if a flag is invalid, or the output cannot be encoded.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    if let Some(Action::Node(flags)) = &flags.action {
        return node::run(flags);
    }
    if let Some(interval) = flags.recurring.interval {
        let options = Options {
            node: flags.node.clone(),
        };
        return recurring::run(&flags.recurring, interval, &flags.administrator, options);
    }
    let scope = flags.scope.parse()?;
    let input = match read(flags, &scope) {
        Ok(input) => input,
        Err(error) if is_usage(&*error) => return Err(error),
        Err(error) => {
            eprintln!("portolan: {error}");
            return Ok(ExitCode::from(EXIT_NOT_EXAMINED));
        }
    };
    let Input {
        source,
        examined_client,
        problems,
    } = input;
    report::warn(&source.problems(examined_client.node.as_deref()));
    report::warn(&problems);
    let absent = text::unread_kinds(&source);
    let world = source.builder.build();
    let findings = examine(
        &world,
        &scope,
        &Options {
            node: examined_client.node,
        },
    );
    let subject = text::subject(&world, &scope);
    report::print(flags.output, &subject, &findings, &absent)
}

/// Objects and the client to examine.
struct Input {
    source: Source,
    examined_client: ExaminedClient,
    /// Reasons why nodes are not observed.
    problems: Vec<String>,
}

/// Numbers of errors and warnings that an examination of all Services finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
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
pub(crate) async fn count(client: &Client) -> Result<Counts, CommandError> {
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

fn read(flags: &Flags, scope: &Scope) -> Result<Input, CommandError> {
    if !flags.from_file.is_empty() {
        let mut source = Source::from_files(&flags.from_file)?;
        let examined_client = examined_client(flags, &source)?;
        let problems = start_probes(flags, &source, scope)?.finish(&mut source)?;
        return Ok(Input {
            source,
            examined_client,
            problems,
        });
    }
    let client = flags.administrator.client()?;
    runtime::multi_thread(1)?.block_on(async {
        let mut source = Source::from_api(&client).await?;
        let examined_client = examined_client(flags, &source)?;
        let service = scope::service(scope);
        let probing = start_probes(flags, &source, scope)?;
        let added = flags
            .observations
            .add(&client, &mut source, service.as_ref(), &examined_client);
        let mut problems = added.await?;
        problems.extend(probing.finish(&mut source)?);
        Ok(Input {
            source,
            examined_client,
            problems,
        })
    })
}

/// Starts the probes from this host, if the user requests them.
fn start_probes(flags: &Flags, source: &Source, scope: &Scope) -> Result<OutsideProbes, CommandError> {
    if flags.observations.probes_outside() {
        OutsideProbes::start(source, scope::service(scope).as_ref())
    } else {
        Ok(OutsideProbes::none())
    }
}

fn examined_client(flags: &Flags, source: &Source) -> Result<ExaminedClient, UsageError> {
    match &flags.from {
        Some(name) => ExaminedClient::find(&source.builder, name),
        None => Ok(ExaminedClient::on(flags.node.clone())),
    }
}

#[cfg(test)]
mod tests;
