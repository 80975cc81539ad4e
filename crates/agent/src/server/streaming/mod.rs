//! Streams to Pods: commands in containers and forwarded ports (kubelet's `pkg/kubelet/server`, `getExec` and
//! `getPortForward`), over SPDY or WebSocket.
//!
//! [`Streaming`] checks a request and upgrades its connection. A task then serves the streams.

mod client_streams;
mod command;
mod idle;
pub(super) mod parameters;
mod permits;
mod port_channels;
mod port_forward;
mod spdy;
mod upgrade;
mod websocket;

use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use netlink::route::NetworkNamespace;
use streams::protocol::{
    CommandProtocol, PORT_FORWARD_SPDY, PORT_FORWARD_TUNNEL, PORT_FORWARD_WEBSOCKET, REMOTE_COMMAND_SPDY,
    REMOTE_COMMAND_WEBSOCKET,
};

use super::LOG_READERS_MAX;
use crate::pods::state_directory::{PodDirectory, StateDirectory};
use crate::runtime::RuntimeError;
use crate::runtime::session::network_namespace;
use crate::sandbox::session::socket_path;
use command::{Command, Operation};
use idle::IdleTimeout;
use parameters::CommandOptions;
use permits::{SessionPermit, SessionPermits};
use upgrade::{Transport, Upgrade, UpgradeError};

/// Reason why streams are refused. Users see the messages, which are the kubelet's where it has the same error.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    /// The Pod is not on this node.
    #[error("pod does not exist")]
    Pod,
    /// The container does not run.
    #[error("container not found ({0:?})")]
    Container(String),
    /// The request has no stream.
    #[error("you must specify at least 1 of stdin, stdout, stderr")]
    NoStream,
    /// The request has no valid port.
    #[error("expected 1 to {max} ports from 1 to 65535 in the query, as port=NUMBER", max = port_channels::PORTS_MAX)]
    NoPort,
    /// The request has no command.
    #[error("you must specify at least one word of a command")]
    NoCommand,
    /// The connection cannot be upgraded.
    #[error(transparent)]
    Upgrade(#[from] UpgradeError),
    /// A limit is reached.
    #[error("too many streams to the pod; the limits are {per_pod} for one pod, {total} for the node, and as many for a namespace as are free", per_pod = permits::PER_POD_MAX, total = permits::TOTAL_MAX)]
    Limit,
    /// Too many logs are read.
    #[error(
        "too many logs are read; the limits are {LOG_READERS_MAX} for the node, and as many for a namespace as are free"
    )]
    LogReaders,
    /// The sandbox does not respond.
    #[error(transparent)]
    Sandbox(#[from] RuntimeError),
}

impl StreamError {
    /// Returns the status code of the response.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Pod | Self::Container(_) => StatusCode::NOT_FOUND,
            Self::NoStream | Self::NoPort | Self::NoCommand | Self::Upgrade(UpgradeError::NotRequested) => {
                StatusCode::BAD_REQUEST
            }
            Self::Upgrade(UpgradeError::Protocol { .. }) => StatusCode::FORBIDDEN,
            Self::Limit | Self::LogReaders => StatusCode::TOO_MANY_REQUESTS,
            Self::Sandbox(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// Server of streams.
pub(super) struct Streaming {
    state: StateDirectory,
    permits: SessionPermits,
}

/// Connection after its upgrade.
type Upgraded = IdleTimeout<TokioIo<hyper::upgrade::Upgraded>>;

impl Streaming {
    /// Returns a server without sessions.
    pub(super) fn new(state: StateDirectory) -> Self {
        Self {
            state,
            permits: SessionPermits::new(),
        }
    }

    /// Executes a command in a container.
    ///
    /// # Errors
    /// See [`StreamError`].
    pub(super) fn execute(
        &self,
        request: Request<Incoming>,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Result<Response<()>, StreamError> {
        let options = CommandOptions::parse(request.uri().query().unwrap_or_default());
        if options.command.is_empty() {
            return Err(StreamError::NoCommand);
        }
        self.serve_container(request, namespace, pod, container, Operation::Execute, options)
    }

    /// Attaches to the standard streams of a container.
    ///
    /// # Errors
    /// See [`StreamError`].
    pub(super) fn attach(
        &self,
        request: Request<Incoming>,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Result<Response<()>, StreamError> {
        let options = CommandOptions::parse(request.uri().query().unwrap_or_default());
        self.serve_container(request, namespace, pod, container, Operation::Attach, options)
    }

    /// Forwards connections to ports of a Pod.
    ///
    /// # Errors
    /// See [`StreamError`].
    pub(super) async fn forward(
        &self,
        request: Request<Incoming>,
        namespace: &str,
        pod: &str,
    ) -> Result<Response<()>, StreamError> {
        let (directory, permit) = self.begin(namespace, pod)?;
        let network: NetworkNamespace = network_namespace(socket_path(&directory.socket())).await?;
        let ports = port_channels::ports(request.uri().query().unwrap_or_default());
        let upgrade = Upgrade::negotiate(request, &PORT_FORWARD_SPDY, &PORT_FORWARD_WEBSOCKET)?;
        let pod = pod.to_owned();
        if upgrade.transport == Transport::WebSocket && upgrade.protocol != PORT_FORWARD_TUNNEL {
            let ports = ports.ok_or(StreamError::NoPort)?;
            let encoding = CommandProtocol::of(upgrade.protocol).encoding;
            return Ok(serve(upgrade, permit, move |_, io| {
                port_channels::serve(io, encoding, network, pod, ports)
            }));
        }
        Ok(serve(upgrade, permit, move |transport, io| async move {
            match transport {
                Transport::Spdy => port_forward::serve(io, network, pod).await,
                Transport::WebSocket => {
                    let (tunnel, copying) = websocket::tunnel(io);
                    tokio::join!(port_forward::serve(tunnel, network, pod), copying);
                }
            }
        }))
    }

    fn begin(&self, namespace: &str, pod: &str) -> Result<(PodDirectory, SessionPermit), StreamError> {
        let directory = self.state.find_pod(namespace, pod).ok_or(StreamError::Pod)?;
        let permit = self.permits.acquire(namespace, pod);
        Ok((directory, permit.ok_or(StreamError::Limit)?))
    }

    /// Upgrades a request for the streams of a running container.
    fn serve_container(
        &self,
        request: Request<Incoming>,
        namespace: &str,
        pod: &str,
        container: &str,
        operation: Operation,
        options: CommandOptions,
    ) -> Result<Response<()>, StreamError> {
        let (directory, permit) = self.begin(namespace, pod)?;
        if options.streams().next().is_none() {
            return Err(StreamError::NoStream);
        }
        let checkpoint = directory.read_checkpoint().unwrap_or_default();
        if !checkpoint.get(container).is_some_and(|saved| saved.is_running()) {
            return Err(StreamError::Container(container.to_owned()));
        }
        let upgrade = Upgrade::negotiate(request, &REMOTE_COMMAND_SPDY, &REMOTE_COMMAND_WEBSOCKET)?;
        let protocol = CommandProtocol::of(upgrade.protocol);
        let command = Command {
            options,
            operation,
            socket: socket_path(&directory.socket()),
            container: container.to_owned(),
        };
        Ok(serve(upgrade, permit, move |transport, io| async move {
            match transport {
                Transport::Spdy => spdy::serve_command(io, protocol, command).await,
                Transport::WebSocket => websocket::serve_command(io, protocol, command).await,
            }
        }))
    }
}

/// Serves the upgraded connection in a task of its own, which holds the permit.
fn serve<F>(
    upgrade: Upgrade,
    permit: SessionPermit,
    session: impl FnOnce(Transport, Upgraded) -> F + Send + 'static,
) -> Response<()>
where
    F: Future<Output = ()> + Send,
{
    let Upgrade {
        response,
        transport,
        connection,
        ..
    } = upgrade;
    tokio::spawn(async move {
        let _permit = permit;
        match connection.await {
            Ok(upgraded) => session(transport, IdleTimeout::new(TokioIo::new(upgraded))).await,
            Err(error) => tracing::debug!(%error, "connection for streams not upgraded"),
        }
    });
    response
}

/// Maximum number of bytes of a stream that wait, as messages: one is read while another is written.
const MESSAGES_WAITING_MAX: usize = 1;
/// Time between pings to a client. A reader that waits for a command does not detect the end of its client; a failed
/// ping does.
const PING_PERIOD: Duration = Duration::from_secs(30);
/// Maximum number of bytes that are read at once.
const READ_BYTES_MAX: usize = 32 << 10;
