//! How quickly and with how many writes the controllers keep EndpointSlices.

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
use crate::process::{Measured, portolan};
use crate::setting::{Setting, enclosed};

/// Flags of `bench controllers`.
#[derive(Debug, Args)]
pub struct Flags {
    /// kubeconfig of another cluster, whose controllers run already; nothing is started then
    #[arg(long, global = true)]
    kubeconfig: Option<PathBuf>,
    #[command(subcommand)]
    case: Case,
}

#[derive(Clone, Debug, Subcommand)]
enum Case {
    /// Pods change readiness at a steady rate: time from the change until its slice is written
    Readiness(readiness::Flags),
    /// All Pods of one Service are replaced, one after the other: slice writes a Pod, and endpoints that were missing
    Rollout(rollout::Flags),
    /// The controllers start beside many Pods: time until all slices are there, and after a restart; memory
    Start(start::Flags),
}

/// Where a case runs, and what is measured besides.
struct Place<'a> {
    setting: Option<&'a Setting>,
}

/// Runs the benchmark.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    if let Some(path) = &flags.kubeconfig {
        let client = Client::new(Config::from_kubeconfig(path)?)?;
        let runtime = tokio::runtime::Runtime::new()?;
        let place = Place { setting: None };
        runtime.block_on(run_case(&flags.case, &place, client))?;
        return Ok(ExitCode::SUCCESS);
    }
    enclosed(false, |setting: Setting| {
        let place = Place {
            setting: Some(&setting),
        };
        setting.with_api(async || run_case(&flags.case, &place, setting.client()?).await)
    })
}

async fn run_case(case: &Case, place: &Place<'_>, client: Client) -> Result<(), Failure> {
    match case {
        Case::Readiness(flags) => readiness::run(flags, place, &client).await,
        Case::Rollout(flags) => rollout::run(flags, place, &client).await,
        Case::Start(flags) => start::run(flags, place, &client).await,
    }
}

impl Place<'_> {
    /// Starts the controllers, unless the cluster has its own.
    fn start_controllers(&self) -> Result<Option<Measured>, Failure> {
        let Some(setting) = self.setting else {
            return Ok(None);
        };
        let mut command = Command::new(portolan()?);
        command
            .arg("controllers")
            .arg(format!("--kubeconfig={}", setting.kubeconfig().display()));
        let member = setting.cluster.control_plane()?;
        setting.start_component("controllers", member, command).map(Some)
    }
}

/// Prints what the controllers' process has used.
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

/// How long anything may take that a case waits for.
const PATIENCE: Duration = Duration::from_secs(300);
