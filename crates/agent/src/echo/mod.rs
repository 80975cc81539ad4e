//! The built-in image `portolan.dev/echo`: answers on every port that its container declares with who answered
//! and who asked, as one line of JSON. HTTP requests get HTTP, other TCP clients and datagrams get the line.

mod http;
mod serve;

use std::net::SocketAddr;
use std::process::ExitCode;

use api::object::Protocol;
use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// Hidden subcommand of the echo server.
pub const SUBCOMMAND: &str = "internal-echo";
/// The port of a container that declares none.
const PORT_DEFAULT: u16 = 8080;

/// Who answers, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Name of the Pod.
    pub pod: String,
    /// Namespace of the Pod.
    pub namespace: String,
    /// Name of the node.
    pub node: String,
    /// Ports to answer on. SCTP ports are left out: not every kernel has them.
    pub ports: Vec<(Protocol, u16)>,
}

impl Settings {
    /// The arguments from which [`Settings::parse`] makes the same settings.
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

    /// Reads the arguments of the hidden subcommand; without a port, TCP and UDP 8080.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut settings = Self::default();
        for pair in arguments.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("{} needs a value", pair.concat()));
            };
            match name.as_str() {
                "--pod" => settings.pod.clone_from(value),
                "--namespace" => settings.namespace.clone_from(value),
                "--node" => settings.node.clone_from(value),
                "--port" => settings.ports.push(parse_port(value)?),
                _ => return Err(format!("unknown argument {name}")),
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

    /// The answer to `client`, who asked on `port`.
    fn answer(&self, protocol: Protocol, port: u16, client: SocketAddr) -> Value {
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

/// Serves until the process is ended: the whole of the hidden subcommand.
pub fn run(settings: Settings) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let served = runtime.and_then(|runtime| runtime.block_on(serve::serve(settings)));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse_port(text: &str) -> Result<(Protocol, u16), String> {
    let wrong = || format!("{text:?} is not a port: NUMBER/PROTOCOL");
    let (number, protocol) = text.split_once('/').ok_or_else(wrong)?;
    let number = number.parse().map_err(|_| wrong())?;
    let protocol = match protocol {
        "TCP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        _ => return Err(wrong()),
    };
    Ok((protocol, number))
}
