//! Environment of a benchmark: network namespaces with nodes, an outside client and an API server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use client::{Client, Config};
use testbed::{Cluster, EtcdServer, Member, Topology};

use crate::Failure;
use crate::process::{Measured, portolan, with_log};

/// Timeout for the start of a component.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// Cluster of network namespaces with an API server.
pub(crate) struct Environment {
    /// Network namespaces.
    pub cluster: Cluster,
    /// Directory for data, logs and the kubeconfig.
    pub directory: PathBuf,
    /// Process of the API server.
    pub apiserver: Measured,
    /// etcd of the API server, if it uses one.
    etcd: Option<EtcdServer>,
}

/// Runs a benchmark with one node, in a child process with namespaces of its own.
pub(crate) fn run_enclosed(
    has_etcd: bool,
    benchmark: impl FnOnce(Environment) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    run_enclosed_with_nodes(1, has_etcd, benchmark)
}

/// Runs a benchmark as [`run_enclosed`], with several nodes.
pub(crate) fn run_enclosed_with_nodes(
    nodes: usize,
    has_etcd: bool,
    benchmark: impl FnOnce(Environment) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    run_enclosed_in_directory(|directory| Environment::start(directory, nodes, has_etcd).and_then(benchmark))
}

/// Runs `work` in a child process with namespaces of its own. Its directory is removed after success.
pub(crate) fn run_enclosed_in_directory(
    work: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    if let Some(status) = testbed::enclose(None)? {
        return Ok(if status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    // The temporary directory of the host is on a real disk. It is chosen before a tmpfs covers /run.
    let directory = std::env::temp_dir().join(format!("portolan-bench-{}", fastrand::u64(..)));
    testbed::set_up_enclosure()?;
    fs::create_dir_all(&directory)?;
    match work(&directory) {
        Ok(()) => fs::remove_dir_all(&directory)?,
        Err(error) => {
            eprintln!("bench: logs of the processes are in {}", directory.display());
            return Err(error);
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Environment {
    fn start(directory: &Path, nodes: usize, has_etcd: bool) -> Result<Self, Failure> {
        let cluster = Cluster::start(Topology::with_nodes(nodes)?)?;
        let control_plane = cluster.control_plane()?;
        let etcd = if has_etcd {
            Some(control_plane.enter(|| EtcdServer::start(directory))??)
        } else {
            None
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

    /// Kills the API server and starts it again with its data. Returns when it answers.
    pub(crate) fn restart_api(&mut self) -> Result<(), Failure> {
        self.kill_api()?;
        self.resume_api()
    }

    /// Kills the API server.
    pub(crate) fn kill_api(&mut self) -> Result<(), Failure> {
        fs::remove_file(self.kubeconfig())?;
        self.apiserver.kill();
        Ok(())
    }

    /// Starts the API server again with its data. Returns when it answers.
    pub(crate) fn resume_api(&mut self) -> Result<(), Failure> {
        self.apiserver = start_api(&self.cluster, &self.directory, self.etcd.as_ref())?;
        self.wait_for_api()
    }

    /// Path of the kubeconfig of the administrator.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("admin.conf")
    }

    /// Creates a client, for use within [`Environment::with_api`].
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(Config::from_kubeconfig(&self.kubeconfig())?)?)
    }

    /// Runs asynchronous work in the namespace of the control plane.
    pub(crate) fn with_api<T: Send>(
        &self,
        work: impl AsyncFnOnce() -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        run_in(self.cluster.control_plane()?, work)
    }

    /// Starts a component, or a command that replaces it, in the namespace of a member.
    pub(crate) fn start_component(
        &self,
        name: &str,
        member: &Member,
        command: Command,
    ) -> Result<Measured, Failure> {
        let mut command = with_log(command, &self.directory, name)?;
        Ok(Measured::new(name, member.spawn(&mut command)?))
    }

    fn wait_for_api(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + TIMEOUT;
        while !self.kubeconfig().exists() || self.check_ready().is_err() {
            self.apiserver.must_run()?;
            if Instant::now() > deadline {
                return Err("the API server does not respond".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn check_ready(&self) -> Result<(), Failure> {
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
    let mut command = with_log(command, directory, "apiserver")?;
    Ok(Measured::new(
        "API server",
        cluster.control_plane()?.spawn(&mut command)?,
    ))
}

/// Runs asynchronous work in the namespace of a member, on a runtime of its own.
pub(crate) fn run_in<T: Send>(
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
