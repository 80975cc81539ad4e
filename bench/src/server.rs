//! The API server that a benchmark measures: Portolan's in an enclosure, on either engine of its store, or any other.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use client::Config;

use crate::Failure;
use crate::process::own_cpu;
use crate::setting::{Setting, enclosed};

/// Flags of the benchmarks of API servers.
#[derive(Clone, Debug, Args)]
pub struct ServerFlags {
    /// kubeconfig of another API server that is measured in the place of Portolan's
    #[arg(long, value_name = "FILE", conflicts_with = "etcd")]
    kubeconfig: Option<PathBuf>,
    /// Keep the data in etcd, which has to be installed, in the place of the embedded store
    #[arg(long)]
    etcd: bool,
}

/// Runs `measure` against the API server of the flags. For Portolan's, `tell` prints what its process used.
pub fn run(
    flags: &ServerFlags,
    measure: impl AsyncFnOnce(Config) -> Result<(), Failure> + Send,
    tell: impl FnOnce(&mut Setting) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    if let Some(path) = &flags.kubeconfig {
        let config = Config::from_kubeconfig(path)?;
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(measure(config))?;
        return Ok(ExitCode::SUCCESS);
    }
    enclosed(flags.etcd, |mut setting: Setting| {
        let config = Config::from_kubeconfig(&setting.kubeconfig())?;
        let (cpu, own) = (setting.apiserver.cpu()?, own_cpu()?);
        setting.with_api(async || measure(config).await)?;
        let (used, own) = (setting.apiserver.cpu()? - cpu, own_cpu()? - own);
        println!(
            "server CPU: {:.2} s, load generator's: {:.2} s",
            used.as_secs_f64(),
            own.as_secs_f64()
        );
        println!(
            "server resident memory: {:.1} MiB",
            setting.apiserver.resident_mib()?
        );
        tell(&mut setting)
    })
}
