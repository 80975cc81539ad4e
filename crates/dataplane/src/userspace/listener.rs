//! Listener of a Service port, for TCP or UDP.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use api::object::Protocol;
use counting::NamespaceShare;
use plan::{EndpointSet, PortKey, ServicePortPlan};
use socket2::{Domain, Socket, Type};
use tokio::net::UdpSocket;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

use super::connection_permits::ConnectionPermits;
use super::{SharedBalancer, tcp, udp};

/// Length of the accept queue.
const BACKLOG: i32 = 4_096;

/// A listener. Dropping it stops accepting; open connections continue.
#[derive(Debug)]
pub(super) struct Listener {
    /// Service port of the listener.
    pub port: PortKey,
    /// Endpoint set of the listener.
    pub set: EndpointSet,
    /// Bound address.
    pub address: SocketAddr,
    /// Selection of endpoints.
    pub(super) balancer: Arc<SharedBalancer>,
    /// Maximum age of connections.
    pub(super) age_limit: Arc<tcp::AgeLimit>,
    /// Permit of the listener; `None` while it closes.
    pub(super) share: Option<NamespaceShare>,
    task: Task,
}

/// Receiver of connections or datagrams.
#[derive(Debug)]
enum Task {
    /// Closes the listener when dropped, after accepting its backlog.
    Tcp { _guard: tcp::ListenerGuard },
    /// Task of a UDP listener; aborted on drop.
    Udp(AbortHandle),
}

impl Listener {
    /// Opens a listener on a free port of an address.
    ///
    /// # Errors
    ///
    /// The error of the failed system call.
    pub(super) fn open(
        port: &ServicePortPlan,
        set: EndpointSet,
        address: IpAddr,
        workers: &tcp::Workers,
        (runtime, kernel): (&Runtime, &Arc<udp::KernelState>),
        permits: &Arc<ConnectionPermits>,
        congestion: &tcp::CongestionControl,
    ) -> io::Result<Self> {
        let balancer = Arc::new(SharedBalancer::default());
        let age_limit = Arc::new(tcp::AgeLimit::default());
        let at = SocketAddr::new(address, 0);
        let is_tcp = port.key.protocol == Protocol::Tcp;
        let kind = if is_tcp { Type::STREAM } else { Type::DGRAM };
        let socket = Socket::new(Domain::for_address(at), kind, None)?;
        socket.set_nonblocking(true)?;
        socket.bind(&at.into())?;
        let address = socket.local_addr()?.as_socket().unwrap_or(at);
        let task = if is_tcp {
            // Accepted connections inherit these options.
            socket.set_tcp_nodelay(true)?;
            congestion.apply_initial(&socket);
            socket.listen(BACKLOG)?;
            let listener = tcp::SharedListener {
                socket: socket.into(),
                address,
                service: port.key.service.clone(),
                balancer: balancer.clone(),
                age_limit: age_limit.clone(),
                permits: permits.clone(),
                congestion: congestion.clone(),
            };
            Task::Tcp {
                _guard: workers.listen(listener),
            }
        } else {
            let _context = runtime.enter();
            let socket = UdpSocket::from_std(socket.into())?;
            let flows = udp::serve(
                socket,
                address,
                port.key.service.clone(),
                balancer.clone(),
                permits.clone(),
                kernel.clone(),
            );
            let task = runtime.spawn(flows);
            Task::Udp(task.abort_handle())
        };
        Ok(Self {
            port: port.key.clone(),
            set,
            address,
            balancer,
            age_limit,
            share: None,
            task,
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.age_limit.set(None);
        if let Task::Udp(task) = &self.task {
            task.abort();
        }
    }
}
