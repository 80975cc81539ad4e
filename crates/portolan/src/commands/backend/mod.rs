//! `portolan backend`: non-Pod backends of Services, with health checks.

mod add;
mod check;
mod slices;

use std::net::SocketAddr;
use std::process::ExitCode;

use api::object::{EndpointSlice, Resource, SERVICE_NAME_LABEL, Service};
use clap::{Args, Subcommand};
use controllers::backends::{MANAGED_BY, probe_of};
use http::Method;
use serde::Deserialize;

use self::check::Check;
use crate::error::CommandError;
use crate::flags::administrator::AdministratorFlags;
use crate::{output, runtime};

/// Subcommands of `portolan backend`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add a backend to a Service without a selector, with a health check
    Add(add::Flags),
    /// List backends with their readiness
    List(ListFlags),
    /// Remove a backend from a Service
    #[command(alias = "delete")]
    Remove(RemoveFlags),
}

/// Cluster and namespace of the Service.
#[derive(Debug, Args)]
pub(crate) struct Scope {
    /// Namespace of the Service
    #[arg(long, short, default_value = "default", value_name = "NAMESPACE")]
    namespace: String,
    #[command(flatten)]
    administrator: AdministratorFlags,
}

/// Flags of `portolan backend list`.
#[derive(Debug, Args)]
pub(crate) struct ListFlags {
    /// Service [default: all]
    #[arg(value_name = "SERVICE")]
    service: Option<String>,
    #[command(flatten)]
    scope: Scope,
}

/// Flags of `portolan backend remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveFlags {
    /// Service of the backend
    #[arg(value_name = "SERVICE")]
    service: String,
    /// Address of the backend, or name of its EndpointSlice
    #[arg(value_name = "ADDRESS:PORT|NAME")]
    backend: String,
    #[command(flatten)]
    scope: Scope,
}

/// Adds, lists or removes backends.
///
/// # Errors
///
/// An error if a flag is invalid or a request fails.
pub(crate) fn run(command: &Command) -> Result<ExitCode, CommandError> {
    let text = runtime::multi_thread(1)?.block_on(async {
        match command {
            Command::Add(flags) => add::run(flags).await,
            Command::List(flags) => list(flags).await,
            Command::Remove(flags) => remove(flags).await,
        }
    })?;
    output::print(&text);
    Ok(ExitCode::SUCCESS)
}

/// List of EndpointSlices.
#[derive(Deserialize)]
struct Slices {
    items: Vec<EndpointSlice>,
}

/// Lists the EndpointSlices of backends in a namespace, of all Services or of one.
async fn read(
    client: &client::Client,
    namespace: &str,
    service: Option<&str>,
) -> Result<Vec<EndpointSlice>, CommandError> {
    let label = controllers::endpoint_slice::MANAGED_BY_LABEL;
    let mut selector = format!("{label}={MANAGED_BY}");
    if let Some(service) = service {
        selector.push_str(&format!(",{SERVICE_NAME_LABEL}={service}"));
    }
    let mut path = format!("{}?labelSelector=", EndpointSlice::collection(Some(namespace)));
    client::push_escaped(&mut path, &selector);
    let list: Slices = client.get(&path).await?;
    Ok(list.items)
}

async fn list(flags: &ListFlags) -> Result<String, CommandError> {
    let client = flags.scope.administrator.client()?;
    let namespace = &flags.scope.namespace;
    let slices = read(&client, namespace, flags.service.as_deref()).await?;
    if slices.is_empty() {
        if let Some(service) = &flags.service {
            check_exists(&client, namespace, service).await?;
        }
        return Ok(format!("No backends found in namespace {namespace}.\n"));
    }
    Ok(table(&slices))
}

/// Fails with kubectl's text if a Service does not exist.
async fn check_exists(client: &client::Client, namespace: &str, service: &str) -> Result<(), CommandError> {
    let mut path = format!("{}/", Service::collection(Some(namespace)));
    client::push_escaped(&mut path, service);
    match client.get::<Service>(&path).await {
        Ok(_) => Ok(()),
        Err(error) if error.is_not_found() => Err(format!("services {service:?} not found").into()),
        Err(error) => Err(error.into()),
    }
}

fn table(slices: &[EndpointSlice]) -> String {
    let mut rows = vec![["SERVICE", "BACKEND", "PORT", "CHECK", "READY", "NAME"].map(str::to_owned)];
    for slice in slices {
        let port = slice.ports.first();
        let number = port.and_then(|port| port.port);
        let port_name = port.and_then(|port| port.name.as_deref()).unwrap_or_default();
        let check = match probe_of(slice) {
            Ok(Some(probe)) => Check::describe(&probe, number),
            Ok(None) => "none".to_owned(),
            Err(_) => "invalid".to_owned(),
        };
        for backend in slices::backends(slice) {
            let is_ready = match backend.is_ready {
                Some(false) => "False",
                Some(true) | None => "True",
            };
            rows.push([
                slice.service_name().unwrap_or_default().to_owned(),
                backend.address.to_string(),
                if port_name.is_empty() {
                    "<unset>"
                } else {
                    port_name
                }
                .to_owned(),
                check.clone(),
                is_ready.to_owned(),
                slice.metadata.name.clone(),
            ]);
        }
    }
    slices::aligned_table(&rows)
}

async fn remove(flags: &RemoveFlags) -> Result<String, CommandError> {
    let client = flags.scope.administrator.client()?;
    let namespace = &flags.scope.namespace;
    let slices = read(&client, namespace, Some(&flags.service)).await?;
    let address: Option<SocketAddr> = flags.backend.parse().ok();
    let is_selected = |slice: &&EndpointSlice| match address {
        Some(address) => slices::backends(slice).any(|backend| backend.address == address),
        None => slice.metadata.name == flags.backend,
    };
    let selected: Vec<&EndpointSlice> = slices.iter().filter(is_selected).collect();
    if selected.is_empty() {
        return Err(format!(
            "service {:?} in namespace {namespace:?} has no backend {}; see: portolan backend list {} -n {namespace}",
            flags.service, flags.backend, flags.service
        )
        .into());
    }
    let mut text = String::new();
    for slice in selected {
        if slice.endpoints.len() > 1 && address.is_some() {
            return Err(format!(
                "endpointslice {:?} has {} addresses; remove them all by its name, or one with kubectl edit",
                slice.metadata.name,
                slice.endpoints.len()
            )
            .into());
        }
        let collection = EndpointSlice::collection(Some(namespace));
        let path = format!("{collection}/{}", slice.metadata.name);
        client.request(Method::DELETE, &path, client::JSON, None).await?;
        text.push_str(&format!("backend/{} removed\n", slice.metadata.name));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
