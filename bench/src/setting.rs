//! Where benchmarks run: an enclosure with one node, a client outside, and an API server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use client::{Client, Config};
use testbed::{Cluster, EtcdServer, Member, Topology};

use crate::Failure;
use crate::process::{Measured, portolan, quiet};

/// How long a component may take to come up.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// An API server in an enclosure.
pub struct Setting {
    /// The network.
    pub cluster: Cluster,
    /// Where files are.
    pub directory: PathBuf,
    /// The API server's process.
    pub apiserver: Measured,
    /// Its etcd, if it keeps its data there.
    etcd: Option<EtcdServer>,
}

/// Runs `benchmark` in an enclosure, in a process of its own; the API server keeps its data in etcd if that is asked
/// for.
pub fn enclosed(
    on_etcd: bool,
    benchmark: impl FnOnce(Setting) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    enclosed_with(1, on_etcd, benchmark)
}

/// As [`enclosed`], with more nodes.
pub fn enclosed_with(
    nodes: usize,
    on_etcd: bool,
    benchmark: impl FnOnce(Setting) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    enclosed_at(|directory| Setting::start(directory, nodes, on_etcd).and_then(benchmark))
}

/// Runs `work` in an enclosure, in a process of its own, with a directory that is removed if all went well.
pub fn enclosed_at(work: impl FnOnce(&Path) -> Result<(), Failure>) -> Result<ExitCode, Failure> {
    if let Some(status) = testbed::enclose(None)? {
        return Ok(if status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    // The data go to a real disk: the temporary directory of outside, chosen before /run is covered.
    let directory = std::env::temp_dir().join(format!("portolan-bench-{}", fastrand::u64(..)));
    testbed::settle()?;
    fs::create_dir_all(&directory)?;
    match work(&directory) {
        Ok(()) => fs::remove_dir_all(&directory)?,
        Err(error) => {
            eprintln!("bench: what the processes said is in {}", directory.display());
            return Err(error);
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Setting {
    fn start(directory: &Path, nodes: usize, on_etcd: bool) -> Result<Self, Failure> {
        let cluster = Cluster::start(Topology::with_nodes(nodes)?)?;
        let control_plane = cluster.control_plane()?;
        let etcd = match on_etcd {
            true => Some(control_plane.enter(|| EtcdServer::start(directory))??),
            false => None,
        };
        let apiserver = start_api(&cluster, directory, etcd.as_ref())?;
        let mut this = Self {
            cluster,
            directory: directory.to_owned(),
            apiserver,
            etcd,
        };
        this.wait_for_api()?;
        Ok(this)
    }

    /// Ends the API server and starts it on what it has left; returns when it answers.
    pub fn restart_api(&mut self) -> Result<(), Failure> {
        self.end_api()?;
        self.resume_api()
    }

    /// Ends the API server as a crash would.
    pub fn end_api(&mut self) -> Result<(), Failure> {
        fs::remove_file(self.kubeconfig())?;
        self.apiserver.end();
        Ok(())
    }

    /// Starts the API server on what it has left; returns when it answers.
    pub fn resume_api(&mut self) -> Result<(), Failure> {
        self.apiserver = start_api(&self.cluster, &self.directory, self.etcd.as_ref())?;
        self.wait_for_api()
    }

    /// The admin kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.conf")
    }

    /// A client, for use within [`Setting::with_api`].
    pub fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(Config::from_kubeconfig(&self.kubeconfig())?)?)
    }

    /// Runs asynchronous work in the control plane's namespace.
    pub fn with_api<T: Send>(
        &self,
        work: impl AsyncFnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        run_in(self.cluster.control_plane()?, work)
    }

    /// Starts a component of Portolan, or the command line that stands for it, in a member.
    pub fn start_component(
        &self,
        what: &str,
        member: &Member,
        command: Command,
    ) -> Result<Measured, Failure> {
        let mut command = quiet(command, &self.directory, what)?;
        Ok(Measured::new(what, member.spawn(&mut command)?))
    }

    fn wait_for_api(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        while !self.kubeconfig().exists() || self.ready().is_err() {
            self.apiserver.must_run()?;
            if Instant::now() > deadline {
                return Err("the API server does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn ready(&self) -> Result<(), Failure> {
        self.with_api(async || {
            self.client()?.get::<serde_json::Value>("/version").await?;
            Ok(())
        })
    }
}

fn start_api(cluster: &Cluster, directory: &Path, etcd: Option<&EtcdServer>) -> Result<Measured, Failure> {
    let mut command = Command::new(portolan()?);
    let cidrs = cluster.topology.service_cidrs.both();
    let cidrs = cidrs.map(|net| net.to_string()).join(",");
    let listen = cluster.topology.control_plane.address.ipv4;
    command
        .arg("apiserver")
        .arg(format!("--listen={listen}:6443"))
        .arg(format!("--data-dir={}", directory.join("api").display()))
        .arg(format!("--service-cluster-ip-range={cidrs}"))
        .arg(format!(
            "--write-kubeconfig={}",
            directory.join("admin.conf").display()
        ))
        .args(etcd.map(|etcd| format!("--etcd-servers={}", etcd.url())));
    let mut command = quiet(command, directory, "apiserver")?;
    Ok(Measured::new(
        "the API server",
        cluster.control_plane()?.spawn(&mut command)?,
    ))
}

/// Runs asynchronous work in a member's namespace, on a runtime of its own.
pub fn run_in<T: Send>(
    member: &Member,
    work: impl AsyncFnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    member.enter(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(work())
    })?
}
