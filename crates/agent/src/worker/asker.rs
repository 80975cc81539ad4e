//! Asking one container: probes and lifecycle handlers, whichever way they go.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::object::IntOrString;
use rustls::ClientConfig;
use tokio::time::timeout;

use crate::object::{Container, Exec, HttpGet, LifecycleHandler, Probe};
use crate::probe::http::HttpSuccess;
use crate::probe::{self, Answer, Host, grpc, http, tcp};
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

/// What came of a probe.
pub(super) struct Asked {
    pub answer: Answer,
    /// In words, for people; "" if there is nothing to say.
    pub message: String,
    /// It succeeded in a way that somebody should look at.
    pub is_odd: bool,
}

impl Asked {
    fn new(answer: Answer, message: impl ToString) -> Self {
        Self {
            answer,
            message: message.to_string(),
            is_odd: false,
        }
    }

    /// Nobody was asked.
    pub(super) fn unknown() -> Self {
        Self::new(Answer::Unknown, "the container has no such probe")
    }

    fn of(result: Result<(), impl ToString>) -> Self {
        match result {
            Ok(()) => Self::new(Answer::Success, ""),
            Err(failure) => Self::new(Answer::Failure, failure),
        }
    }
}

impl Asker {
    /// Asks what `probe` says, for as long as it says.
    pub(super) async fn probe(&self, probe: &Probe) -> Asked {
        let limit = probe::timeout(probe);
        if let Some(exec) = &probe.exec {
            return self.probe_exec(exec, limit).await;
        }
        if let Some(get) = &probe.http_get {
            return self.probe_http(get, limit).await;
        }
        let target = match (&probe.tcp_socket, &probe.grpc) {
            (Some(socket), _) => self.place(&socket.host, &socket.port),
            (_, Some(grpc)) => self.place("", &IntOrString::Int(grpc.port.into())),
            (None, None) => Err("missing probe handler".to_owned()),
        };
        let (host, port) = match target {
            Ok(target) => target,
            Err(why) => return Asked::new(Answer::Unknown, why),
        };
        if let Some(grpc) = &probe.grpc {
            let asked = timeout(limit, grpc::probe(&host, port, &grpc.service)).await;
            return asked.map_or_else(
                |_| {
                    let message = format!("timeout: health rpc did not complete within {limit:?}");
                    Asked::new(Answer::Failure, message)
                },
                Asked::of,
            );
        }
        let asked = timeout(limit, tcp::probe(&host, port)).await;
        let slow = || format!("dial tcp {}: i/o timeout", host.with_port(port));
        asked.map_or_else(|_| Asked::new(Answer::Failure, slow()), Asked::of)
    }

    /// Does what `handler` says.
    pub(super) async fn handle(&self, handler: &LifecycleHandler, limit: Duration) -> Result<(), String> {
        if let Some(sleep) = &handler.sleep {
            tokio::time::sleep(Duration::from_secs(sleep.seconds).min(limit)).await;
            return Ok(());
        }
        let asked = match (&handler.exec, &handler.http_get) {
            (Some(exec), _) => self.probe_exec(exec, limit).await,
            (_, Some(get)) => self.probe_http(get, limit).await,
            (None, None) => return Err("the handler has none of exec, httpGet and sleep".to_owned()),
        };
        match asked.answer {
            Answer::Success => Ok(()),
            _ => Err(asked.message),
        }
    }

    async fn probe_exec(&self, exec: &Exec, limit: Duration) -> Asked {
        let name = &self.container.name;
        match self.executor.execute(name, exec.command.clone(), limit).await {
            Err(error) => Asked::new(Answer::Unknown, error),
            Ok(execution) => match execution.exit {
                Some(exit) if exit.code == 0 => Asked::new(Answer::Success, ""),
                Some(_) => Asked::new(Answer::Failure, execution.output),
                None => {
                    let command = exec.command.join(" ");
                    Asked::new(
                        Answer::Failure,
                        format!("command timed out: {command:?} timed out after {limit:?}"),
                    )
                }
            },
        }
    }

    async fn probe_http(&self, get: &HttpGet, limit: Duration) -> Asked {
        let (host, port) = match self.place(&get.host, &get.port) {
            Ok(place) => place,
            Err(why) => return Asked::new(Answer::Unknown, why),
        };
        match timeout(limit, http::probe(get, &host, port, &self.tls)).await {
            Ok(Ok(HttpSuccess::Plain)) => Asked::new(Answer::Success, ""),
            Ok(Ok(HttpSuccess::RedirectedAway)) => Asked {
                is_odd: true,
                ..Asked::new(Answer::Success, "Probe terminated redirects")
            },
            Ok(Err(http::HttpFailure::Request { why })) => Asked::new(Answer::Unknown, why),
            Ok(Err(failure)) => Asked::new(Answer::Failure, failure),
            Err(_) => {
                let scheme = if get.scheme.is_empty() {
                    "http"
                } else {
                    &get.scheme
                };
                let url = format!(
                    "{}://{}{}",
                    scheme.to_ascii_lowercase(),
                    host.with_port(port),
                    get.path
                );
                let why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
                Asked::new(Answer::Failure, format!("Get {url:?}: {why}"))
            }
        }
    }

    /// Whom to ask: the host that the object names, or the Pod.
    fn place(&self, host: &str, port: &IntOrString) -> Result<(Host, u16), String> {
        let number = probe::port_number(port, &self.container);
        let number = number.ok_or("the port is neither a number nor the name of a container port")?;
        let host = match (host, self.address) {
            ("", Some(address)) => Host::Address(address),
            ("", None) => return Err("the Pod has no address".to_owned()),
            (named, _) => Host::parse(named),
        };
        Ok((host, number))
    }
}
