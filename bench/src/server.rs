//! API server under test: Portolan with either store engine, or another one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use client::Config;

use crate::Failure;
use crate::environment::{Environment, run_enclosed};
use crate::process::own_cpu;

/// Flags of benchmarks of the API server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "API server")]
pub(crate) struct ServerFlags {
    /// Measure the API server of this kubeconfig instead of Portolan
    #[arg(long, value_name = "FILE", conflicts_with = "etcd")]
    kubeconfig: Option<PathBuf>,
    /// Use etcd, which must be installed, instead of SQLite
    #[arg(long)]
    etcd: bool,
}

/// Runs `measure` with the API server of the flags. For Portolan, the CPU time and memory are printed, and
/// then `finish` runs.
pub(crate) fn run(
    flags: &ServerFlags,
    measure: impl AsyncFnOnce(Config) -> Result<(), Failure> + Send,
    finish: impl FnOnce(&mut Environment) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    if let Some(path) = &flags.kubeconfig {
        let config = Config::from_kubeconfig(path)?;
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(measure(config))?;
        return Ok(ExitCode::SUCCESS);
    }
    run_enclosed(flags.etcd, |mut environment: Environment| {
        let config = Config::from_kubeconfig(&environment.kubeconfig())?;
        let (cpu, own) = (environment.apiserver.cpu()?, own_cpu()?);
        environment.with_api(async || measure(config).await)?;
        let (used, own) = (environment.apiserver.cpu()? - cpu, own_cpu()? - own);
        println!(
            "server CPU: {:.2} s, load generator's: {:.2} s",
            used.as_secs_f64(),
            own.as_secs_f64()
        );
        println!(
            "server resident memory: {:.1} MiB",
            environment.apiserver.resident_mib()?
        );
        finish(&mut environment)
    })
}
