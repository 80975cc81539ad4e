//! `portolan leave`: removal of this node from its cluster.
//!
//! The order of the steps keeps traffic away from Pods that end. The steps are cordon, deletion of the Pods, end of
//! `portolan join`, deletion of the Node, removal of rules and files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use api::object::{Lease, Node, Pod, Resource};
use clap::Args;
use client::{Client, ClientError, JSON, MERGE_PATCH};
use controllers::node_lifecycle::LEASE_NAMESPACE;
use http::Method;
use proxy::LeftoverScope;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::cluster::join_directory::{AGENT, JoinDirectory, JoinDirectoryError, Membership};
use crate::cluster::{running_process, status_file};
use crate::error::{CommandError, FileError};
use crate::flags::values::{DATA_DIRECTORY, duration};
use crate::{output, runtime};

/// Time between two checks for the end of Pods.
const POLL_PERIOD: Duration = Duration::from_millis(200);
/// Annotation of the mirror Pods of static Pods, which end with their manifest only.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// Flags of `portolan leave`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Data directory of `portolan join`
    #[arg(long, default_value = DATA_DIRECTORY, value_name = "DIR")]
    data_dir: PathBuf,
    /// Time for the Pods to terminate
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration)]
    timeout: Duration,
    /// Leave even if Pods do not terminate or no server responds; report the failed steps
    #[arg(long)]
    force: bool,
}

/// Reason why this node cannot leave.
#[derive(Debug, thiserror::Error)]
enum LeaveError {
    #[error("this host has not joined with --data-dir {}; there is nothing to leave", .0.display())]
    NotJoined(PathBuf),
    #[error(
        "`portolan join` does not run here, so nothing terminates the {0} Pods of this node; start it first"
    )]
    NotRunning(usize),
    #[error("Pods not terminated within {timeout:?}: {}", pods.join(", "))]
    PodsRemain { timeout: Duration, pods: Vec<String> },
    #[error("{0}\nUse --force to leave nevertheless")]
    WithoutForce(CommandError),
}

/// Removes this node from its cluster.
///
/// # Errors
///
/// An error if a step fails, unless `--force` is given.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let directory = JoinDirectory::below(&flags.data_dir);
    let Some(membership) = directory.membership()? else {
        return Err(LeaveError::NotJoined(flags.data_dir.clone()).into());
    };
    runtime::multi_thread(1)?.block_on(async {
        let client = directory.client(&membership, AGENT);
        let departure = Departure { flags, membership };
        departure.run(client).await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Settings of the removal of this host from its cluster.
struct Departure<'f> {
    flags: &'f Flags,
    membership: Membership,
}

impl Departure<'_> {
    async fn run(&self, client: Result<Client, JoinDirectoryError>) -> Result<(), CommandError> {
        let name = &self.membership.node_name;
        match client {
            Ok(client) => {
                self.unless_forced(self.drain(&client).await)?;
                running_process::stop(&self.flags.data_dir).await?;
                self.unless_forced(delete_node(&client, name).await.map_err(CommandError::from))?;
            }
            Err(error) => {
                self.unless_forced(Err(error.into()))?;
                running_process::stop(&self.flags.data_dir).await?;
            }
        }
        // kube-proxy's rules belong to another cluster.
        let rules = proxy::remove_leftovers(None, LeftoverScope::OwnModes);
        for item in rules.removed {
            output::print(&format!("removed: {item}\n"));
        }
        for failure in rules.failures {
            tracing::warn!(%failure, "rules not removed");
        }
        for item in routes::remove_all()? {
            output::print(&format!("removed: {item}\n"));
        }
        for item in announcer::remove_egress()? {
            output::print(&format!("removed: {item}\n"));
        }
        if agent::network::source_validation::remove()? {
            output::print(&format!(
                "removed: table {}\n",
                agent::network::source_validation::TABLE
            ));
        }
        if agent::network::host_ports::remove_table()? {
            output::print(&format!("removed: table {}\n", agent::network::host_ports::TABLE));
        }
        remove_files(&self.flags.data_dir)?;
        output::print(&format!(
            "Node {name} has left its cluster. A unit of `portolan service install` is removed with `portolan service \
             remove`.\n"
        ));
        Ok(())
    }

    /// Prints an error and continues if `--force` is given.
    fn unless_forced(&self, result: Result<(), CommandError>) -> Result<(), CommandError> {
        match result {
            Err(error) if self.flags.force => {
                let name = &self.membership.node_name;
                output::print(&format!(
                    "{error}\nContinuing (--force). On the server, `kubectl delete node {name}` removes the remaining \
                     objects.\n"
                ));
                Ok(())
            }
            Err(error) => Err(LeaveError::WithoutForce(error).into()),
            Ok(()) => Ok(()),
        }
    }

    /// Cordons the Node and deletes its Pods.
    async fn drain(&self, client: &Client) -> Result<(), CommandError> {
        let name = &self.membership.node_name;
        let path = format!("{}/{name}", Node::collection(None));
        let cordon = json!({"spec": {"unschedulable": true}});
        match client
            .request(Method::PATCH, &path, MERGE_PATCH, Some(&cordon))
            .await
        {
            // An administrator deleted the Node. Nothing is left to drain.
            Err(error) if is_gone(&error) => return Ok(()),
            other => other?,
        };
        output::print(&format!("Node {name} cordoned\n"));
        let is_running = status_file::read(&self.flags.data_dir)?.is_some();
        let pods = pods_of(client, name).await?;
        if !is_running && !pods.is_empty() && !self.flags.force {
            return Err(LeaveError::NotRunning(pods.len()).into());
        }
        // Without an agent the Pods have no processes, and are deleted without a grace period.
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        for pod in &pods {
            let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
            let path = format!("{}/{name}", Pod::collection(Some(namespace)));
            let options = (!is_running).then_some(&options);
            match client.request(Method::DELETE, &path, JSON, options).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        self.wait_for_pods(client).await
    }

    async fn wait_for_pods(&self, client: &Client) -> Result<(), CommandError> {
        let deadline = Instant::now() + self.flags.timeout;
        let mut printed = None;
        loop {
            let remaining = pods_of(client, &self.membership.node_name).await?;
            if remaining.is_empty() {
                return Ok(());
            }
            if printed != Some(remaining.len()) {
                output::print(&format!("Waiting for {} Pods to terminate …\n", remaining.len()));
                printed = Some(remaining.len());
            }
            if Instant::now() > deadline {
                let keys = remaining.iter().map(|pod| pod.metadata.key().to_string());
                return Err(LeaveError::PodsRemain {
                    timeout: self.flags.timeout,
                    pods: keys.collect(),
                }
                .into());
            }
            tokio::time::sleep(POLL_PERIOD).await;
        }
    }
}

/// Lists the Pods of a Node without mirror Pods.
async fn pods_of(client: &Client, node_name: &str) -> Result<Vec<Pod>, ClientError> {
    #[derive(Deserialize)]
    struct List {
        items: Option<Vec<Pod>>,
    }
    let path = format!(
        "{}?fieldSelector=spec.nodeName%3D{node_name}",
        Pod::collection(None)
    );
    let list: List = client.get(&path).await?;
    let pods = list.items.unwrap_or_default().into_iter();
    Ok(pods
        .filter(|pod| pod.spec.node_name == node_name)
        .filter(|pod| !pod.metadata.annotations.contains_key(MIRROR_ANNOTATION))
        .collect())
}

/// Deletes the Node and its Lease.
async fn delete_node(client: &Client, name: &str) -> Result<(), ClientError> {
    let lease = format!("{}/{name}", Lease::collection(Some(LEASE_NAMESPACE)));
    for path in [lease, format!("{}/{name}", Node::collection(None))] {
        match client.request(Method::DELETE, &path, JSON, None).await {
            Err(error) if !is_gone(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Returns true if the Node does not exist. The certificates of a deleted Node are invalid.
fn is_gone(error: &ClientError) -> bool {
    error.is_not_found() || error.code() == Some(401)
}

/// Removes certificates, keys and the state of components. Missing files are not an error.
fn remove_files(data_directory: &Path) -> Result<(), FileError> {
    let ignore_missing = |path: &Path, result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FileError::at(path)(error)),
        _ => Ok(()),
    };
    for name in ["node", "agent"] {
        let path = data_directory.join(name);
        ignore_missing(&path, fs::remove_dir_all(&path))?;
    }
    let path = data_directory.join("dns.state");
    ignore_missing(&path, fs::remove_file(&path))
}
