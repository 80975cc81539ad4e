//! Asking a container's readiness probe again and again.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use api::object::IntOrString;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::ProbeResult;
use crate::object::{Container, Probe};
use crate::probe::{self, ProbeFailure};
use crate::runtime::{Execution, Executor, RuntimeError};
use crate::sandbox::protocol::Program;

/// Why a probe did not succeed.
#[derive(Debug, thiserror::Error)]
enum Unready {
    /// The container does not answer as it should.
    #[error(transparent)]
    Answer(#[from] ProbeFailure),
    /// The program was not run.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The program ended badly.
    #[error("command exited with {code}")]
    Exit {
        /// Its status.
        code: i32,
    },
    /// It took too long.
    #[error("no result within {limit:?}")]
    Timeout {
        /// What it may take.
        limit: Duration,
    },
    /// The probe cannot be asked at all.
    #[error("{why}")]
    Unusable {
        /// Why.
        why: &'static str,
    },
}

/// Starts a task that tells every result, until it is aborted. `to` is the Pod's address.
pub(super) fn start(
    container: &Container,
    to: Option<IpAddr>,
    executor: Executor,
    results: mpsc::Sender<ProbeResult>,
) -> AbortHandle {
    let container = container.clone();
    let task = tokio::spawn(async move {
        let Some(probe) = container.readiness_probe.clone() else {
            return;
        };
        sleep(probe::initial_delay(&probe)).await;
        loop {
            let limit = probe::timeout(&probe);
            let asked = timeout(limit, ask(&probe, &container, to, &executor)).await;
            let result = asked.unwrap_or(Err(Unready::Timeout { limit }));
            if let Err(error) = &result {
                tracing::debug!(container = container.name, %error, "readiness probe failed");
            }
            let result = ProbeResult {
                container: container.name.clone(),
                succeeded: result.is_ok(),
            };
            if results.send(result).await.is_err() {
                return;
            }
            sleep(probe::period(&probe)).await;
        }
    });
    task.abort_handle()
}

async fn ask(
    probe: &Probe,
    container: &Container,
    to: Option<IpAddr>,
    executor: &Executor,
) -> Result<(), Unready> {
    if let Some(get) = &probe.http_get {
        if get.scheme.eq_ignore_ascii_case("https") {
            return Err(Unready::Unusable {
                why: "httpGet probes with scheme HTTPS are not supported",
            });
        }
        let to = address(&get.host, &get.port, container, to)?;
        return Ok(probe::http_get(to, &get.path, &to.to_string(), &get.http_headers).await?);
    }
    if let Some(tcp) = &probe.tcp_socket {
        let to = address(&tcp.host, &tcp.port, container, to)?;
        return Ok(probe::tcp_connect(to).await?);
    }
    let Some(exec) = &probe.exec else {
        return Err(Unready::Unusable {
            why: "the probe has none of httpGet, tcpSocket and exec",
        });
    };
    let limit = probe::timeout(probe);
    match executor.execute(program(exec.command.clone()), limit).await? {
        Execution::Exited(exit) if exit.code == 0 => Ok(()),
        Execution::Exited(exit) => Err(Unready::Exit { code: exit.code }),
        Execution::TimedOut => Err(Unready::Timeout { limit }),
    }
}

fn program(command: Vec<String>) -> Program {
    Program {
        command,
        environment: [("PATH".to_owned(), crate::environment::PATH_DEFAULT.to_owned())].into(),
        directory: String::new(),
    }
}

fn address(
    host: &str,
    port: &IntOrString,
    container: &Container,
    to: Option<IpAddr>,
) -> Result<SocketAddr, Unready> {
    let ip = if host.is_empty() { to } else { host.parse().ok() };
    let ip = ip.ok_or(Unready::Unusable {
        why: "the probe's host is no address",
    })?;
    let port = probe::port_number(port, container).ok_or(Unready::Unusable {
        why: "the probe's port is neither a number nor the name of a container port",
    })?;
    Ok(SocketAddr::new(ip, port))
}
