//! `portolan backend`: addresses that are no Pods behind a Service, with their health.

mod add;
mod check;
mod slices;

use std::net::SocketAddr;
use std::process::ExitCode;

use api::object::{EndpointSlice, Resource, SERVICE_NAME_LABEL};
use clap::{Args, Subcommand};
use controllers::backends::{MANAGED_BY, probe_of};
use http::Method;
use serde::Deserialize;

use self::check::Check;
use super::administrator::AdministratorFlags;
use super::{Failure, runtime};

/// What to do with backends.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Put an address behind a Service that has no selector, and keep it in traffic as long as it is well
    Add(add::Flags),
    /// List the backends of all Services, or of one, and how they are
    List(ListFlags),
    /// Take an address out of a Service
    Remove(RemoveFlags),
}

/// Which cluster and which namespace.
#[derive(Debug, Args)]
pub struct Scope {
    /// Namespace of the Service
    #[arg(long, short, default_value = "default", value_name = "NAMESPACE")]
    namespace: String,
    #[command(flatten)]
    administrator: AdministratorFlags,
}

/// Flags of `portolan backend list`.
#[derive(Debug, Args)]
pub struct ListFlags {
    /// Only those of this Service
    #[arg(value_name = "SERVICE")]
    service: Option<String>,
    #[command(flatten)]
    scope: Scope,
}

/// Flags of `portolan backend remove`.
#[derive(Debug, Args)]
pub struct RemoveFlags {
    /// The Service
    #[arg(value_name = "SERVICE")]
    service: String,
    /// The backend, by its address or by the name of its slice
    #[arg(value_name = "ADDRESS:PORT|NAME")]
    backend: String,
    #[command(flatten)]
    scope: Scope,
}

/// Adds, lists or removes.
pub fn run(command: &Command) -> Result<ExitCode, Failure> {
    let text = runtime(1)?.block_on(async {
        match command {
            Command::Add(flags) => add::run(flags).await,
            Command::List(flags) => list(flags).await,
            Command::Remove(flags) => remove(flags).await,
        }
    })?;
    crate::cli::say(&text);
    Ok(ExitCode::SUCCESS)
}

#[derive(Deserialize)]
struct Slices {
    items: Vec<EndpointSlice>,
}

/// The slices of backends in a namespace, of all Services or of one.
async fn read(
    client: &client::Client,
    namespace: &str,
    service: Option<&str>,
) -> Result<Vec<EndpointSlice>, Failure> {
    let label = controllers::endpointslice::MANAGED_BY_LABEL;
    let mut selector = format!("{label}={MANAGED_BY}");
    if let Some(service) = service {
        selector.push_str(&format!(",{SERVICE_NAME_LABEL}={service}"));
    }
    let mut path = format!("{}?labelSelector=", EndpointSlice::collection(Some(namespace)));
    client::push_escaped(&mut path, &selector);
    let list: Slices = client.get(&path).await?;
    Ok(list.items)
}

async fn list(flags: &ListFlags) -> Result<String, Failure> {
    let client = flags.scope.administrator.client()?;
    let namespace = &flags.scope.namespace;
    let slices = read(&client, namespace, flags.service.as_deref()).await?;
    if slices.is_empty() {
        return Ok(format!("No backends found in namespace {namespace}.\n"));
    }
    Ok(table(&slices))
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
    slices::aligned(&rows)
}

async fn remove(flags: &RemoveFlags) -> Result<String, Failure> {
    let client = flags.scope.administrator.client()?;
    let namespace = &flags.scope.namespace;
    let slices = read(&client, namespace, Some(&flags.service)).await?;
    let address: Option<SocketAddr> = flags.backend.parse().ok();
    let is_meant = |slice: &&EndpointSlice| match address {
        Some(address) => slices::backends(slice).any(|backend| backend.address == address),
        None => slice.metadata.name == flags.backend,
    };
    let meant: Vec<&EndpointSlice> = slices.iter().filter(is_meant).collect();
    if meant.is_empty() {
        return Err(format!(
            "service {:?} in namespace {namespace:?} has no backend {}; see: portolan backend list {} -n {namespace}",
            flags.service, flags.backend, flags.service
        )
        .into());
    }
    let mut text = String::new();
    for slice in meant {
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
