//! The socket that a Service port's connections come to, and what takes them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use api::object::Protocol;
use plan::{PortKey, ServicePortPlan, Set};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use tokio::net::UdpSocket;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::{Place, tcp, udp};

/// Connections that wait to be taken.
const BACKLOG: i32 = 4_096;

/// A listener. Dropping it takes no more connections; those that are open go on.
#[derive(Debug)]
pub struct Listener {
    /// Whose connections.
    pub port: PortKey,
    /// Which of them.
    pub set: Set,
    /// Where they come to.
    pub address: SocketAddr,
    /// Where they go on.
    pub(super) place: Arc<Place>,
    task: Task,
}

/// What takes connections or datagrams.
#[derive(Debug)]
enum Task {
    /// Ends when this is dropped, with what waits.
    Tcp { _until: tcp::Listening },
    /// Is ended.
    Udp(AbortHandle),
}

impl Listener {
    /// Opens a listener at any free port of an address.
    pub fn open(
        port: &ServicePortPlan,
        set: Set,
        address: IpAddr,
        threads: &tcp::Threads,
        runtime: &Runtime,
        open: &Arc<Semaphore>,
        congestion: &tcp::CongestionControl,
    ) -> io::Result<Self> {
        let place = Arc::new(Place::default());
        let at = SocketAddr::new(address, 0);
        let is_tcp = port.key.protocol == Protocol::Tcp;
        let kind = if is_tcp { Type::STREAM } else { Type::DGRAM };
        let socket = Socket::new(Domain::for_address(at), kind, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&at.into())?;
        let address = socket.local_addr()?.as_socket().unwrap_or(at);
        let task = if is_tcp {
            // For all connections that it takes.
            socket.set_tcp_nodelay(true)?;
            congestion.begin(&socket);
            socket.listen(BACKLOG)?;
            let door = tcp::Door {
                listener: socket.into(),
                address,
                place: place.clone(),
                open: open.clone(),
                congestion: congestion.clone(),
            };
            Task::Tcp {
                _until: threads.listen(door),
            }
        } else {
            let _context = runtime.enter();
            let socket = UdpSocket::from_std(socket.into())?;
            let task = runtime.spawn(udp::serve(socket, place.clone(), open.clone()));
            Task::Udp(task.abort_handle())
        };
        Ok(Self {
            port: port.key.clone(),
            set,
            address,
            place,
            task,
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Task::Udp(task) = &self.task {
            task.abort();
        }
    }
}

/// Lets this process have as many file descriptors as it may have.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, "the number of open files stays as it is");
    }
}
