//! Service of the edge whose backend sends each client the address of its edge node and echoes the rest.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use http::Method;
use serde_json::json;

use super::test_cluster::TestCluster;

/// Load balancer IP of the Service.
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 200);
/// Flag with the address pool of the Service.
pub(crate) const POOL: &str = "--load-balancer-addresses=172.30.0.200/32";
const PORT: u16 = 9_000;
/// Time for a response of the backend.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// Starts the backend on a host without other processes, and creates the Service.
pub(crate) fn serve(cluster: &TestCluster, server: &str) {
    let member = cluster.network().control_plane().expect("a node");
    let bound = member.enter(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)));
    let listener = bound.expect("a namespace").expect("the port of the backend");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that is killed ends its connection with an error.
            thread::spawn(move || drop(respond(stream)));
        }
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "echo-server", "labels": {"kubernetes.io/service-name": "echo-server"}},
        "endpoints": [{"addresses": [member.plan.address.ipv4.to_string()]}],
        "ports": [{"name": "echo", "protocol": "TCP", "port": PORT}],
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "echo-server"},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": "portolan.dev/edge",
                 "ports": [{"name": "echo", "port": PORT}]},
    });
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    cluster.request(server, Method::POST, slices, Some(&slice));
    cluster.request(
        server,
        Method::POST,
        "/api/v1/namespaces/default/services",
        Some(&service),
    );
}

fn respond(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(format!("{}\n", stream.peer_addr()?.ip()).as_bytes())?;
    let mut writer = stream.try_clone()?;
    io::copy(&mut stream, &mut writer)?;
    writer.shutdown(std::net::Shutdown::Write)
}

/// Connection of a client, with the address of the edge node that relays it.
pub(crate) struct EchoConnection {
    pub node: IpAddr,
    reader: BufReader<TcpStream>,
}

impl EchoConnection {
    /// Connects from outside of the cluster and reads the address.
    pub(crate) fn connect(cluster: &TestCluster, timeout: Duration) -> io::Result<Self> {
        let outside = cluster.network().outside().expect("the outside");
        outside
            .enter(|| Self::connect_in_namespace(timeout))
            .expect("a namespace")
    }

    /// As [`EchoConnection::connect`], in the network namespace of the thread.
    pub(crate) fn connect_in_namespace(timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from((ADDRESS, PORT)), timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let node = line.trim_end().parse();
        let node = node.map_err(|_| io::Error::other(format!("expected an address, found {line:?}")))?;
        Ok(Self { node, reader })
    }

    /// Sends bytes and expects their echo.
    pub(crate) fn exchange(&mut self) -> io::Result<()> {
        const MESSAGE: &[u8] = b"are you there?";
        self.reader.get_mut().write_all(MESSAGE)?;
        let mut echo = [0; MESSAGE.len()];
        self.reader.read_exact(&mut echo)?;
        if echo == MESSAGE {
            Ok(())
        } else {
            Err(io::Error::other("the echo differs from the message"))
        }
    }

    /// Shuts the connection down and expects no further bytes.
    pub(crate) fn close(mut self) -> io::Result<()> {
        self.reader.get_mut().shutdown(std::net::Shutdown::Write)?;
        match self.reader.read_to_end(&mut Vec::new())? {
            0 => Ok(()),
            more => Err(io::Error::other(format!("{more} bytes after the shutdown"))),
        }
    }
}
