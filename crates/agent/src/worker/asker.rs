//! Asking one container: probes and lifecycle handlers, whichever way they go.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use probe::definition::{Exec, Probe};
use probe::{Answer, ProbeReport, Target};
use rustls::ClientConfig;

use crate::object::{Container, LifecycleHandler};
use crate::runtime::Executor;

/// A container and the ways to it.
#[derive(Clone)]
pub(super) struct Asker {
    /// The container.
    pub container: Arc<Container>,
    /// The Pod's address.
    pub address: Option<IpAddr>,
    /// Into its sandbox.
    pub executor: Executor,
    /// For HTTPS.
    pub tls: Arc<ClientConfig>,
}

impl Asker {
    /// Asks what `probe` says, for as long as it says.
    pub(super) async fn probe(&self, probe: &Probe) -> ProbeReport {
        let limit = probe::timeout(probe);
        if let Some(exec) = &probe.exec {
            return self.probe_exec(exec, limit).await;
        }
        probe::execute(probe, self.target(), &self.tls).await
    }

    /// Does what `handler` says.
    pub(super) async fn handle(&self, handler: &LifecycleHandler, limit: Duration) -> Result<(), String> {
        if let Some(sleep) = &handler.sleep {
            tokio::time::sleep(Duration::from_secs(sleep.seconds).min(limit)).await;
            return Ok(());
        }
        let asked = match (&handler.exec, &handler.http_get) {
            (Some(exec), _) => self.probe_exec(exec, limit).await,
            (_, Some(get)) => probe::get(get, self.target(), &self.tls, limit).await,
            (None, None) => return Err("the handler has none of exec, httpGet and sleep".to_owned()),
        };
        match asked.answer {
            Answer::Success => Ok(()),
            _ => Err(asked.message),
        }
    }

    async fn probe_exec(&self, exec: &Exec, limit: Duration) -> ProbeReport {
        let name = &self.container.name;
        match self.executor.execute(name, exec.command.clone(), limit).await {
            Err(error) => ProbeReport::new(Answer::Unknown, error),
            Ok(execution) => match execution.exit {
                Some(exit) if exit.code == 0 => ProbeReport::new(Answer::Success, ""),
                Some(_) => ProbeReport::new(Answer::Failure, execution.output),
                None => {
                    let command = exec.command.join(" ");
                    ProbeReport::new(
                        Answer::Failure,
                        format!("command timed out: {command:?} timed out after {limit:?}"),
                    )
                }
            },
        }
    }

    /// Whom to ask that is not named.
    fn target(&self) -> Target<'_> {
        Target {
            address: self.address,
            ports: &self.container.ports,
        }
    }
}
