//! An edge with one Service, its backends and its clients.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use edge::settings::{Backend, BackendProtocol, Frontend, Listener, ServiceName, ServiceSettings, Settings};
use edge::{Edge, Options};

/// How long anything may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An edge and what it is to serve.
pub struct Setting {
    pub edge: Edge,
    pub service: ServiceSettings,
}

/// The name of the Service.
pub fn name() -> ServiceName {
    ServiceName {
        namespace: "shop".into(),
        name: "web".into(),
    }
}

/// A Service on loopback that asks for nothing special.
pub fn service(frontend: Frontend, backends: &[SocketAddr]) -> ServiceSettings {
    let is_udp = frontend == Frontend::Udp;
    let listener = Listener {
        name: "main".into(),
        port: free_port(is_udp),
        frontend,
        backend_protocol: BackendProtocol::Tcp,
        backends: backends.iter().copied().map(Backend::ready).collect(),
    };
    ServiceSettings::new(vec![Ipv4Addr::LOCALHOST.into()], vec![listener])
}

impl Setting {
    /// An edge that serves this.
    pub fn new(service: ServiceSettings) -> Self {
        Self::with(Options::default(), service)
    }

    /// An edge with these options that serves this.
    pub fn with(options: Options, service: ServiceSettings) -> Self {
        let options = Options {
            threads: 2,
            ..options
        };
        let this = Self {
            edge: Edge::start(options).expect("the edge starts"),
            service,
        };
        this.apply();
        this
    }

    /// Has the edge serve what is in `service` now.
    pub fn apply(&self) {
        let settings = [(name(), Arc::new(self.service.clone()))];
        self.edge.apply(&Settings::from(settings));
    }

    /// Serves this set of backends from now on.
    pub fn set_backends(&mut self, backends: &[SocketAddr]) {
        self.service.listeners[0].backends = backends.iter().copied().map(Backend::ready).collect();
        self.apply();
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        (self.service.addresses[0], self.service.listeners[0].port).into()
    }

    /// A client's connection.
    pub fn connect(&self) -> TcpStream {
        connect(self.address()).expect("the edge takes connections")
    }

    /// The name of the backend that takes a new connection.
    pub fn taker(&self) -> io::Result<String> {
        greeting(&mut connect(self.address())?)
    }

    /// The value of a metric of the one port, for a backend or a reason if `label` says so.
    pub fn metric(&self, metric: &str, label: &str) -> Option<u64> {
        let text = self.edge.metrics();
        assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{metric}{{")) && line.contains(label))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

/// A runtime, for waiting.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
}

/// Waits until something is so.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A port that nobody uses, and no other test of this process gets.
pub fn free_port(is_udp: bool) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Below the ports that the kernel gives to clients, from a place of this process's own.
    let from = (std::process::id() % 100) as u16 * 200;
    loop {
        let port = 10_000 + (from + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        let at = (Ipv4Addr::LOCALHOST, port);
        let is_free = match is_udp {
            true => UdpSocket::bind(at).is_ok(),
            false => TcpListener::bind(at).is_ok(),
        };
        if is_free {
            return port;
        }
    }
}

/// A connection with deadlines.
pub fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Starts a backend that does `serve` with each connection, on a thread of its own each.
pub fn backend(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let address = listener.local_addr().expect("an address");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            // Clients that break off end their connection with an error, which some of the tests are about.
            std::thread::spawn(move || drop(serve(stream)));
        }
    });
    address
}

/// Starts a backend that says its name and a line feed, and then what it is told.
pub fn named(name: &'static str) -> SocketAddr {
    backend(move |mut stream| {
        stream.write_all(format!("{name}\n").as_bytes())?;
        echo(stream)
    })
}

/// Says what it is told, to the end.
pub fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut writer = stream.try_clone()?;
    io::copy(&mut stream, &mut writer)?;
    writer.shutdown(std::net::Shutdown::Write)
}

/// The first line that the other side says.
pub fn greeting(stream: &mut impl Read) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while byte != *b"\n" {
        stream.read_exact(&mut byte)?;
        line.extend(byte);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Says something and hears it again.
pub fn exchange(stream: &mut (impl Read + Write), words: &str) -> io::Result<String> {
    stream.write_all(words.as_bytes())?;
    stream.flush()?;
    let mut heard = vec![0; words.len()];
    stream.read_exact(&mut heard)?;
    Ok(String::from_utf8_lossy(&heard).into_owned())
}

/// Whether the other side has ended or broken off, with nothing said before.
pub fn is_closed(stream: &mut impl Read) -> bool {
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
    }
}

/// An address where nobody listens.
pub fn nobody() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port(false)).into()
}

/// The first line of text that comes over a connection, up to CRLF, and the reader of the rest.
pub fn first_line(stream: TcpStream) -> io::Result<(String, BufReader<TcpStream>)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok((line, reader))
}
