//! Probes and lifecycle handlers of one container (kubelet's `prober.go` and `lifecycle/handlers.go`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::object::ContainerPort;
use probe::definition::{Exec, Probe};
use probe::{ProbeReport, ProbeResult, Target};
use rustls::ClientConfig;

use crate::object::{Container, LifecycleHandler};
use crate::runtime::Executor;

/// Runner of the probes and lifecycle handlers of one container.
#[derive(Clone)]
pub(super) struct HandlerRunner {
    pub container: Arc<Container>,
    /// Ports of the container by name.
    pub ports: Arc<[ContainerPort]>,
    /// Primary address of the Pod.
    pub address: Option<IpAddr>,
    pub executor: Executor,
    /// TLS configuration of HTTPS requests.
    pub tls: Arc<ClientConfig>,
}

/// Failure of a lifecycle handler.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandlerError {
    /// The handler has no action.
    #[error("expected exec, httpGet or sleep in the handler")]
    NoAction,
    /// The command or the request failed.
    #[error("{0}")]
    Failed(String),
}

impl HandlerRunner {
    /// Runs a probe once.
    pub(super) async fn run_probe(&self, probe: &Probe) -> ProbeReport {
        let timeout = probe::timeout(probe);
        match &probe.exec {
            Some(exec) => self.execute(exec, timeout).await,
            None => probe::execute(probe, self.target(), &self.tls).await,
        }
    }

    /// Runs a lifecycle handler.
    ///
    /// # Errors
    /// See [`HandlerError`].
    pub(super) async fn run_handler(
        &self,
        handler: &LifecycleHandler,
        timeout: Duration,
    ) -> Result<(), HandlerError> {
        if let Some(sleep) = &handler.sleep {
            tokio::time::sleep(Duration::from_secs(sleep.seconds).min(timeout)).await;
            return Ok(());
        }
        let report = match (&handler.exec, &handler.http_get) {
            (Some(exec), _) => self.execute(exec, timeout).await,
            (_, Some(get)) => probe::get(get, self.target(), &self.tls, timeout).await,
            (None, None) => return Err(HandlerError::NoAction),
        };
        match report.result {
            ProbeResult::Success => Ok(()),
            _ => Err(HandlerError::Failed(report.message)),
        }
    }

    async fn execute(&self, exec: &Exec, timeout: Duration) -> ProbeReport {
        let name = &self.container.name;
        let executed = self.executor.execute(name, exec.command.clone(), timeout).await;
        match executed {
            Err(error) => ProbeReport::new(ProbeResult::Unknown, error),
            Ok(execution) => match execution.exit {
                Some(exit) if exit.code == 0 => ProbeReport::new(ProbeResult::Success, ""),
                Some(_) => ProbeReport::new(ProbeResult::Failure, execution.output),
                None => {
                    let command = exec.command.join(" ");
                    let message = format!("command timed out: {command:?} timed out after {timeout:?}");
                    ProbeReport::new(ProbeResult::Failure, message)
                }
            },
        }
    }

    /// Returns the address and named ports for requests that name no host.
    fn target(&self) -> Target<'_> {
        Target {
            address: self.address,
            ports: &self.ports,
        }
    }
}
