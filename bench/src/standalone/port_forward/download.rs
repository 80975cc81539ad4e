//! Downloads through `kubectl port-forward`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netlink::route::{Connection, LinkChange, NetworkNamespace};

use crate::Failure;
use crate::environment::TIMEOUT;

/// Pod with the server.
pub(super) const POD: &str = "server";
/// Port of the server in the Pod.
pub(super) const PORT: u16 = 8080;
/// Port on which kubectl listens.
const LOCAL_PORT: u16 = 18_080;
/// Pause between attempts to connect to kubectl.
const PAUSE: Duration = Duration::from_millis(50);
const BUFFER_BYTES: usize = 256 << 10;

/// Running kubectl; killed when the value is dropped.
struct Forwarder(Child);

impl Drop for Forwarder {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            eprintln!("bench: failed to kill kubectl: {error}");
        }
    }
}

/// Returns the median of the throughput of several downloads, in MiB a second. kubectl and its client run in `namespace`,
/// over its loopback interface.
pub(super) fn throughput(
    namespace: &NetworkNamespace,
    kubeconfig: &Path,
    mebibytes: usize,
    rounds: usize,
) -> Result<f64, Failure> {
    let mut connection = Connection::open_in(namespace)?;
    let loopback = connection.link_index(&"lo".parse()?)?;
    connection.change_link(loopback, &LinkChange::up())?;
    let mut command = Command::new("kubectl");
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg("port-forward")
        .arg(format!("pod/{POD}"))
        .arg(format!("{LOCAL_PORT}:{PORT}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    namespace.start_inside(&mut command)?;
    let _forwarder = Forwarder(command.spawn()?);
    let mut figures = Vec::new();
    for _ in 0..rounds.max(1) {
        figures.push(namespace.enter(|| download(mebibytes << 20))??);
    }
    figures.sort_by(f64::total_cmp);
    let median = figures.get(figures.len() / 2).copied();
    median.ok_or_else(|| "no download".into())
}

/// Downloads the file, and returns the throughput in MiB a second.
fn download(bytes: usize) -> Result<f64, Failure> {
    let mut stream = connect()?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let started = Instant::now();
    stream.write_all(b"GET /data HTTP/1.0\r\n\r\n")?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut received = 0;
    loop {
        match stream.read(&mut buffer)? {
            0 => break,
            count => received += count,
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    if received < bytes {
        return Err(format!("expected {bytes} bytes through port-forward, found {received}").into());
    }
    Ok(received as f64 / f64::from(1 << 20) / elapsed)
}

/// Connects to kubectl, which listens after a moment.
fn connect() -> Result<TcpStream, Failure> {
    let started = Instant::now();
    loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, LOCAL_PORT)) {
            Ok(stream) => return Ok(stream),
            Err(error) if started.elapsed() > TIMEOUT => return Err(error.into()),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
