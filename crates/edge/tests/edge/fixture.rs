//! Edge with one Service, its backends and its clients.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use edge::settings::{Backend, BackendProtocol, Frontend, Listener, ServiceName, ServiceSettings, Settings};
use edge::{Edge, Options};

/// Time after which a test fails.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Edge and its Service.
pub(crate) struct Fixture {
    pub edge: Edge,
    pub service: ServiceSettings,
}

/// Returns the name of the Service.
pub(crate) fn name() -> ServiceName {
    ServiceName {
        namespace: "shop".into(),
        name: "web".into(),
    }
}

/// Returns a Service on loopback with default settings.
pub(crate) fn service(frontend: Frontend, backends: &[SocketAddr]) -> ServiceSettings {
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

impl Fixture {
    /// Starts an edge for a Service.
    pub(crate) fn new(service: ServiceSettings) -> Self {
        Self::with(Options::default(), service)
    }

    /// Starts an edge with these options for a Service.
    pub(crate) fn with(options: Options, service: ServiceSettings) -> Self {
        let options = Options {
            threads: 2,
            ..options
        };
        let this = Self {
            edge: Edge::start(options).expect("a started edge"),
            service,
        };
        this.apply();
        this
    }

    /// Applies the current settings of `service`.
    pub(crate) fn apply(&self) {
        let settings = [(name(), Arc::new(self.service.clone()))];
        self.edge.apply(&Settings::from(settings));
    }

    /// Sets the backends of the Service.
    pub(crate) fn set_backends(&mut self, backends: &[SocketAddr]) {
        self.service.listeners[0].backends = backends.iter().copied().map(Backend::ready).collect();
        self.apply();
    }

    /// Returns the address of the listener.
    pub(crate) fn address(&self) -> SocketAddr {
        (self.service.addresses[0], self.service.listeners[0].port).into()
    }

    /// Connects a client.
    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address()).expect("an accepted connection")
    }

    /// Returns the name of the backend that takes a new connection.
    pub(crate) fn chosen_backend(&self) -> io::Result<String> {
        greeting(&mut connect(self.address())?)
    }

    /// Returns the value of a metric of the port, with `label` for a backend or a reason.
    pub(crate) fn metric(&self, metric: &str, label: &str) -> Option<u64> {
        let text = self.edge.metrics();
        assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{metric}{{")) && line.contains(label))?;
        line.rsplit(' ').next()?.parse().ok()
    }
}

/// Returns a runtime for waiting.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
}

/// Waits for a condition.
pub(crate) fn wait_until(subject: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {subject}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a free port that no other test of this process gets.
pub(crate) fn free_port(is_udp: bool) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Below the ports that the kernel gives to clients, from a number that depends on the process.
    let from = (std::process::id() % 100) as u16 * 200;
    loop {
        let port = 10_000 + (from + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
        let at = (Ipv4Addr::LOCALHOST, port);
        let is_free = if is_udp {
            UdpSocket::bind(at).is_ok()
        } else {
            TcpListener::bind(at).is_ok()
        };
        if is_free {
            return port;
        }
    }
}

/// Connects with timeouts.
pub(crate) fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Starts a backend that runs `serve` for each connection, each on a thread of its own.
pub(crate) fn backend(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let address = listener.local_addr().expect("an address");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            // Clients that reset their connections cause errors, which some tests are about.
            std::thread::spawn(move || drop(serve(stream)));
        }
    });
    address
}

/// Starts a backend that sends its name and a line feed, and then echoes.
pub(crate) fn named(name: &'static str) -> SocketAddr {
    backend(move |mut stream| {
        stream.write_all(format!("{name}\n").as_bytes())?;
        echo(stream)
    })
}

/// Echoes data until the end.
pub(crate) fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut writer = stream.try_clone()?;
    io::copy(&mut stream, &mut writer)?;
    writer.shutdown(std::net::Shutdown::Write)
}

/// Returns the first line of the other side.
pub(crate) fn greeting(stream: &mut impl Read) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while byte != *b"\n" {
        stream.read_exact(&mut byte)?;
        line.extend(byte);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Sends text and returns its echo.
pub(crate) fn exchange(stream: &mut (impl Read + Write), words: &str) -> io::Result<String> {
    stream.write_all(words.as_bytes())?;
    stream.flush()?;
    let mut received = vec![0; words.len()];
    stream.read_exact(&mut received)?;
    Ok(String::from_utf8_lossy(&received).into_owned())
}

/// Returns true if the other side has closed or reset the connection without data.
pub(crate) fn is_closed(stream: &mut impl Read) -> bool {
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
    }
}

/// Returns an address without a listener.
pub(crate) fn unused_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port(false)).into()
}

/// Returns the first line of a connection, up to CRLF, and the reader of the rest.
pub(crate) fn first_line(stream: TcpStream) -> io::Result<(String, BufReader<TcpStream>)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok((line, reader))
}
