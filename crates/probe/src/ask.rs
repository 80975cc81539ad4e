//! Asking what a probe says over the network, within the time that it says.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::object::{ContainerPort, IntOrString};
use rustls::ClientConfig;
use tokio::time;

use crate::definition::{HttpGet, Probe};
use crate::http::{HttpFailure, HttpSuccess};
use crate::{Answer, Host, grpc, http, tcp, timeout};

/// Whom a probe asks that names no host.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The address; a Pod may have none yet.
    pub address: Option<IpAddr>,
    /// The ports that probes may name.
    pub ports: &'a [ContainerPort],
}

/// What came of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What it counts for.
    pub answer: Answer,
    /// In words, for people; "" if there is nothing to say.
    pub message: String,
    /// It succeeded in a way that somebody should look at.
    pub is_odd: bool,
}

impl Asked {
    /// An answer, and what there is to say about it.
    pub fn new(answer: Answer, message: impl ToString) -> Self {
        Self {
            answer,
            message: message.to_string(),
            is_odd: false,
        }
    }

    fn of(result: Result<(), impl ToString>) -> Self {
        match result {
            Ok(()) => Self::new(Answer::Success, ""),
            Err(failure) => Self::new(Answer::Failure, failure),
        }
    }
}

/// Asks what `probe` says: `httpGet`, `tcpSocket` or `grpc`. `exec` is for those who run the container.
pub async fn ask(probe: &Probe, target: Target<'_>, tls: &Arc<ClientConfig>) -> Asked {
    let limit = timeout(probe);
    if let Some(http_get) = &probe.http_get {
        return get(http_get, target, tls, limit).await;
    }
    let place = match (&probe.tcp_socket, &probe.grpc) {
        (Some(socket), _) => target.place(&socket.host, &socket.port),
        (_, Some(grpc)) => target.place("", &IntOrString::Int(grpc.port.into())),
        (None, None) => Err("missing probe handler".to_owned()),
    };
    let (host, port) = match place {
        Ok(place) => place,
        Err(why) => return Asked::new(Answer::Unknown, why),
    };
    if let Some(grpc) = &probe.grpc {
        let asked = time::timeout(limit, grpc::probe(&host, port, &grpc.service)).await;
        return asked.map_or_else(
            |_| {
                let message = format!("timeout: health rpc did not complete within {limit:?}");
                Asked::new(Answer::Failure, message)
            },
            Asked::of,
        );
    }
    let asked = time::timeout(limit, tcp::probe(&host, port)).await;
    let slow = || format!("dial tcp {}: i/o timeout", host.with_port(port));
    asked.map_or_else(|_| Asked::new(Answer::Failure, slow()), Asked::of)
}

/// Asks by HTTP, of a probe or of a handler.
pub async fn get(get: &HttpGet, target: Target<'_>, tls: &Arc<ClientConfig>, limit: Duration) -> Asked {
    let (host, port) = match target.place(&get.host, &get.port) {
        Ok(place) => place,
        Err(why) => return Asked::new(Answer::Unknown, why),
    };
    match time::timeout(limit, http::probe(get, &host, port, tls)).await {
        Ok(Ok(HttpSuccess::Plain)) => Asked::new(Answer::Success, ""),
        Ok(Ok(HttpSuccess::RedirectedAway)) => Asked {
            is_odd: true,
            ..Asked::new(Answer::Success, "Probe terminated redirects")
        },
        Ok(Err(HttpFailure::Request { why })) => Asked::new(Answer::Unknown, why),
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

impl Target<'_> {
    /// Whom to ask: the host that the object names, or the target itself.
    fn place(self, host: &str, port: &IntOrString) -> Result<(Host, u16), String> {
        let number = self.number(port);
        let number = number.ok_or("the port is neither a number nor the name of a container port")?;
        let host = match (host, self.address) {
            ("", Some(address)) => Host::Address(address),
            ("", None) => return Err("the Pod has no address".to_owned()),
            (named, _) => Host::parse(named),
        };
        Ok((host, number))
    }

    /// The number of a probe's port: itself, or that of the port of that name.
    pub(crate) fn number(self, port: &IntOrString) -> Option<u16> {
        match port {
            IntOrString::Int(number) => u16::try_from(*number).ok().filter(|n| *n != 0),
            IntOrString::String(name) => self
                .ports
                .iter()
                .find(|p| p.name == *name)
                .map(|p| p.container_port)
                .or_else(|| name.parse().ok().filter(|n| *n != 0)),
        }
    }
}
