//! A Pod with directory, network and sandbox, and helpers of the tests.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::confinement::user_namespaces::Holder;
use agent::network::{self, addresses::AddressPool};
use agent::pods::state_directory::{PodDirectory, Record, StateDirectory};
use agent::runtime::{Execution, RuntimeError, Sandbox};
use agent::sandbox;
use agent::sandbox::protocol::{Confinement, Program};

use crate::TIMEOUT;

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

const UID: &str = "3f2c7a9e-0000-4000-8000-000000000001";
/// Default capabilities of containers (containerd's).
const CAPABILITIES_DEFAULT: u64 = 0xa804_25fb;
/// Script of a container that runs until it is killed.
pub(crate) const SLEEP: &str = "exec sleep 1000";

/// Directory, network and sandbox of a Pod.
pub(crate) struct Pod {
    pub root: tempfile::TempDir,
    pub directory: PodDirectory,
    pub sandbox: Sandbox,
    pub addresses: Vec<IpAddr>,
}

impl Pod {
    /// Starts a Pod that shares the users of the host.
    pub(crate) async fn start() -> Result<Self, Box<dyn Error>> {
        Self::start_with(None).await
    }

    /// Starts a Pod, in the namespaces of a holder if it has one.
    pub(crate) async fn start_with(holder: Option<Holder>) -> Result<Self, Box<dyn Error>> {
        let root = tempfile::tempdir_in(testbed::RUN_DIRECTORY)?;
        let directory = StateDirectory::open(root.path())?.pod(UID)?;
        let mut pool = AddressPool::new(vec!["10.244.1.0/24".parse()?, "fd00:244:1::/64".parse()?])?;
        let addresses = pool.allocate()?;
        directory.create(&Record {
            uid: UID.to_owned(),
            addresses: addresses.clone(),
            ..Record::default()
        })?;
        let (link, gateways) = (network::link_name(UID)?, pool.gateways());
        let namespace = match &holder {
            Some(holder) => {
                let held = holder.network()?;
                network::connect_namespace(&held, &link, &addresses, &gateways)?;
                held
            }
            None => network::create_namespace(&link, &addresses, &gateways)?,
        };
        let settings = sandbox::Settings {
            socket: directory.socket(),
            hostname: Some("web-0".to_owned()),
            resolv_conf: directory.write("resolv.conf", "nameserver 10.96.0.10\n")?,
            hidden: vec![root.path().to_owned()],
            namespaces_of: holder.as_ref().map(Holder::pid),
            images: Some(images_directory(root.path())?),
            shares_ipc: false,
            shares_processes: false,
            sysctls: BTreeMap::new(),
        };
        let sandbox = Sandbox::start(&directory, &settings, Some(&namespace)).await?;
        Ok(Self {
            root,
            directory,
            sandbox,
            addresses,
        })
    }

    /// Starts a container.
    pub(crate) async fn start_container(&self, name: &str, program: Program) -> Result<(), RuntimeError> {
        let log = self.directory.prepare_log(name, 0).expect("the log's directory");
        self.sandbox.start_container(name, program, &log).await
    }

    /// Starts a container that runs a script.
    pub(crate) async fn shell(&self, name: &str, script: &str) -> Result<(), RuntimeError> {
        self.start_container(name, shell(script)).await
    }

    /// Starts a container that runs a script with a confinement.
    pub(crate) async fn confined(&self, name: &str, script: &str, confinement: Confinement) -> Outcome {
        let program = Program {
            confinement,
            ..shell(script)
        };
        Ok(self.start_container(name, program).await?)
    }

    /// Executes a script in a container and returns its output.
    pub(crate) async fn output(&self, container: &str, script: &str) -> Result<String, Box<dyn Error>> {
        let executor = self.sandbox.executor();
        let executed = executor
            .execute(container, shell(script).command, TIMEOUT)
            .await?;
        let Execution { exit, output } = executed;
        check(exit.is_some(), format!("{script} timed out: {output}"))?;
        Ok(output)
    }

    /// Executes a script that must succeed.
    pub(crate) async fn check_success(&self, container: &str, script: &str) -> Outcome {
        let output = self.output_with_status(container, script).await?;
        check(output.contains("status 0"), format!("{script}: {output}"))
    }

    /// Executes a script that must fail.
    pub(crate) async fn check_failure(&self, container: &str, subject: &str, script: &str) -> Outcome {
        let output = self.output_with_status(container, script).await?;
        check(!output.contains("status 0"), format!("{subject}: {output}"))
    }

    async fn output_with_status(&self, container: &str, script: &str) -> Result<String, Box<dyn Error>> {
        let script = format!("({script}) 2>&1; echo status $?");
        self.output(container, &script).await
    }

    /// Waits until the log of a container contains a text, and returns the log.
    pub(crate) async fn log_when(&self, name: &str, text: &str) -> Result<String, Box<dyn Error>> {
        let path = self.directory.log(name, 0);
        wait_for_log(&path, text).await?;
        Ok(std::fs::read_to_string(path)?)
    }

    /// Kills the sandbox and deletes the network.
    pub(crate) async fn end(self) -> Outcome {
        self.sandbox.kill().await?;
        network::disconnect(&network::link_name(UID)?)?;
        Ok(())
    }
}

/// Directory of the image store of a Pod in a test directory.
fn images_directory(root: &Path) -> std::io::Result<PathBuf> {
    let images = root.join("images");
    std::fs::create_dir_all(&images)?;
    Ok(images)
}

/// Waits until a log contains a text.
pub(crate) async fn wait_for_log(path: &Path, text: &str) -> Outcome {
    while !std::fs::read_to_string(path).unwrap_or_default().contains(text) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Program that runs a script.
pub(crate) fn shell(script: &str) -> Program {
    Program {
        command: ["/bin/sh", "-c", script].map(str::to_owned).into(),
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        ..Program::default()
    }
}

/// Confinement of a container that requests nothing.
pub(crate) fn default_confinement() -> Confinement {
    Confinement {
        capabilities: Some(CAPABILITIES_DEFAULT),
        has_no_new_privileges: true,
        ..Confinement::default()
    }
}

pub(crate) fn check(condition: bool, failure: impl std::fmt::Display) -> Outcome {
    if condition {
        Ok(())
    } else {
        Err(failure.to_string().into())
    }
}
