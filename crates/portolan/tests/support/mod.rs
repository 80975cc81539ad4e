//! What the integration tests share: Portolan's components as processes on loopback.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testbed::EtcdServer;

/// How long a component may take to come up on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The token of the tests' user.
pub const TOKEN: &str = "test-token";

/// A process that ends with this value.
pub struct Component(Child);

impl From<Child> for Component {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Component {
    /// Asks the process to end, and waits until it has.
    pub fn end(mut self) -> std::process::ExitStatus {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, rustix::process::Signal::TERM)
            .expect("a process that can be asked");
        self.0.wait().expect("a process that ends")
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        self.0
            .kill()
            .and_then(|()| self.0.wait())
            .expect("a component that can be ended");
    }
}

/// An API server on loopback, started as the recordings were made.
pub struct Api {
    /// Its files.
    pub directory: tempfile::TempDir,
    /// Its URL.
    pub server: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where the data are, if not in its directory.
    etcd_urls: Option<String>,
    /// Where its log goes, if not to where the test's does.
    log: Option<PathBuf>,
    process: Option<Component>,
}

impl Api {
    /// Starts the server and waits until it listens.
    pub fn start() -> Self {
        Self::start_in(tempfile::tempdir().expect("a temporary directory"))
    }

    /// Starts the server on a directory of the test's choice.
    pub fn start_in(directory: tempfile::TempDir) -> Self {
        Self::start_on(directory, None, None)
    }

    /// As [`Api::start_in`], with its log in a file.
    pub fn start_logging(directory: tempfile::TempDir, log: &Path) -> Self {
        Self::start_on(directory, None, Some(log.to_owned()))
    }

    /// Starts the server with its data in etcd.
    pub fn start_on_etcd(etcd: &EtcdServer) -> Self {
        Self::start_on_members(&[etcd.url()])
    }

    /// Starts the server with its data in an etcd cluster with members at these URLs.
    pub fn start_on_members(urls: &[String]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self::start_on(directory, Some(urls.join(",")), None)
    }

    fn start_on(directory: tempfile::TempDir, etcd_urls: Option<String>, log: Option<PathBuf>) -> Self {
        let tokens = directory.path().join("tokens.csv");
        fs::write(&tokens, format!("{TOKEN},tester,tester,\"system:masters\"\n")).expect("a token file");
        let address = SocketAddr::from(([127, 0, 0, 1], free_tcp_port()));
        let mut api = Self {
            directory,
            server: format!("https://{address}"),
            address,
            etcd_urls,
            log,
            process: None,
        };
        api.run();
        api
    }

    /// Ends the server as a crash would.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts the server, after it was killed, on what is left.
    pub fn run(&mut self) {
        let path = |name: &str| self.directory.path().join(name).display().to_string();
        let mut arguments = vec![
            "apiserver".to_owned(),
            format!("--listen={}", self.address),
            format!("--data-dir={}", path("data")),
            "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112".to_owned(),
            format!("--token-auth-file={}", path("tokens.csv")),
            format!("--write-kubeconfig={}", path("admin.conf")),
        ];
        arguments.extend(self.etcd_urls.iter().map(|urls| format!("--etcd-servers={urls}")));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let log = self.log.as_ref().map(|log| {
            let file = fs::OpenOptions::new().create(true).append(true).open(log);
            Stdio::from(file.expect("a file for the log"))
        });
        self.process = Some(portolan_logging(&arguments, log.unwrap_or_else(Stdio::inherit)));
        wait_for("the API server", || TcpStream::connect(self.address).is_ok());
        wait_for("the admin kubeconfig", || self.kubeconfig().exists());
    }

    /// Memory that the server has resident now.
    pub fn resident_kib(&self) -> u64 {
        self.kib("VmRSS:")
    }

    /// The most memory that the server has had resident.
    pub fn peak_kib(&self) -> u64 {
        self.kib("VmHWM:")
    }

    /// A line of the process's status.
    fn kib(&self, name: &str) -> u64 {
        let process = &self.process.as_ref().expect("a server that runs").0;
        let status = fs::read_to_string(format!("/proc/{}/status", process.id())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number
            .and_then(|number| number.parse().ok())
            .expect("a number of KiB")
    }

    /// The admin kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("admin.conf")
    }
}

/// The binary under test: the one of this build, or another build's that `PORTOLAN_UNDER_TEST` names, to see that a test fails
/// with it.
pub fn program() -> PathBuf {
    std::env::var_os("PORTOLAN_UNDER_TEST")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_portolan")), PathBuf::from)
}

/// Starts Portolan with these arguments.
pub fn portolan(arguments: &[&str]) -> Component {
    portolan_logging(arguments, Stdio::inherit())
}

fn portolan_logging(arguments: &[&str], log: Stdio) -> Component {
    let mut command = Command::new(program());
    command
        .args(arguments)
        .arg("--log-level=warn")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    Component(command.spawn().expect("the binary under test starts"))
}

/// Waits until something holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(
            Instant::now() < deadline,
            "{what} is not there after {PATIENCE:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port that nobody listens on now.
pub fn free_tcp_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a free port")
        .port()
}

/// A port that is free for UDP and TCP.
pub fn free_dns_port() -> u16 {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let port = udp.local_addr().expect("bound").port();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A file of the recorded conformance cases.
pub fn conformance(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../conformance")
        .join(name)
}

/// Whether a program can be started; says by the test's name that it is skipped if not.
pub fn has(test: &str, program: &str, argument: &str) -> bool {
    if !is_installed(program, argument) {
        println!("skipped: {test}: {program} is not installed");
        return false;
    }
    true
}

/// Whether a program can be started.
pub fn is_installed(program: &str, argument: &str) -> bool {
    let found = Command::new(program)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

/// An etcd of the test's own, and the directory that it is in. `None`, said by the test's name, if it is not installed.
pub fn etcd(test: &str) -> Option<(EtcdServer, tempfile::TempDir)> {
    if !EtcdServer::is_installed() {
        println!("skipped: {test}: etcd is not installed");
        return None;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = EtcdServer::start(directory.path()).expect("etcd");
    Some((server, directory))
}

/// Runs a conformance runner and compares the cases that fail with the list of those that are known to:
/// a case that fails anew is a fault, one that passes now leaves the list.
pub fn run_conformance(runner: &mut Command, results: &Path, known: &str) {
    let output = runner
        .arg("--json")
        .arg(results)
        .output()
        .expect("python3 starts");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let json = fs::read(results).unwrap_or_else(|e| panic!("the runner wrote no results ({e}):\n{text}"));
    let results: std::collections::BTreeMap<String, bool> =
        serde_json::from_slice(&json).expect("results are a map from case to outcome");
    assert!(!results.is_empty(), "no case was run:\n{text}");
    let failed: BTreeSet<&str> = results
        .iter()
        .filter(|(_, ok)| !**ok)
        .map(|(id, _)| id.as_str())
        .collect();
    let known: BTreeSet<&str> = known
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    println!("{} of {} cases pass", results.len() - failed.len(), results.len());
    let new: Vec<_> = failed.difference(&known).collect();
    assert!(new.is_empty(), "cases fail that did not: {new:#?}\n{text}");
    let mended: Vec<_> = known
        .difference(&failed)
        .filter(|id| results.contains_key(**id))
        .collect();
    assert!(
        mended.is_empty(),
        "cases pass that are listed as failing; take them off the list: {mended:#?}"
    );
}
