//! A Service of the edge whose backend tells each client by which machine it came, and gives back what it is told.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use http::Method;
use serde_json::json;

use super::lab::Lab;

/// The address of the Service, and the pool that it is in.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 200);
pub const POOL: &str = "--load-balancer-addresses=172.30.0.200/32";
const PORT: u16 = 9_000;
/// How long a client waits for anything that is to come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Starts the backend, on a machine that nothing else runs on, and makes the Service.
pub fn serve(lab: &Lab, server: &str) {
    let member = lab.cluster().control_plane().expect("a machine");
    let bound = member.enter(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)));
    let listener = bound.expect("a namespace").expect("its port");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Clients that are cut off end their connection with an error.
            thread::spawn(move || drop(greet(stream)));
        }
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "greeter", "labels": {"kubernetes.io/service-name": "greeter"}},
        "endpoints": [{"addresses": [member.plan.address.ipv4.to_string()]}],
        "ports": [{"name": "greet", "protocol": "TCP", "port": PORT}],
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "greeter"},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": "portolan.dev/edge",
                 "ports": [{"name": "greet", "port": PORT}]},
    });
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    lab.ask(server, Method::POST, slices, Some(&slice));
    lab.ask(
        server,
        Method::POST,
        "/api/v1/namespaces/default/services",
        Some(&service),
    );
}

fn greet(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(format!("{}\n", stream.peer_addr()?.ip()).as_bytes())?;
    let mut writer = stream.try_clone()?;
    io::copy(&mut stream, &mut writer)?;
    writer.shutdown(std::net::Shutdown::Write)
}

/// A client's connection, and the machine that it came by.
pub struct Greeted {
    pub by: IpAddr,
    reader: BufReader<TcpStream>,
}

impl Greeted {
    /// Connects from the outside, and is greeted.
    pub fn connect(lab: &Lab, patience: Duration) -> io::Result<Self> {
        let outside = lab.cluster().outside().expect("the outside");
        outside
            .enter(|| Self::connect_here(patience))
            .expect("a namespace")
    }

    /// The same for a thread that is outside already.
    pub fn connect_here(patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&SocketAddr::from((ADDRESS, PORT)), patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let by = line.trim_end().parse();
        let by = by.map_err(|_| io::Error::other(format!("greeted with {line:?}")))?;
        Ok(Self { by, reader })
    }

    /// Says something and hears it again.
    pub fn exchange(&mut self) -> io::Result<()> {
        const WORDS: &[u8] = b"are you there?";
        self.reader.get_mut().write_all(WORDS)?;
        let mut heard = [0; WORDS.len()];
        self.reader.read_exact(&mut heard)?;
        match heard == WORDS {
            true => Ok(()),
            false => Err(io::Error::other("heard something else")),
        }
    }

    /// Ends in order.
    pub fn end(mut self) -> io::Result<()> {
        self.reader.get_mut().shutdown(std::net::Shutdown::Write)?;
        match self.reader.read_to_end(&mut Vec::new())? {
            0 => Ok(()),
            more => Err(io::Error::other(format!("{more} bytes more"))),
        }
    }
}
