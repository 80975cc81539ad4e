//! Components of Portolan as processes on loopback, for integration tests.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use testbed::EtcdServer;

/// Time for a component to start on a busy host.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Token of the test user.
pub(crate) const TOKEN: &str = "test-token";

/// Process that is killed when the value is dropped.
pub(crate) struct Component(Child);

impl From<Child> for Component {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Component {
    /// Sends SIGTERM and waits for the exit.
    pub(crate) fn stop(mut self) -> std::process::ExitStatus {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("a signal to the process");
        self.0.wait().expect("an exit status")
    }

    /// Returns the peak of the resident memory in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.kib("VmHWM:")
    }

    /// Returns a line of proc_pid_status(5) in KiB.
    fn kib(&self, name: &str) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("the status of the process");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number
            .and_then(|number| number.parse().ok())
            .expect("a number of KiB")
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        self.0
            .kill()
            .and_then(|()| self.0.wait())
            .expect("a killed component");
    }
}

/// API server on loopback, with the flags of the recordings.
pub(crate) struct Api {
    /// Directory of its files.
    pub directory: tempfile::TempDir,
    /// URL of the server.
    pub server: String,
    /// Listen address.
    pub address: SocketAddr,
    /// URLs of etcd; the data are in the directory otherwise.
    etcd_urls: Option<String>,
    /// File of the log; standard error otherwise.
    log: Option<PathBuf>,
    process: Option<Component>,
}

impl Api {
    /// Starts the server and waits until it listens.
    pub(crate) fn start() -> Self {
        Self::start_in(tempfile::tempdir().expect("a temporary directory"))
    }

    /// Starts the server on an existing directory.
    pub(crate) fn start_in(directory: tempfile::TempDir) -> Self {
        Self::start_on(directory, None, None)
    }

    /// As [`Api::start_in`], with the log in a file.
    pub(crate) fn start_logging(directory: tempfile::TempDir, log: &Path) -> Self {
        Self::start_on(directory, None, Some(log.to_owned()))
    }

    /// Starts the server with data in etcd.
    pub(crate) fn start_on_etcd(etcd: &EtcdServer) -> Self {
        Self::start_on_members(&[etcd.url()])
    }

    /// Starts the server with data in an etcd cluster, by the URLs of its members.
    pub(crate) fn start_on_members(urls: &[String]) -> Self {
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

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Starts the server, also after [`Api::kill`].
    pub(crate) fn run(&mut self) {
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
            Stdio::from(file.expect("a log file"))
        });
        self.process = Some(portolan_logging(&arguments, log.unwrap_or_else(Stdio::inherit)));
        wait_for("the API server", || TcpStream::connect(self.address).is_ok());
        wait_for("the admin kubeconfig", || self.kubeconfig().exists());
    }

    /// Returns the resident memory of the server in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.kib("VmRSS:")
    }

    /// Returns the peak of the resident memory in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.kib("VmHWM:")
    }

    /// Returns a line of proc_pid_status(5) in KiB.
    fn kib(&self, name: &str) -> u64 {
        self.process.as_ref().expect("a running server").kib(name)
    }

    /// Path of the administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("admin.conf")
    }
}

/// Returns the path of the binary under test. The environment variable `PORTOLAN_UNDER_TEST` selects another build, for
/// example to check that a test fails with it.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("PORTOLAN_UNDER_TEST")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_portolan")), PathBuf::from)
}

/// Runs the binary under test with an input, and returns its output.
pub(crate) fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(program())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary under test");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A process that rejects its flags does not read.
    if let Err(error) = stdin.write_all(input.as_bytes()) {
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    }
    drop(stdin);
    child.wait_with_output().expect("an output")
}

/// Starts the binary under test with arguments.
pub(crate) fn portolan(arguments: &[&str]) -> Component {
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
    Component(command.spawn().expect("the binary under test"))
}

/// Waits until a condition holds. `subject` names it in the failure.
pub(crate) fn wait_for(subject: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + START_TIMEOUT;
    while !holds() {
        assert!(
            Instant::now() < deadline,
            "expected {subject} within {START_TIMEOUT:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a free TCP port.
pub(crate) fn free_tcp_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port()
}

/// Returns a port that is free for UDP and TCP.
pub(crate) fn free_dns_port() -> u16 {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let port = udp.local_addr().expect("a bound address").port();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Returns the path of a file with recorded conformance cases.
pub(crate) fn conformance(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../conformance")
        .join(name)
}

/// Returns true if a program is installed; otherwise prints that the test is skipped.
pub(crate) fn has(test: &str, program: &str, argument: &str) -> bool {
    if !is_installed(program, argument) {
        println!("skipped: {test}: {program} is not installed");
        return false;
    }
    true
}

/// Returns true if a program can be started.
pub(crate) fn is_installed(program: &str, argument: &str) -> bool {
    let found = Command::new(program)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

/// Starts etcd in a temporary directory. Returns `None` and prints that the test is skipped if etcd is not installed.
pub(crate) fn etcd(test: &str) -> Option<(EtcdServer, tempfile::TempDir)> {
    if !EtcdServer::is_installed() {
        println!("skipped: {test}: etcd is not installed");
        return None;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = EtcdServer::start(directory.path()).expect("etcd");
    Some((server, directory))
}

/// Runs a conformance runner and compares the failed cases with the list of known failures. The test fails for a new
/// failure, and for a known failure that passes.
pub(crate) fn run_conformance(runner: &mut Command, results: &Path, known: &str) {
    let output = runner.arg("--json").arg(results).output().expect("python3");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let json =
        fs::read(results).unwrap_or_else(|error| panic!("no results of the runner ({error}):\n{text}"));
    let results: std::collections::BTreeMap<String, bool> =
        serde_json::from_slice(&json).expect("a map from case to outcome");
    assert!(!results.is_empty(), "no results:\n{text}");
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
    assert!(new.is_empty(), "new failures: {new:#?}\n{text}");
    let fixed: Vec<_> = known
        .difference(&failed)
        .filter(|id| results.contains_key(**id))
        .collect();
    assert!(
        fixed.is_empty(),
        "known failures pass; remove them from the list: {fixed:#?}"
    );
}
