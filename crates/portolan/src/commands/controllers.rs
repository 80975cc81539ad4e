//! `portolan controllers`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use controllers::Selection;

use super::{ClientFlags, Failure, runtime};
use crate::flags::duration;

/// Flags of `portolan controllers`.
#[derive(Debug, Args)]
pub struct Flags {
    #[command(flatten)]
    client: ClientFlags,
    /// Services whose EndpointSlices are synced at the same time
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrent_service_endpoint_syncs: u16,
    /// Services whose Endpoints are synced at the same time
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrent_endpoint_syncs: u16,
    /// Endpoints that are mirrored to EndpointSlices at the same time
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    mirroring_concurrent_service_endpoint_syncs: u16,
    /// How long changes of Pods are gathered before EndpointSlices are written, such as 500ms
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration)]
    endpointslice_updates_batch_period: Duration,
    /// How long changes of Pods are gathered before Endpoints are written
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration)]
    endpoint_updates_batch_period: Duration,
    /// How long changes of Endpoints are gathered before they are mirrored
    #[arg(long, default_value = "0s", value_name = "DURATION", value_parser = duration)]
    mirroring_endpointslice_updates_batch_period: Duration,
    /// Most endpoints in one EndpointSlice
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_endpoints_per_slice: u16,
    /// Most addresses of one Endpoints subset that are mirrored to EndpointSlices
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    mirroring_max_endpoints_per_subset: u16,
    /// Controllers that run: `NAME`, `-NAME` for one that does not, `*` for all that are not named. There
    /// are endpointslice-controller, endpoints-controller, endpointslice-mirroring-controller,
    /// pod-placement-controller (switch it off where a scheduler runs) and garbage-collector-controller
    #[arg(
        long,
        default_value = "*",
        value_name = "NAMES",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
}

/// Runs the controllers until a signal asks to end.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    let options = controllers::Options {
        concurrent_service_endpoint_syncs: flags.concurrent_service_endpoint_syncs.into(),
        concurrent_endpoint_syncs: flags.concurrent_endpoint_syncs.into(),
        mirroring_concurrent_service_endpoint_syncs: flags.mirroring_concurrent_service_endpoint_syncs.into(),
        endpointslice_updates_batch_period: flags.endpointslice_updates_batch_period,
        endpoint_updates_batch_period: flags.endpoint_updates_batch_period,
        mirroring_endpointslice_updates_batch_period: flags.mirroring_endpointslice_updates_batch_period,
        max_endpoints_per_slice: flags.max_endpoints_per_slice.into(),
        mirroring_max_endpoints_per_subset: flags.mirroring_max_endpoints_per_subset.into(),
        controllers: Selection::parse(&flags.controllers)?,
    };
    let runtime = runtime(2)?;
    runtime.block_on(async {
        let client = flags.client.client()?;
        tracing::info!(server = client.server(), "controllers started");
        let environment = controllers::Environment::new(client);
        controllers::run(environment, options, crate::signal::asked_to_end()).await;
        Ok(ExitCode::SUCCESS)
    })
}
