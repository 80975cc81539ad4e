//! A real etcd on loopback, for tests and benchmarks.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time for etcd to start on a busy host.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A member of an etcd cluster, usually the only one, on random loopback ports. Dropping it kills the process; the
/// data stays in its directory.
pub struct EtcdServer {
    directory: PathBuf,
    name: String,
    client_port: u16,
    peer_port: u16,
    /// Names and URLs of all members in etcd's format.
    members: String,
    extra: Vec<String>,
    process: Option<Child>,
}

impl EtcdServer {
    /// Returns true if the program `etcd` is installed.
    pub fn is_installed() -> bool {
        let version = Command::new("etcd")
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        version.is_ok_and(|status| status.success())
    }

    /// Starts etcd with its data below a directory, and waits until it listens.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be started or does not listen.
    pub fn start(directory: &Path) -> io::Result<EtcdServer> {
        EtcdServer::start_with(directory, &[])
    }

    /// Starts etcd as [`EtcdServer::start`] does, with further flags.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be started or does not listen.
    pub fn start_with(directory: &Path, flags: &[String]) -> io::Result<EtcdServer> {
        let mut server = EtcdServer::new(directory.to_owned(), "only".to_owned())?;
        server.extra = flags.to_vec();
        server.members = server.member();
        server.run()?;
        Ok(server)
    }

    /// Starts a cluster, each member with its data in a directory of its own in `directory`.
    ///
    /// # Errors
    ///
    /// Returns an error if a member cannot be started or does not listen.
    pub fn start_cluster(directory: &Path, members: usize) -> io::Result<Vec<EtcdServer>> {
        let mut cluster = Vec::new();
        for number in 0..members {
            let name = format!("member-{number}");
            let directory = directory.join(&name);
            std::fs::create_dir(&directory)?;
            cluster.push(EtcdServer::new(directory, name)?);
        }
        let all: Vec<String> = cluster.iter().map(EtcdServer::member).collect();
        for server in &mut cluster {
            server.members = all.join(",");
            server.spawn()?;
        }
        // No member responds before a majority runs.
        for server in &cluster {
            server.wait()?;
        }
        Ok(cluster)
    }

    /// Starts the member again at the same address with its data.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be started or does not listen.
    pub fn run(&mut self) -> io::Result<()> {
        self.spawn()?;
        self.wait()
    }

    fn new(directory: PathBuf, name: String) -> io::Result<EtcdServer> {
        Ok(EtcdServer {
            directory,
            name,
            client_port: free_port()?,
            peer_port: free_port()?,
            members: String::new(),
            extra: Vec::new(),
            process: None,
        })
    }

    fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer_port)
    }

    fn member(&self) -> String {
        format!("{}={}", self.name, self.peer_url())
    }

    fn spawn(&mut self) -> io::Result<()> {
        let has_tls = self.extra.iter().any(|flag| flag.starts_with("--cert-file"));
        let scheme = if has_tls { "https" } else { "http" };
        let client = format!("{scheme}://127.0.0.1:{}", self.client_port);
        let peer = self.peer_url();
        let log = std::fs::File::create(self.directory.join("etcd.log"))?;
        let child = Command::new("etcd")
            .args(["--logger=zap", "--log-level=error"])
            .arg(format!("--name={}", self.name))
            .arg(format!("--data-dir={}", self.data_directory().display()))
            .arg(format!("--listen-client-urls={client}"))
            .arg(format!("--advertise-client-urls={client}"))
            .arg(format!("--listen-peer-urls={peer}"))
            .arg(format!("--initial-advertise-peer-urls={peer}"))
            .arg(format!("--initial-cluster={}", self.members))
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.process = Some(child);
        Ok(())
    }

    fn wait(&self) -> io::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.client_port)).is_err() {
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "etcd does not listen"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client_port)
    }

    /// Returns the port for clients.
    pub fn client_port(&self) -> u16 {
        self.client_port
    }

    /// Returns the data directory, to be changed only while etcd does not run.
    pub fn data_directory(&self) -> PathBuf {
        self.directory.join("etcd")
    }

    /// Returns the process ID, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Kills the process, as in a crash.
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        if let Err(error) = process.kill().and_then(|()| process.wait()) {
            tracing::error!(%error, "etcd not killed");
        }
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
