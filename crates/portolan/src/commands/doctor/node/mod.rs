//! `portolan doctor node`: findings from the state of this host alongside the objects of a cluster.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use api::object::ObjectKey;
use clap::{ArgAction, Args};
use client::Client;
use explain::{Finding, Kind, NodeObservation, Options, Scope, examine};
use tokio::runtime::Runtime;

use super::report::{self, EXIT_NOT_EXAMINED, Format};
use super::scope::{self, ScopeFlags};
use super::source::Source;
use super::text;
use crate::error::{CommandError, FileError};
use crate::flags::administrator::AdministratorFlags;
use crate::flags::values::hostname;
use crate::node_observation::{Cluster, PLAN_KINDS, Request, clock_offset, observe};
use crate::{output, runtime};

/// Time for the first response of the API server. Without one, the host alone is examined.
const FIRST_RESPONSE_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Flags of `portolan doctor node`.
#[derive(Debug, Args)]
pub(super) struct Flags {
    #[command(flatten)]
    scope: ScopeFlags,
    /// File with objects as JSON or YAML, as `kubectl get -o json` prints them, or - for standard input; repeatable
    /// [default: the objects of the API server]
    #[arg(long, value_name = "FILE")]
    from_file: Vec<PathBuf>,
    /// Name of the Node of this host [default: the host name in lower case]
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Write the observation to a file, or - for standard output without findings; `portolan doctor --from-file` reads it
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Send packets to the endpoints and addresses of Services [default: true if a Service is named]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set, value_name = "BOOL")]
    probe: Option<bool>,
    /// Output format
    #[arg(long, short, default_value = "text", value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    administrator: AdministratorFlags,
}

/// Objects, and the connection to the API server that they come from.
struct Objects {
    source: Source,
    api: Option<(Runtime, Client)>,
    clock_offset_seconds: Option<f64>,
    /// Reason why there are no objects.
    problem: Option<String>,
}

/// Observes this host, examines the observation with the objects, and prints the findings. The exit codes are those of
/// `portolan doctor`.
///
/// # Errors
///
/// An error if a flag is invalid, the observation cannot be written, or the output cannot be encoded.
pub(super) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let scope = flags.scope.parse()?;
    let node_name = flags.node.clone().unwrap_or_else(hostname);
    let mut objects = match read_objects(flags) {
        Ok(objects) => objects,
        Err(error) => {
            eprintln!("portolan: {error}");
            return Ok(ExitCode::from(EXIT_NOT_EXAMINED));
        }
    };
    match &objects.problem {
        Some(problem) => report::warn(std::slice::from_ref(problem)),
        None => report::warn(&objects.source.problems(Some(&node_name))),
    }
    let observation = observation(flags, &node_name, &scope, &objects);
    if let Some(path) = &flags.record {
        record(path, &observation)?;
        if path.as_os_str() == "-" {
            return Ok(ExitCode::SUCCESS);
        }
    }
    objects.source.builder.add(serde_json::to_value(&observation)?);
    let absent = text::unread_kinds(&objects.source);
    let world = objects.source.builder.build();
    let options = Options {
        node: Some(node_name.clone()),
    };
    let mut findings = examine(&world, &scope, &options);
    findings.retain(|finding| concerns_this_node(finding, &node_name));
    let subject = match &scope {
        Scope::All => format!("Node {node_name}"),
        Scope::Service { .. } => format!("Node {node_name}, {}", text::subject(&world, &scope)),
    };
    report::print(flags.output, &subject, &findings, &absent)
}

/// Returns false for findings about other nodes.
fn concerns_this_node(finding: &Finding, node_name: &str) -> bool {
    finding.object.kind != Kind::Node.name() || finding.object.name == node_name
}

/// Reads the objects of the files, or else of the API server. Files that the user names are required.
fn read_objects(flags: &Flags) -> Result<Objects, CommandError> {
    if !flags.from_file.is_empty() {
        return Ok(Objects {
            source: Source::from_files(&flags.from_file)?,
            api: None,
            clock_offset_seconds: None,
            problem: None,
        });
    }
    match read_api(flags) {
        Ok(objects) => Ok(objects),
        Err(error) => Ok(Objects {
            source: Source::empty(),
            api: None,
            clock_offset_seconds: None,
            problem: Some(format!(
                "the objects of the cluster are not examined, only this host: {error}"
            )),
        }),
    }
}

fn read_api(flags: &Flags) -> Result<Objects, CommandError> {
    let client = flags.administrator.client()?;
    let runtime = runtime::multi_thread(1)?;
    let (source, clock_offset_seconds) = runtime.block_on(async {
        let offset = tokio::time::timeout(FIRST_RESPONSE_TIMEOUT, clock_offset(&client)).await;
        let offset = offset.map_err(|_| {
            format!(
                "{} did not respond within {FIRST_RESPONSE_TIMEOUT:?}",
                client.server()
            )
        })??;
        let source = Source::from_api(&client).await?;
        Ok::<_, CommandError>((source, offset))
    })?;
    Ok(Objects {
        source,
        api: Some((runtime, client)),
        clock_offset_seconds,
        problem: None,
    })
}

/// Observes this host. Reasons for absent parts are warnings.
fn observation(flags: &Flags, node_name: &str, scope: &Scope, objects: &Objects) -> NodeObservation {
    let service = scope::service(scope);
    let cluster = Cluster::read(&objects.source.builder, service.as_ref());
    let read_again = || read_again(objects, service.as_ref());
    let read_again: &(dyn Fn() -> Option<Cluster> + Sync) = &read_again;
    let request = Request {
        node_name,
        cluster: &cluster,
        clock_offset_seconds: objects.clock_offset_seconds,
        probes: flags.probe.unwrap_or(service.is_some()),
        source_pod: None,
        read_again: objects.api.is_some().then_some(read_again),
    };
    let (observation, gaps) = observe(&request);
    report::warn(&gaps.warnings());
    observation
}

/// Reads the objects of the proxy's plan again; `None` if the user may not read all of them.
fn read_again(objects: &Objects, service: Option<&ObjectKey>) -> Option<Cluster> {
    let (runtime, client) = objects.api.as_ref()?;
    let source = runtime.block_on(Source::of_kinds(client, PLAN_KINDS)).ok()?;
    source
        .forbidden
        .is_empty()
        .then(|| Cluster::read(&source.builder, service))
}

/// Writes an observation as JSON.
fn record(path: &Path, observation: &NodeObservation) -> Result<(), CommandError> {
    let text = format!("{:#}\n", serde_json::to_value(observation)?);
    if path.as_os_str() == "-" {
        output::print(&text);
        return Ok(());
    }
    Ok(std::fs::write(path, text).map_err(FileError::at(path))?)
}

#[cfg(test)]
mod tests;
