//! `portolan plan`: what a node would do with objects in a file, computed here, without a cluster.

mod objects;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;

use api::object::Labels;
use clap::{Args, ValueEnum};
use plan::{NodeFacts, Plan, Settings};

use super::Failure;
use crate::cli::say;
use crate::flags::BadValue;
use objects::Objects;

/// The label of a Node's zone.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// Flags of `portolan plan`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Name of the node to compute for: endpoints with it are local
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// The node's labels; those of its Node in the file if not given
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE,…", value_parser = label)]
    node_labels: Option<Vec<(String, String)>>,
    /// File with Services and EndpointSlices, JSON or YAML, one or several documents or Lists; `-` for the
    /// standard input
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// How to print it: `json` and `yaml` have the terms of conformance/endpoint-choice.json
    #[arg(long, short, default_value = "text", value_name = "FORMAT")]
    output: Output,
}

/// How the result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One JSON object: an entry for each Service port and family
    Json,
    /// The same as YAML
    Yaml,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!(
            "{text:?} is not KEY=VALUE; an example is {ZONE_LABEL}=zone-a"
        )),
    }
}

/// Computes and prints. What cannot be used is said on standard error; the rest is computed.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let text = read(&flags.from)?;
    let objects =
        Objects::parse(&text).map_err(|error| format!("cannot read {}: {error}", flags.from.display()))?;
    let node = flags.node.clone().or_else(|| objects.node_name.clone());
    let Some(node) = node.filter(|node| !node.is_empty()) else {
        let message = "--node is missing: name the node to compute for";
        return Err(BadValue(message.to_owned()).into());
    };
    let labels = match &flags.node_labels {
        Some(labels) => labels.iter().cloned().collect(),
        None => objects.labels_of(&node),
    };
    let plan = compute(&objects, &node, &labels);
    for complaint in objects.complaints.iter().cloned().chain(complaints(&plan)) {
        eprintln!("portolan: {complaint}");
    }
    say(&match flags.output {
        Output::Text => view::text(&plan),
        Output::Json => format!("{:#}\n", view::value(&plan)),
        Output::Yaml => serde_saphyr::to_string(&view::value(&plan))?,
    });
    Ok(match objects.complaints.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The plan of a node for these objects.
fn compute(objects: &Objects, node: &str, labels: &Labels) -> Plan {
    let mut plan = Plan::new(Settings {
        node_name: node.to_owned(),
        ..Settings::default()
    });
    plan.set_node(NodeFacts {
        zone: labels.get(ZONE_LABEL).filter(|zone| !zone.is_empty()).cloned(),
        ips: Vec::new(),
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

fn complaints(plan: &Plan) -> impl Iterator<Item = String> {
    plan.faults()
        .map(|(service, fault)| format!("warning: Service {service}: {fault}"))
}

fn read(path: &PathBuf) -> Result<String, Failure> {
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|error| format!("cannot read {}: {error}", path.display()).into())
}

#[cfg(test)]
mod tests;
