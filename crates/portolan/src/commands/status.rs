//! `portolan status`: health of the components of `portolan up` or `portolan join`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use api::object::{Node, Resource};
use clap::Args;
use client::{Client, Config};
use http::Method;
use serde_json::{Value, json};

use super::doctor::{self, Counts};
use crate::cluster::status_file::{self, ProcessStatus, now_seconds};
use crate::error::CommandError;
use crate::flags::values::{DATA_DIRECTORY, duration};
use crate::output::{self, Format, age};
use crate::runtime;

/// Exit code of a service that does not run (LSB: "program is not running").
const EXIT_NOT_RUNNING: u8 = 3;
/// Exit code if the state is not readable (LSB: "program or service status is unknown").
const EXIT_UNKNOWN: u8 = 4;
/// Time between two checks of `--wait`.
const WAIT_PERIOD: Duration = Duration::from_millis(200);

/// Time for a response of the API server.
const API_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the examination of the Services.
const EXAMINATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Flags of `portolan status`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Data directory of `portolan up` or `portolan join`
    #[arg(long, default_value = DATA_DIRECTORY, value_name = "DIR")]
    data_dir: PathBuf,
    /// Wait until all components are healthy, for at most this time
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    wait: Option<Duration>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    output: Format,
}

impl Flags {
    /// Prints the reason why there is no status.
    fn print_absence(&self, reason: &str) {
        self.output
            .print(&json!({"reason": reason}), || format!("{reason}\n"));
    }
}

/// Prints the state of the API server, the Node and each component, and the number of findings about Services. The exit
/// code is 0 if all are healthy, 1 if one is not, 3 if no process runs, and 4 if the state is not readable.
///
/// # Errors
///
/// An error if the status file is unreadable.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let runtime = runtime::multi_thread(1)?;
    let start = Instant::now();
    let may_wait = || flags.wait.is_some_and(|timeout| start.elapsed() < timeout);
    loop {
        let status = match status_file::read(&flags.data_dir) {
            Err(error) if error.is_permission_denied() => {
                flags.print_absence(&format!(
                    "{error}: only the user of `portolan up` or `portolan join` may read it; try sudo portolan status"
                ));
                return Ok(ExitCode::from(EXIT_UNKNOWN));
            }
            status => status?,
        };
        let Some(status) = status else {
            if may_wait() {
                std::thread::sleep(WAIT_PERIOD);
                continue;
            }
            flags.print_absence(&format!(
                "portolan is not running with --data-dir {}",
                flags.data_dir.display()
            ));
            return Ok(ExitCode::from(EXIT_NOT_RUNNING));
        };
        let (api, node) = runtime.block_on(async { tokio::join!(check_api(&status), check_node(&status)) });
        let cluster = ClusterHealth { api, node };
        let is_healthy = cluster.is_healthy()
            && !status.components.is_empty()
            && status.components.values().all(|component| component.is_running);
        if is_healthy || !may_wait() {
            let is_text = flags.output == Format::Text;
            let mut document = document(&status, &cluster);
            if cluster.api.is_ok() && !is_text {
                document["findings"] = findings_value(&runtime.block_on(count_findings(&status)));
            }
            flags
                .output
                .print(&document, || table(&status, &cluster, now_seconds()));
            if cluster.api.is_ok() && is_text {
                output::print(&findings_text(&runtime.block_on(count_findings(&status))));
            }
            return Ok(if is_healthy {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            });
        }
        std::thread::sleep(WAIT_PERIOD);
    }
}

/// Health of the API server and of this Node.
struct ClusterHealth {
    api: Result<(), CommandError>,
    node: Result<(), CommandError>,
}

impl ClusterHealth {
    fn is_healthy(&self) -> bool {
        self.api.is_ok() && self.node.is_ok()
    }
}

/// Reason why a Node is not ready.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum NotReady {
    #[error("this host is not registered as a Node yet")]
    NoNode,
    #[error("there is no Node {0}: it was deleted, or is not registered yet; see the log of the agent")]
    Absent(String),
    #[error("the condition Ready of the Node is {0}; see kubectl describe node")]
    Condition(String),
    #[error("the agent of the Node has not reported the condition Ready yet")]
    NoCondition,
}

/// Checks that the Node of this host exists and is ready.
async fn check_node(status: &ProcessStatus) -> Result<(), CommandError> {
    if status.node_name.is_empty() {
        return Err(NotReady::NoNode.into());
    }
    let client = Client::new(Config::from_kubeconfig(&status.kubeconfig)?)?;
    let path = format!("{}/{}", Node::collection(None), status.node_name);
    match tokio::time::timeout(API_TIMEOUT, client.get::<Node>(&path)).await {
        Ok(Err(error)) if error.is_not_found() => Err(NotReady::Absent(status.node_name.clone()).into()),
        Ok(node) => Ok(check_readiness(&node?)?),
        Err(_) => Err(format!("no response of the API server within {API_TIMEOUT:?}").into()),
    }
}

fn check_readiness(node: &Node) -> Result<(), NotReady> {
    match node.condition("Ready") {
        _ if node.is_ready() => Ok(()),
        Some(condition) => Err(NotReady::Condition(condition.status.to_string())),
        None => Err(NotReady::NoCondition),
    }
}

async fn check_api(status: &ProcessStatus) -> Result<(), CommandError> {
    check_readyz(&Client::new(Config::from_kubeconfig(&status.kubeconfig)?)?).await
}

/// Checks the readiness endpoint of the API server. The check of writes comes first, because its response has the
/// reason of a failure. It is optional: servers of earlier versions lack it, and joined hosts have no right to read it.
async fn check_readyz(client: &Client) -> Result<(), CommandError> {
    for (path, is_optional) in [("/readyz/etcd-writes", true), ("/readyz", false)] {
        let answer = client.send(Method::GET, path, client::JSON, Default::default());
        match tokio::time::timeout(API_TIMEOUT, answer).await {
            Ok(Err(error)) if is_optional && (error.is_not_found() || error.is_forbidden()) => {}
            Ok(answer) => drop(answer?),
            Err(_) => return Err(format!("no response within {API_TIMEOUT:?}").into()),
        }
    }
    Ok(())
}

/// Counts the findings of `portolan doctor`. They do not change the exit code: a component can be healthy while a
/// Service has no endpoints.
async fn count_findings(status: &ProcessStatus) -> Result<Counts, CommandError> {
    let counted = tokio::time::timeout(EXAMINATION_TIMEOUT, async {
        let client = Client::new(Config::from_kubeconfig(&status.kubeconfig)?)?;
        doctor::count(&client).await
    });
    let late = |_| CommandError::from(format!("no result within {EXAMINATION_TIMEOUT:?}"));
    counted.await.map_err(late)?
}

/// Returns the line about the findings.
fn findings_text(examined: &Result<Counts, CommandError>) -> String {
    match examined {
        Ok(counts) => findings_line(counts),
        Err(error) => format!("\nFindings about Services: not examined ({error})\n"),
    }
}

/// Returns the numbers of findings as a JSON object.
fn findings_value(examined: &Result<Counts, CommandError>) -> Value {
    match examined {
        Ok(counts) => {
            json!({"errors": counts.errors, "warnings": counts.warnings, "forbidden": counts.forbidden})
        }
        Err(error) => json!({"reason": error.to_string()}),
    }
}

fn findings_line(counts: &Counts) -> String {
    let number = |count: usize, name: &str| {
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {name}{plural}"))
    };
    let numbers = [number(counts.errors, "error"), number(counts.warnings, "warning")];
    let numbers: Vec<String> = numbers.into_iter().flatten().collect();
    let mut line = match &numbers[..] {
        [] => "\nFindings about Services: none".to_owned(),
        numbers => format!(
            "\nFindings about Services: {}; `portolan doctor` shows them",
            numbers.join(", ")
        ),
    };
    if !counts.forbidden.is_empty() {
        line.push_str(&format!(
            " (this host must not list {})",
            counts.forbidden.join(", ")
        ));
    }
    line + "\n"
}

fn table(status: &ProcessStatus, cluster: &ClusterHealth, now_seconds: u64) -> String {
    let mut text = format!(
        "{:<12} {:<11} {:<9} {:<9} REASON\n",
        "COMPONENT", "STATE", "FOR", "RESTARTS"
    );
    for (name, readiness) in [("apiserver", &cluster.api), ("node", &cluster.node)] {
        let (state, reason) = match readiness {
            Ok(()) => ("ready", String::new()),
            Err(error) => ("not ready", error.to_string()),
        };
        text.push_str(format!("{name:<12} {state:<11} {:<9} {:<9} {reason}", "", "").trim_end());
        text.push('\n');
    }
    for (name, component) in &status.components {
        let state = if component.is_running {
            "running"
        } else {
            "restarting"
        };
        let age = age(now_seconds.saturating_sub(component.since_seconds));
        let reason = component.reason.as_deref().unwrap_or_default();
        let line = format!(
            "{name:<12} {state:<11} {age:<9} {:<9} {reason}",
            component.restarts
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns the status as a JSON object.
fn document(status: &ProcessStatus, cluster: &ClusterHealth) -> Value {
    let health = |readiness: &Result<(), CommandError>| match readiness {
        Ok(()) => json!({"isReady": true}),
        Err(error) => json!({"isReady": false, "reason": error.to_string()}),
    };
    let components = status.components.iter().map(|(name, component)| {
        let mut object = json!({
            "name": name,
            "isRunning": component.is_running,
            "sinceSeconds": component.since_seconds,
            "restarts": component.restarts,
        });
        if let (Some(reason), Some(object)) = (&component.reason, object.as_object_mut()) {
            object.insert("reason".to_owned(), reason.as_str().into());
        }
        object
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": status.pid,
        "kubeconfig": status.kubeconfig.display().to_string(),
        "nodeName": status.node_name,
        "apiserver": health(&cluster.api),
        "node": health(&cluster.node),
        "components": components.collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests;
