//! `portolan env`: environment variables of the containers of a Pod, with their sources.
//!
//! The variables are computed from the objects of the API. A running container keeps those of its start: Services that
//! are newer are omitted. Services that have been deleted since are unknown.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::ExitCode;

use agent::containers::environment::{
    Capacity, PodFacts, Sources, Variables, container_variables, referenced_sources, service_variables,
    visible_services,
};
use agent::object::quantity::Quantity;
use agent::object::{Container, Pod};
use agent::volumes::read_variables;
use api::object::Service;
use clap::Args;
use client::Client;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::error::CommandError;
use crate::flags::administrator::AdministratorFlags;
use crate::{output, runtime};

/// Flags of `portolan env`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Pod; the default namespace is `default`
    #[arg(value_name = "NAMESPACE/POD")]
    pod: String,
    /// Container of the Pod [default: all]
    #[arg(long, short, value_name = "NAME")]
    container: Option<String>,
    #[command(flatten)]
    administrator: AdministratorFlags,
}

/// Prints the variables of each container.
///
/// # Errors
///
/// An error if the Pod or the container does not exist, or a request fails.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let (namespace, name) = flags.pod.split_once('/').unwrap_or(("default", &flags.pod));
    let text = runtime::multi_thread(1)?.block_on(async {
        let client = flags.administrator.client()?;
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let object: Value = client.get(&path).await?;
        let pod = Pod::deserialize(&object)?;
        let facts = PodFacts {
            host_ips: ips(&object["status"]["hostIPs"]),
            pod_ips: ips(&object["status"]["podIPs"]),
            capacity: capacity(&client, &pod).await?,
        };
        let services: List = client.get("/api/v1/services").await?;
        let mut text = String::new();
        for container in pod.spec.all_containers() {
            if flags
                .container
                .as_ref()
                .is_some_and(|name| *name != container.name)
            {
                continue;
            }
            let sources = sources(&client, &pod, container).await?;
            let (present, newer) = split_by_age(&services.items, started_at(&object, &container.name));
            text.push_str(&environment(&pod, container, &facts, &present, &sources)?);
            text.push_str(&omission_line(&pod, &newer));
        }
        Ok::<_, CommandError>(text)
    })?;
    if text.is_empty() {
        return Err(format!(
            "pod {name} has no container {}",
            flags.container.as_deref().unwrap_or_default()
        )
        .into());
    }
    output::print(&text);
    Ok(ExitCode::SUCCESS)
}

/// Returns the start of a container; `None` if it has not started.
fn started_at(pod: &Value, container: &str) -> Option<Timestamp> {
    let status = &pod["status"];
    let lists = [
        &status["containerStatuses"],
        &status["initContainerStatuses"],
        &status["ephemeralContainerStatuses"],
    ];
    let mut statuses = lists.into_iter().filter_map(Value::as_array).flatten();
    let state = &statuses.find(|status| status["name"] == container)?["state"];
    let started = [&state["running"]["startedAt"], &state["terminated"]["startedAt"]];
    started.into_iter().find_map(|time| time.as_str()?.parse().ok())
}

/// Divides Services into those that existed at the start of a container and newer ones, whose variables it lacks
/// (ENV-11). All exist if it has not started.
fn split_by_age(services: &[Service], started: Option<Timestamp>) -> (Vec<Service>, Vec<Service>) {
    let existed = |service: &Service| {
        let created = service.metadata.creation_timestamp.as_deref();
        let created = created.and_then(|time| time.parse::<Timestamp>().ok());
        started
            .zip(created)
            .is_none_or(|(started, created)| created <= started)
    };
    services.iter().cloned().partition(existed)
}

/// Returns the line about Services whose variables the container lacks.
fn omission_line(pod: &Pod, newer: &[Service]) -> String {
    let links = pod.spec.enable_service_links.unwrap_or(true);
    let visible = visible_services(newer, &pod.metadata.namespace, links);
    let names = visible.iter().map(|service| {
        let meta = &service.metadata;
        format!("{}/{}", meta.namespace, meta.name)
    });
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        "# not set, because the Service is newer than the container: {}\n",
        names.join(", ")
    )
}

/// Parses a list of addresses of a Pod's status.
fn ips(list: &Value) -> Vec<IpAddr> {
    let entries = list.as_array().into_iter().flatten();
    entries
        .filter_map(|entry| entry["ip"].as_str()?.parse().ok())
        .collect()
}

/// Reads the capacity of the Pod's Node; zero if the Pod is not scheduled.
async fn capacity(client: &Client, pod: &Pod) -> Result<Capacity, CommandError> {
    let node = &pod.spec.node_name;
    if node.is_empty() {
        return Ok(Capacity::default());
    }
    let node: Value = client.get(&format!("/api/v1/nodes/{node}")).await?;
    let units = |resource: &str| {
        let text = node["status"]["allocatable"][resource].as_str();
        text.and_then(Quantity::parse).map_or(0, Quantity::units)
    };
    Ok(Capacity {
        cpus: units("cpu"),
        memory_bytes: units("memory"),
    })
}

/// List of Services.
#[derive(Deserialize)]
struct List {
    items: Vec<Service>,
}

/// Reads the ConfigMaps and Secrets that a container refers to. Missing objects are omitted; mandatory ones
/// cause an error later.
async fn sources(client: &Client, pod: &Pod, container: &Container) -> Result<Sources, CommandError> {
    let mut sources = Sources::new();
    for (kind, name) in referenced_sources(container) {
        match read_variables(client, &pod.metadata.namespace, kind, name).await {
            Ok(variables) => {
                sources.insert((kind, name.to_owned()), variables);
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sources)
}

fn environment(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
    services: &[Service],
    sources: &Sources,
) -> Result<String, CommandError> {
    let links = pod.spec.enable_service_links.unwrap_or(true);
    let visible = visible_services(services, &pod.metadata.namespace, links);
    // Later Services override variables of earlier ones, as in the container.
    let mut origins: BTreeMap<String, String> = BTreeMap::new();
    for service in &visible {
        let meta = &service.metadata;
        let origin = format!("Service {}/{}", meta.namespace, meta.name);
        let names = service_variables([*service]).into_keys();
        origins.extend(names.map(|name| (name, origin.clone())));
    }
    let variables = container_variables(pod, container, facts, &service_variables(visible), sources)?;
    Ok(text(container, &variables, &origins))
}

fn text(container: &Container, variables: &Variables, services: &BTreeMap<String, String>) -> String {
    let mut text = format!("# container {}\n", container.name);
    for (name, value) in variables {
        let is_own = container.env.iter().any(|own| own.name == *name);
        let is_from = |from: &&agent::object::EnvFrom| name.starts_with(from.prefix.as_str());
        let origin = match services.get(name) {
            _ if is_own => "env",
            Some(service) => service,
            None if matches!(name.as_str(), "PATH" | "HOSTNAME") => "every container",
            None if container.env_from.iter().any(|from| is_from(&from)) => "envFrom",
            None => "every container",
        };
        text.push_str(&format!("{name}={value}\t# {origin}\n"));
    }
    text
}

#[cfg(test)]
mod tests;
