//! `portolan backend add`.

use std::net::SocketAddr;
use std::time::Duration;

use api::object::{EndpointSlice, Protocol, Resource, Service};
use clap::Args;
use client::{JSON, MERGE_PATCH};
use controllers::backends::MANAGED_BY;
use controllers::endpointslice::MANAGED_BY_LABEL;
use http::Method;
use serde_json::Value;

use super::check::{Check, Pace};
use super::{Scope, slices};
use crate::commands::Failure;
use crate::flags::{BadValue, duration};

/// Flags of `portolan backend add`.
#[derive(Debug, Args)]
pub struct Flags {
    /// The Service; it must have no selector
    #[arg(value_name = "SERVICE")]
    service: String,
    /// The backend, as seen from the nodes; an IPv6 address in brackets
    #[arg(value_name = "ADDRESS:PORT")]
    backend: SocketAddr,
    /// Which of the Service's ports this is, by name; needed if it has several
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    /// Name of the EndpointSlice; made of Service and address if not given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How to find out whether the backend is well: none, tcp, http:/PATH, https:/PATH, grpc[:SERVICE]
    #[arg(long, default_value = "tcp", value_name = "CHECK")]
    check: Check,
    /// The port that is asked, if it is not the one that serves
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    check_port: Option<u16>,
    /// How often it is asked
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = duration)]
    interval: Duration,
    /// How long an answer may take
    #[arg(long, default_value = "1s", value_name = "DURATION", value_parser = duration)]
    timeout: Duration,
    /// Good answers in a row until it gets traffic
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    success_threshold: u32,
    /// Bad answers in a row until it gets none
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    failure_threshold: u32,
    #[command(flatten)]
    scope: Scope,
}

impl Flags {
    fn pace(&self) -> Result<Pace, BadValue> {
        let pace = Pace {
            period_seconds: whole_seconds("--interval", self.interval)?,
            timeout_seconds: whole_seconds("--timeout", self.timeout)?,
            success_threshold: self.success_threshold,
            failure_threshold: self.failure_threshold,
        };
        if pace.timeout_seconds > pace.period_seconds {
            return Err(BadValue(format!(
                "--timeout {:?} is longer than --interval {:?}: the next question would come before the answer",
                self.timeout, self.interval
            )));
        }
        Ok(pace)
    }
}

/// Probes count in whole seconds.
fn whole_seconds(flag: &str, given: Duration) -> Result<u32, BadValue> {
    let seconds = u32::try_from(given.as_secs()).ok();
    seconds
        .filter(|seconds| *seconds > 0 && given.subsec_nanos() == 0)
        .ok_or_else(|| BadValue(format!("{flag} takes whole seconds from 1s on, not {given:?}")))
}

/// Declares the backend; one that is there already is changed.
pub(super) async fn run(flags: &Flags) -> Result<String, Failure> {
    let pace = flags.pace()?;
    if flags.backend.port() == 0 {
        return Err(BadValue("the backend's port must be from 1 to 65535".to_owned()).into());
    }
    let client = flags.scope.administrator.client()?;
    let namespace = &flags.scope.namespace;
    let path = format!("{}/{}", Service::collection(Some(namespace)), flags.service);
    let service: Service = client.get(&path).await?;
    let port = slices::port_of(&service, flags.backend.ip(), flags.port.as_deref())?;
    let protocol = port.map_or(Protocol::Tcp, |port| port.protocol);
    let probe = flags
        .check
        .probe(protocol, flags.backend.port(), flags.check_port, pace)?;
    let name = match &flags.name {
        Some(name) => name.clone(),
        None => slices::name_of(&flags.service, flags.backend, port),
    };
    let mut slice = slices::slice(&service, &name, flags.backend, port, probe.as_ref())?;
    let collection = EndpointSlice::collection(Some(namespace));
    let path = format!("{collection}/{name}");
    let present: Option<EndpointSlice> = match client.get(&path).await {
        Ok(present) => Some(present),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    let Some(present) = present else {
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
    let owner = present.metadata.labels.get(MANAGED_BY_LABEL).map(String::as_str);
    if owner != Some(MANAGED_BY) || present.service_name() != Some(&flags.service) {
        return Err(format!(
            "endpointslice {name:?} in namespace {namespace:?} is there already and is no backend of service {:?}; \
             choose another name with --name",
            flags.service
        )
        .into());
    }
    keep_health(&mut slice, &present, probe.is_some());
    client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&slice))
        .await?;
    Ok(format!("backend/{name} configured\n"))
}

/// A backend that is only checked in another way is as ready as it was.
fn keep_health(slice: &mut Value, present: &EndpointSlice, is_checked: bool) {
    let same = present.endpoints.first().filter(|endpoint| {
        let address = endpoint.addresses.first().map(|address| &**address);
        address == slice["endpoints"][0]["addresses"][0].as_str()
    });
    if let (true, Some(ready)) = (is_checked, same.and_then(|endpoint| endpoint.conditions.ready)) {
        slice["endpoints"][0]["conditions"]["ready"] = ready.into();
        slice["endpoints"][0]["conditions"]["serving"] = ready.into();
    }
}
