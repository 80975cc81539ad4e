//! `portolan doctor`: causes for which Services do not answer, from the objects of a cluster or of files.
//!
//! - [`recurring`]: repeated examinations, with Events and metrics
//! - [`source`]: objects of the API or of files
//! - [`text`]: human-readable form of the findings

mod recurring;
pub mod source;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use client::Client;
use explain::{Finding, Options, Scope, Severity, examine};
use serde_json::{Value, json};

use crate::error::{CommandError, UsageError};
use crate::flags::administrator::AdministratorFlags;
use crate::flags::values::{OptionalAddress, duration, optional_address};
use crate::{output, runtime};
use source::Source;

/// Exit code if the objects cannot be read.
const EXIT_NOT_EXAMINED: u8 = 2;

/// Shortest time between two examinations.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Flags of `portolan doctor`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Kind of the object to examine [default: all Services]
    #[arg(value_name = "KIND", requires = "name")]
    kind: Option<SubjectKind>,
    /// Namespace and name of the Service; the default namespace is `default`
    #[arg(value_name = "NAMESPACE/NAME", requires = "kind")]
    name: Option<String>,
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
    recurring: RecurringFlags,
    #[command(flatten)]
    administrator: AdministratorFlags,
}

/// Flags of repeated examinations.
#[derive(Debug, Args)]
#[command(next_help_heading = "Repeated examinations")]
struct RecurringFlags {
    /// Examine all Services repeatedly until SIGTERM, such as every 1m, and record Events on Services with lasting findings
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with_all = ["kind", "from_file", "output"])]
    interval: Option<Duration>,
    /// Address of /metrics and /healthz; empty disables the server
    #[arg(long, default_value = "127.0.0.1:10269", value_name = "ADDRESS:PORT", value_parser = optional_address, requires = "interval")]
    metrics_bind_address: OptionalAddress,
}

/// Kind of the object to examine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SubjectKind {
    /// One Service
    #[value(aliases = ["svc", "services"])]
    Service,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable text
    Text,
    /// JSON object with the list `findings`
    Json,
    /// The same in YAML
    Yaml,
}

/// Examines the objects and prints the findings. The exit code is 1 with an error or warning, and 2 if the objects cannot be
/// read.
///
/// # Errors
///
/// An error if a flag is invalid, or the output cannot be encoded.
pub fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    if let Some(interval) = flags.recurring.interval {
        return run_repeatedly(flags, interval);
    }
    let scope = scope(flags.name.as_deref())?;
    let source = match read(flags) {
        Ok(source) => source,
        Err(error) => {
            eprintln!("portolan: {error}");
            return Ok(ExitCode::from(EXIT_NOT_EXAMINED));
        }
    };
    for problem in source.problems(flags.node.as_deref()) {
        eprintln!("portolan: warning: {problem}");
    }
    let options = Options {
        node: flags.node.clone(),
    };
    let absent = text::absent(&source);
    let world = source.builder.build();
    let findings = examine(&world, &scope, &options);
    output::print(&match flags.output {
        Format::Text => text::render(&world, &scope, &findings, &absent),
        Format::Json => format!("{:#}\n", value(&findings)?),
        Format::Yaml => serde_saphyr::to_string(&value(&findings)?)?,
    });
    let is_faulty = findings.iter().any(|finding| finding.severity != Severity::Info);
    Ok(if is_faulty {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Numbers of errors and warnings that an examination of all Services finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Findings for which connections fail.
    pub errors: usize,
    /// Findings for which some connections fail.
    pub warnings: usize,
}

/// Examines all Services of a cluster, and counts the findings.
///
/// # Errors
///
/// An error if the server does not respond, or if Services cannot be read.
pub async fn count(client: &Client) -> Result<Counts, CommandError> {
    let world = Source::from_api(client).await?.builder.build();
    let findings = examine(&world, &Scope::All, &Options::default());
    let of = |severity| {
        let alike = findings.iter().filter(|finding| finding.severity == severity);
        alike.count()
    };
    Ok(Counts {
        errors: of(Severity::Error),
        warnings: of(Severity::Warning),
    })
}

fn run_repeatedly(flags: &Flags, interval: Duration) -> Result<ExitCode, CommandError> {
    if interval < INTERVAL_MIN {
        return Err(UsageError::new("--interval must be at least 1s").into());
    }
    let settings = recurring::Settings {
        interval,
        metrics_address: flags.recurring.metrics_bind_address.0,
        options: Options {
            node: flags.node.clone(),
        },
    };
    let client = flags.administrator.client()?;
    runtime::multi_thread(1)?.block_on(recurring::run(client, settings))?;
    Ok(ExitCode::SUCCESS)
}

fn read(flags: &Flags) -> Result<Source, CommandError> {
    if flags.from_file.is_empty() {
        let client = flags.administrator.client()?;
        return runtime::multi_thread(1)?.block_on(Source::from_api(&client));
    }
    Source::from_files(&flags.from_file)
}

fn scope(name: Option<&str>) -> Result<Scope, UsageError> {
    let Some(name) = name else {
        return Ok(Scope::All);
    };
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err(UsageError::new(
            "the Service must have the form NAMESPACE/NAME, for example shop/web",
        ));
    }
    Ok(Scope::Service {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

fn value(findings: &[Finding]) -> Result<Value, serde_json::Error> {
    Ok(json!({"findings": serde_json::to_value(findings)?}))
}

#[cfg(test)]
mod tests;
