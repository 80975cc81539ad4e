//! `portolan leave`: this machine out of its cluster, in order: no new Pods, its Pods end and their endpoints leave
//! traffic first, then the Node goes, and what was put into this machine's kernel and onto its disk.

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
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::join::certificate::Wanted;
use super::join::membership::{self, Membership};
use super::up::board;
use super::{Failure, join, runtime};
use crate::flags::duration;

/// How often it is looked whether something has ended.
const POLL_PERIOD: Duration = Duration::from_millis(200);
/// How long `portolan join` may take to end.
const END_PATIENCE: Duration = Duration::from_secs(30);
/// The annotation of Pods that a machine runs of its own accord; nobody but their file ends them.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Flags of `portolan leave`.
#[derive(Debug, Args)]
pub struct Flags {
    /// The data directory of `portolan join`
    #[arg(long, default_value = "/var/lib/portolan", value_name = "DIR")]
    data_dir: PathBuf,
    /// How long the Pods may take to end
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration)]
    timeout: Duration,
    /// Leave even if the Pods do not end in order or the servers do not answer; what could not be done is said
    #[arg(long)]
    force: bool,
}

/// Leaves.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let directory = membership::directory(&flags.data_dir);
    let Some(membership) = Membership::read(&directory)? else {
        return Err(format!(
            "this machine has not joined with --data-dir {}; there is nothing to leave",
            flags.data_dir.display()
        )
        .into());
    };
    runtime(1)?.block_on(async {
        let client = join::client(&directory, &membership, &Wanted::agent(&membership.node_name));
        let leaving = Leaving { flags, membership };
        leaving.go(client).await
    })?;
    Ok(ExitCode::SUCCESS)
}

struct Leaving<'f> {
    flags: &'f Flags,
    membership: Membership,
}

impl Leaving<'_> {
    async fn go(&self, client: Result<Client, Failure>) -> Result<(), Failure> {
        let name = &self.membership.node_name;
        match client {
            Ok(client) => {
                self.unless_forced(self.drain(&client).await)?;
                self.end_process().await?;
                self.unless_forced(remove(&client, name).await.map_err(Failure::from))?;
            }
            Err(error) => {
                self.unless_forced(Err(error))?;
                self.end_process().await?;
            }
        }
        for what in proxy::remove_leftovers(None) {
            crate::cli::say(&format!("removed: {what}\n"));
        }
        for what in routes::remove_all()? {
            crate::cli::say(&format!("removed: {what}\n"));
        }
        if agent::network::source_validation::remove()? {
            crate::cli::say(&format!("removed: table {}\n", agent::network::source_validation::TABLE));
        }
        forget(&self.flags.data_dir)?;
        crate::cli::say(&format!(
            "Node {name} has left its cluster. If `portolan service install` was used here, `portolan service remove` \
             takes the unit away.\n"
        ));
        Ok(())
    }

    /// With --force, what cannot be done is said and passed over.
    fn unless_forced(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Err(error) if self.flags.force => {
                let name = &self.membership.node_name;
                crate::cli::say(&format!(
                    "{error}\nGoing on (--force). At the server, `kubectl delete node {name}` removes what is left.\n"
                ));
                Ok(())
            }
            Err(error) => Err(format!("{error}\nWith --force this machine leaves nevertheless").into()),
            done => done,
        }
    }

    /// No new Pods, and those that are there end.
    async fn drain(&self, client: &Client) -> Result<(), Failure> {
        let name = &self.membership.node_name;
        let path = format!("{}/{name}", Node::collection(None));
        let cordon = json!({"spec": {"unschedulable": true}});
        match client
            .request(Method::PATCH, &path, MERGE_PATCH, Some(&cordon))
            .await
        {
            // Somebody removed it: nothing is left to drain.
            Err(error) if is_gone(&error) => return Ok(()),
            other => other?,
        };
        crate::cli::say(&format!("Node {name} takes no new Pods\n"));
        let is_run = board::read(&self.flags.data_dir)?.is_some();
        let pods = pods_of(client, name).await?;
        if !is_run && !pods.is_empty() && !self.flags.force {
            return Err(format!(
                "`portolan join` does not run here, so nobody can end the {} Pods of this machine in order; start it first",
                pods.len()
            )
            .into());
        }
        // Nobody is there to end them: they are removed as what they are, gone.
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        for pod in &pods {
            let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
            let path = format!("{}/{name}", Pod::collection(Some(namespace)));
            let options = (!is_run).then_some(&options);
            match client.request(Method::DELETE, &path, JSON, options).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        self.await_pods(client).await
    }

    async fn await_pods(&self, client: &Client) -> Result<(), Failure> {
        let deadline = Instant::now() + self.flags.timeout;
        let mut told = None;
        loop {
            let left = pods_of(client, &self.membership.node_name).await?;
            if left.is_empty() {
                return Ok(());
            }
            if told != Some(left.len()) {
                crate::cli::say(&format!("Waiting for {} Pods to end …\n", left.len()));
                told = Some(left.len());
            }
            if Instant::now() > deadline {
                let names: Vec<String> = left.iter().map(|pod| pod.metadata.key().to_string()).collect();
                return Err(format!(
                    "these Pods have not ended within {:?}: {}",
                    self.flags.timeout,
                    names.join(", ")
                )
                .into());
            }
            tokio::time::sleep(POLL_PERIOD).await;
        }
    }

    /// Ends `portolan join`, if it runs.
    async fn end_process(&self) -> Result<(), Failure> {
        let Some(report) = board::read(&self.flags.data_dir)? else {
            return Ok(());
        };
        let pid = i32::try_from(report.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("portolan join has only begun; try again in a moment")?;
        kill_process(pid, Signal::TERM).map_err(|error| format!("process {}: {error}", report.pid))?;
        let deadline = Instant::now() + END_PATIENCE;
        // Another one may have been started by whoever looks after it.
        while board::read(&self.flags.data_dir)?.is_some_and(|now| now.pid == report.pid) {
            if Instant::now() > deadline {
                return Err(format!("portolan join, process {}, does not end", report.pid).into());
            }
            tokio::time::sleep(POLL_PERIOD).await;
        }
        Ok(())
    }
}

/// The Pods of a Node that somebody else than the machine itself wants.
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
    let ours = pods.filter(|pod| pod.spec.node_name == node_name);
    Ok(ours
        .filter(|pod| !pod.metadata.annotations.contains_key(MIRROR))
        .collect())
}

/// Removes the Node and its Lease.
async fn remove(client: &Client, name: &str) -> Result<(), ClientError> {
    let lease = format!("{}/{name}", Lease::collection(Some(LEASE_NAMESPACE)));
    for path in [lease, format!("{}/{name}", Node::collection(None))] {
        match client.request(Method::DELETE, &path, JSON, None).await {
            Err(error) if !is_gone(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether the Node is gone: it is not found, or the certificates of its machine do not count any more.
fn is_gone(error: &ClientError) -> bool {
    error.is_not_found() || error.code() == Some(401)
}

/// Removes certificates, keys and what the parts keep.
fn forget(data_dir: &Path) -> Result<(), Failure> {
    let absent_is_fine = |path: &Path, result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", path.display())),
        _ => Ok(()),
    };
    for name in ["node", "agent"] {
        let path = data_dir.join(name);
        absent_is_fine(&path, fs::remove_dir_all(&path))?;
    }
    let path = data_dir.join("dns.state");
    absent_is_fine(&path, fs::remove_file(&path))?;
    Ok(())
}
