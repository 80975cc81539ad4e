//! Latency and number of EndpointSlice writes of the controllers.

mod cluster;
mod readiness;
mod rollout;
mod slices;
mod start;

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Args, Subcommand};
use client::{Client, Config};

use crate::Failure;
use crate::environment::{Environment, run_enclosed};
use crate::process::{Measured, portolan};

/// Flags of `bench controllers`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Measure the controllers of the cluster of this kubeconfig; nothing is started
    #[arg(long, global = true)]
    kubeconfig: Option<PathBuf>,
    #[command(subcommand)]
    case: Case,
}

#[derive(Clone, Debug, Subcommand)]
enum Case {
    /// Change the readiness of Pods at a fixed rate: time until the EndpointSlice is written
    Readiness(readiness::Flags),
    /// Replace all Pods of a Service: EndpointSlice writes per Pod, missing endpoints
    Rollout(rollout::Flags),
    /// Start the controllers with many Pods: time until all EndpointSlices exist, restart, memory
    Start(start::Flags),
}

/// Environment of a case, if the benchmark has started one.
struct Context<'a> {
    environment: Option<&'a Environment>,
}

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    if let Some(path) = &flags.kubeconfig {
        let client = Client::new(Config::from_kubeconfig(path)?)?;
        let runtime = tokio::runtime::Runtime::new()?;
        let context = Context { environment: None };
        runtime.block_on(run_case(&flags.case, &context, client))?;
        return Ok(ExitCode::SUCCESS);
    }
    run_enclosed(false, |environment: Environment| {
        let context = Context {
            environment: Some(&environment),
        };
        environment.with_api(async || run_case(&flags.case, &context, environment.client()?).await)
    })
}

async fn run_case(case: &Case, context: &Context<'_>, client: Client) -> Result<(), Failure> {
    match case {
        Case::Readiness(flags) => readiness::run(flags, context, &client).await,
        Case::Rollout(flags) => rollout::run(flags, context, &client).await,
        Case::Start(flags) => start::run(flags, context, &client).await,
    }
}

impl Context<'_> {
    /// Starts the controllers, unless the cluster has its own.
    fn start_controllers(&self) -> Result<Option<Measured>, Failure> {
        let Some(environment) = self.environment else {
            return Ok(None);
        };
        let mut command = Command::new(portolan()?);
        command
            .arg("controllers")
            .arg(format!("--kubeconfig={}", environment.kubeconfig().display()));
        let member = environment.cluster.control_plane()?;
        environment
            .start_component("controllers", member, command)
            .map(Some)
    }
}

/// Prints memory and CPU time of the controllers.
fn report_process(process: Option<&Measured>) -> Result<(), Failure> {
    if let Some(process) = process {
        println!(
            "controllers: {:.1} MiB resident, {:.1} s of CPU",
            process.resident_mib()?,
            process.cpu()?.as_secs_f64()
        );
    }
    Ok(())
}

/// Timeout of every wait.
const TIMEOUT: Duration = Duration::from_secs(300);
