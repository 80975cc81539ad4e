//! `portolan backend add`: creation or change of a backend.

use std::net::SocketAddr;
use std::time::Duration;

use api::object::{EndpointSlice, Protocol, Resource, Service};
use clap::Args;
use client::{JSON, MERGE_PATCH};
use controllers::backends::MANAGED_BY;
use controllers::endpoint_slice::MANAGED_BY_LABEL;
use http::Method;
use serde_json::Value;

use super::check::{Check, CheckTiming};
use super::{Scope, slices};
use crate::error::{CommandError, UsageError};
use crate::flags::values::duration;

/// Flags of `portolan backend add`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Service without a selector
    #[arg(value_name = "SERVICE")]
    service: String,
    /// Backend as the nodes reach it; IPv6 addresses in brackets
    #[arg(value_name = "ADDRESS:PORT")]
    backend: SocketAddr,
    /// Name of the Service port, if there are several
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    /// Name of the EndpointSlice [default: SERVICE-ADDRESS-PORT]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Health check: none, tcp, http:/PATH, https:/PATH or grpc[:SERVICE]
    #[arg(
        long,
        help_heading = "Health check",
        default_value = "tcp",
        value_name = "CHECK"
    )]
    check: Check,
    /// Port of the health check [default: that of the backend]
    #[arg(long, help_heading = "Health check", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    check_port: Option<u16>,
    /// Time between two checks
    #[arg(long, help_heading = "Health check", default_value = "10s", value_name = "DURATION", value_parser = duration)]
    interval: Duration,
    /// Time for a response
    #[arg(long, help_heading = "Health check", default_value = "1s", value_name = "DURATION", value_parser = duration)]
    timeout: Duration,
    /// Consecutive successes after which the backend is ready
    #[arg(long, help_heading = "Health check", default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    success_threshold: u32,
    /// Consecutive failures after which the backend is not ready
    #[arg(long, help_heading = "Health check", default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    failure_threshold: u32,
    #[command(flatten)]
    scope: Scope,
}

impl Flags {
    fn timing(&self) -> Result<CheckTiming, UsageError> {
        let timing = CheckTiming {
            period_seconds: whole_seconds("--interval", self.interval)?,
            timeout_seconds: whole_seconds("--timeout", self.timeout)?,
            success_threshold: self.success_threshold,
            failure_threshold: self.failure_threshold,
        };
        if timing.timeout_seconds > timing.period_seconds {
            return Err(UsageError(format!(
                "--timeout {:?} is longer than --interval {:?}: checks would overlap",
                self.timeout, self.interval
            )));
        }
        Ok(timing)
    }
}

/// Returns the duration in seconds. Probes have whole seconds.
fn whole_seconds(flag: &str, given: Duration) -> Result<u32, UsageError> {
    let seconds = u32::try_from(given.as_secs()).ok();
    seconds
        .filter(|seconds| *seconds > 0 && given.subsec_nanos() == 0)
        .ok_or_else(|| UsageError(format!("{flag} {given:?}: expected whole seconds, at least 1s")))
}

/// Creates the EndpointSlice of the backend, or changes an existing one.
pub(super) async fn run(flags: &Flags) -> Result<String, CommandError> {
    let timing = flags.timing()?;
    if flags.backend.port() == 0 {
        return Err(UsageError::new("the port of the backend must be from 1 to 65535").into());
    }
    let client = flags.scope.administrator.client()?;
    let namespace = &flags.scope.namespace;
    let path = format!("{}/{}", Service::collection(Some(namespace)), flags.service);
    let service: Service = client.get(&path).await?;
    let port = slices::port_of(&service, flags.backend.ip(), flags.port.as_deref())?;
    let protocol = port.map_or(Protocol::Tcp, |port| port.protocol);
    let probe = flags
        .check
        .probe(protocol, flags.backend.port(), flags.check_port, timing)?;
    let name = match &flags.name {
        Some(name) => name.clone(),
        None => slices::name_of(&flags.service, flags.backend, port),
    };
    let mut slice = slices::slice(&service, &name, flags.backend, port, probe.as_ref())?;
    let collection = EndpointSlice::collection(Some(namespace));
    let path = format!("{collection}/{name}");
    let existing: Option<EndpointSlice> = match client.get(&path).await {
        Ok(slice) => Some(slice),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    let Some(existing) = existing else {
        if probe.is_none()
            && let Some(meta) = slice["metadata"].as_object_mut()
        {
            meta.remove("annotations");
        }
        client
            .request(Method::POST, &collection, JSON, Some(&slice))
            .await?;
        return Ok(format!("backend/{name} added\n"));
    };
    let owner = existing.metadata.labels.get(MANAGED_BY_LABEL).map(String::as_str);
    if owner != Some(MANAGED_BY) || existing.service_name() != Some(&flags.service) {
        return Err(format!(
            "endpointslice {name:?} in namespace {namespace:?} exists and is not a backend of service {:?}; choose another \
             name with --name",
            flags.service
        )
        .into());
    }
    keep_readiness(&mut slice, &existing, probe.is_some());
    client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&slice))
        .await?;
    Ok(format!("backend/{name} configured\n"))
}

/// Keeps the readiness of a backend whose address does not change.
fn keep_readiness(slice: &mut Value, existing: &EndpointSlice, is_checked: bool) {
    let unchanged = existing.endpoints.first().filter(|endpoint| {
        let address = endpoint.addresses.first().map(|address| &**address);
        address == slice["endpoints"][0]["addresses"][0].as_str()
    });
    if let (true, Some(ready)) = (
        is_checked,
        unchanged.and_then(|endpoint| endpoint.conditions.ready),
    ) {
        slice["endpoints"][0]["conditions"]["ready"] = ready.into();
        slice["endpoints"][0]["conditions"]["serving"] = ready.into();
    }
}
