//! `portolan status`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use api::object::{Node, Resource};
use clap::Args;
use client::{Client, Config};
use http::Method;

use super::up::board::{self, Report, now_seconds};
use super::{Failure, runtime};
use crate::flags::duration;

/// What services say that do not run (LSB: "program is not running").
const EXIT_NOT_RUNNING: u8 = 3;

/// Flags of `portolan status`.
#[derive(Debug, Args)]
pub struct Flags {
    /// The data directory of `portolan up` or `portolan join`
    #[arg(long, default_value = "/var/lib/portolan", value_name = "DIR")]
    data_dir: PathBuf,
    /// Wait until all is well, for so long at most
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,
}

/// How often it is looked while waiting.
const WAIT_PAUSE: Duration = Duration::from_millis(200);

/// Says how each part is, and the Node. Ends with 0 if all are well, 1 if one is not, and 3 if nothing runs.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let runtime = runtime(1)?;
    let begun = Instant::now();
    loop {
        let Some(report) = board::read(&flags.data_dir)? else {
            if flags.wait.is_some_and(|patience| begun.elapsed() < patience) {
                std::thread::sleep(WAIT_PAUSE);
                continue;
            }
            crate::cli::say(&format!(
                "portolan is not running with --data-dir {}\n",
                flags.data_dir.display()
            ));
            return Ok(ExitCode::from(EXIT_NOT_RUNNING));
        };
        let cluster = Cluster {
            api: runtime.block_on(ask_api(&report)),
            node: runtime.block_on(ask_node(&report)),
        };
        let is_well = cluster.api.is_ok()
            && cluster.node.is_ok()
            && !report.parts.is_empty()
            && report.parts.values().all(|part| part.is_running);
        if is_well || flags.wait.is_none_or(|patience| begun.elapsed() >= patience) {
            crate::cli::say(&table(&report, &cluster, now_seconds()));
            return Ok(if is_well {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            });
        }
        std::thread::sleep(WAIT_PAUSE);
    }
}

/// State of the machine in the cluster.
struct Cluster {
    api: Result<(), Failure>,
    node: Result<(), Failure>,
}

/// Checks that the machine's Node exists and is ready.
async fn ask_node(report: &Report) -> Result<(), Failure> {
    if report.node_name.is_empty() {
        return Err("this machine is no Node yet".into());
    }
    let client = Client::new(Config::from_kubeconfig(&report.kubeconfig)?)?;
    let path = format!("{}/{}", Node::collection(None), report.node_name);
    let node: Node = client.get(&path).await?;
    readiness(&node).map_err(Failure::from)
}

/// Reason for which a Node is not ready.
fn readiness(node: &Node) -> Result<(), String> {
    match node.condition("Ready") {
        _ if node.is_ready() => Ok(()),
        Some(condition) => Err(format!(
            "its condition Ready is {}; see kubectl describe node",
            condition.status
        )),
        None => Err("its agent has not said yet whether it is ready".to_owned()),
    }
}

/// Whether the API server says that it is ready.
async fn ask_api(report: &Report) -> Result<(), Failure> {
    let client = Client::new(Config::from_kubeconfig(&report.kubeconfig)?)?;
    client
        .send(Method::GET, "/readyz", client::JSON, Default::default())
        .await?;
    Ok(())
}

fn table(report: &Report, cluster: &Cluster, now_seconds: u64) -> String {
    let mut text = format!(
        "{:<12} {:<11} {:<9} {:<9} REASON\n",
        "PART", "STATE", "FOR", "RESTARTS"
    );
    for (name, is_ready) in [("apiserver", &cluster.api), ("node", &cluster.node)] {
        let (state, reason) = match is_ready {
            Ok(()) => ("ready", String::new()),
            Err(error) => ("not ready", error.to_string()),
        };
        text.push_str(format!("{name:<12} {state:<11} {:<9} {:<9} {reason}", "", "").trim_end());
        text.push('\n');
    }
    for (name, part) in &report.parts {
        let state = if part.is_running { "running" } else { "restarting" };
        let age = age(now_seconds.saturating_sub(part.since_seconds));
        // Why it ended before is of interest as long as it does not run, or has run only for a short while.
        let reason = part.reason.as_deref().unwrap_or_default();
        let line = format!("{name:<12} {state:<11} {age:<9} {:<9} {reason}", part.restarts);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// As `kubectl` writes ages.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests;
