//! `portolan plan`: proxy decisions of a node for the objects in a file, without a cluster.

mod objects;
mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use api::object::Labels;
use clap::{Args, ValueEnum};
use plan::{NodeFacts, Plan, Settings};

use crate::error::{CommandError, FileError, UsageError};
use crate::flags::values::label;
use crate::output;
use objects::Objects;

/// Label of the zone of a Node.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// Flags of `portolan plan`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// File with Services and EndpointSlices as JSON or YAML, or - for standard input
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Name of the node; endpoints on it are local
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Labels of the node [default: those of its Node in the file]
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE,…", value_parser = label)]
    node_labels: Option<Vec<(String, String)>>,
    /// Output format; json and yaml have the fields of conformance/endpoint-choice.json
    #[arg(long, short, default_value = "text", value_name = "FORMAT")]
    output: Format,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable text
    Text,
    /// JSON object with an entry per Service port and IP family
    Json,
    /// The same in YAML
    Yaml,
}

/// Computes and prints the decisions. Invalid objects are reported on standard error and skipped.
///
/// # Errors
///
/// An error if the file is unreadable or no node is named.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let text = read(&flags.from)?;
    let objects =
        Objects::parse(&text).map_err(|error| format!("invalid {}: {error}", flags.from.display()))?;
    let node = flags.node.clone().or_else(|| objects.node_name.clone());
    let Some(node) = node.filter(|node| !node.is_empty()) else {
        return Err(UsageError::new("--node is missing: name the node").into());
    };
    let labels = match &flags.node_labels {
        Some(labels) => labels.iter().cloned().collect(),
        None => objects.labels_of(&node),
    };
    let plan = compute(&objects, &node, &labels);
    for problem in objects.problems.iter().cloned().chain(faults(&plan)) {
        eprintln!("portolan: {problem}");
    }
    output::print(&match flags.output {
        Format::Text => view::text(&plan),
        Format::Json => format!("{:#}\n", view::value(&plan)),
        Format::Yaml => serde_saphyr::to_string(&view::value(&plan))?,
    });
    Ok(if objects.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Computes the plan of a node.
fn compute(objects: &Objects, node: &str, labels: &Labels) -> Plan {
    let mut plan = Plan::new(Settings {
        node_name: node.to_owned(),
        ..Settings::default()
    });
    plan.set_node(NodeFacts {
        zone: labels.get(ZONE_LABEL).filter(|zone| !zone.is_empty()).cloned(),
        ..NodeFacts::default()
    });
    for slice in &objects.slices {
        plan.apply_slice(slice);
    }
    for service in &objects.services {
        plan.apply_service(service);
    }
    plan.take_changes();
    plan
}

fn faults(plan: &Plan) -> impl Iterator<Item = String> {
    plan.faults()
        .map(|(service, fault)| format!("warning: Service {service}: {fault}"))
}

fn read(path: &Path) -> Result<String, FileError> {
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(FileError::at(path))
}

#[cfg(test)]
mod tests;
