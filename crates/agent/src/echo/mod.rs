//! Built-in image `portolan.dev/echo`: an echo server on every port that its container declares.
//!
//! The response names the server and the client in one line of JSON. HTTP requests get it as an HTTP response, other
//! TCP clients and datagrams get the line itself.

mod http;
mod server;

use std::net::SocketAddr;
use std::process::ExitCode;

use api::object::Protocol;
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// Hidden subcommand of the echo server.
pub const SUBCOMMAND: &str = "internal-echo";
/// Port of a container that declares none.
const PORT_DEFAULT: u16 = 8080;

/// Identity and ports of an echo server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name of the Pod.
    pub pod: String,
    /// Namespace of the Pod.
    pub namespace: String,
    /// Name of the node.
    pub node: String,
    /// Ports to serve. [`Settings::parse`] removes SCTP ports, because some kernels lack SCTP.
    pub ports: Vec<(Protocol, u16)>,
}

/// Error in the arguments of the hidden subcommand.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// An argument has no value.
    #[error("expected a value after {name}, found none")]
    MissingValue {
        /// Name of the argument.
        name: String,
    },
    /// An argument is unknown.
    #[error("unknown argument {name}")]
    Unknown {
        /// Name of the argument.
        name: String,
    },
    /// A port is not of the form `80/TCP`.
    #[error("{text:?} is not a port: NUMBER/PROTOCOL")]
    Port {
        /// Value of the argument.
        text: String,
    },
}

impl Settings {
    /// Returns arguments from which [`Settings::parse`] builds the same settings.
    pub fn arguments(&self) -> Vec<String> {
        let named = [
            ("--pod", &self.pod),
            ("--namespace", &self.namespace),
            ("--node", &self.node),
        ];
        let mut arguments: Vec<String> = named
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value.clone()])
            .collect();
        for (protocol, port) in &self.ports {
            arguments.extend(["--port".to_owned(), format!("{port}/{}", protocol.as_str())]);
        }
        arguments
    }

    /// Parses the arguments of the hidden subcommand. Without a port, TCP and UDP 8080 are served.
    ///
    /// # Errors
    /// See [`ArgumentError`].
    pub fn parse(arguments: &[String]) -> Result<Self, ArgumentError> {
        let mut settings = Self::default();
        for pair in arguments.chunks(2) {
            let [name, value] = pair else {
                return Err(ArgumentError::MissingValue { name: pair.concat() });
            };
            match name.as_str() {
                "--pod" => settings.pod.clone_from(value),
                "--namespace" => settings.namespace.clone_from(value),
                "--node" => settings.node.clone_from(value),
                "--port" => settings.ports.push(parse_port(value)?),
                _ => return Err(ArgumentError::Unknown { name: name.clone() }),
            }
        }
        if settings.ports.is_empty() {
            settings.ports = vec![(Protocol::Tcp, PORT_DEFAULT), (Protocol::Udp, PORT_DEFAULT)];
        }
        settings.ports.retain(|(protocol, _)| *protocol != Protocol::Sctp);
        settings.ports.sort();
        settings.ports.dedup();
        Ok(settings)
    }

    /// Returns the response to a client.
    fn response(&self, protocol: Protocol, port: u16, client: SocketAddr) -> Value {
        let address = client.ip().to_canonical();
        json!({
            "pod": self.pod,
            "namespace": self.namespace,
            "node": self.node,
            "protocol": protocol.as_str(),
            "port": port,
            "client": SocketAddr::new(address, client.port()).to_string(),
        })
    }
}

/// Runs the hidden subcommand: serves until the process is killed.
pub fn run(settings: Settings) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime.and_then(|runtime| runtime.block_on(server::serve(settings)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse_port(text: &str) -> Result<(Protocol, u16), ArgumentError> {
    let invalid = || ArgumentError::Port {
        text: text.to_owned(),
    };
    let (number, protocol) = text.split_once('/').ok_or_else(invalid)?;
    let number = number.parse().map_err(|_| invalid())?;
    let protocol = match protocol {
        "TCP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        _ => return Err(invalid()),
    };
    Ok((protocol, number))
}
