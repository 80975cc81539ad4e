//! `portolan down`: the end of everything that `portolan up` or `portolan join` left on this host.
//!
//! `portolan leave` removes the Node from its cluster as well; this command changes this host only.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use balancer::serving::local_addresses::LocalAddresses;
use clap::Args;
use netlink::nftables::{Nftables, TableFamily};
use proxy::LeftoverScope;

use crate::cluster::{running_process, status_file};
use crate::error::CommandError;
use crate::flags::values::{DATA_DIRECTORY, duration};
use crate::{output, runtime};

/// Lock file of a data directory, which a running portolan has open.
const LOCK: &str = "up.lock";
/// Tables of nftables besides those of the proxy's modes and of the routes.
const TABLES: [(TableFamily, &str); 6] = [
    (TableFamily::Inet, "portolan-agent"),
    (TableFamily::Inet, agent::network::host_ports::TABLE),
    (TableFamily::Inet, "portolan-resets"),
    (TableFamily::Inet, "portolan-dns"),
    (TableFamily::Ipv4, "portolan-announcer"),
    (TableFamily::Ipv6, "portolan-announcer"),
];

/// Flags of `portolan down`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Data directory of `portolan up` or `portolan join`
    #[arg(long, default_value = DATA_DIRECTORY, value_name = "DIR")]
    data_dir: PathBuf,
    /// Time between the stop signal and SIGKILL of containers
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = duration)]
    grace_period: Duration,
    /// Stop the Portolan process of the data directory; ignore other ones in this network, and a directory of other
    /// data
    #[arg(long)]
    force: bool,
    /// Delete the data directory, too: the cluster's objects, keys and images
    #[arg(long)]
    purge: bool,
}

/// Reason why this host stays as it is.
#[derive(Debug, thiserror::Error)]
enum DownError {
    #[error(
        "portolan runs with --data-dir {}, as process {pid}; stop it first, or use --force to stop it", directory.display()
    )]
    Running { directory: PathBuf, pid: u32 },
    #[error(
        "portolan runs with --data-dir {}, as process {pid}, in this network; use that directory, or --force to \
         remove its rules, links and routes", directory.display()
    )]
    OtherRunning { directory: PathBuf, pid: u32 },
    #[error("--purge: {} is not a data directory of portolan: it has no file up.lock", .0.display())]
    NoDataDirectory(PathBuf),
    #[error("{} is not a data directory of portolan: it has no file up.lock; use --force to ignore this", .0.display())]
    OtherDirectory(PathBuf),
    #[error("{0} objects not removed; run the command again")]
    Incomplete(usize),
}

/// Ends everything of Portolan on this host. A second run finds nothing.
///
/// # Errors
///
/// An error if something cannot be removed. Without `--force`, also an error if Portolan runs, or if the directory is not
/// a data directory of Portolan.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    if flags.purge && flags.data_dir.exists() {
        check_data_directory(&flags.data_dir)?;
    }
    runtime::multi_thread(1)?.block_on(async {
        stop_process(flags).await?;
        if !flags.force {
            check_network_unused(&flags.data_dir)?;
        }
        let mut removal = Removal::default();
        removal.remove_pods(flags).await?;
        removal.remove_network();
        removal.release_images(&flags.data_dir);
        // A Pod that stays needs its directory, by which the next run finds it.
        if flags.purge && removal.failures == 0 {
            removal.record_file(&flags.data_dir, remove_directory(&flags.data_dir));
        }
        removal.finish()
    })
}

async fn stop_process(flags: &Flags) -> Result<(), CommandError> {
    let Some(status) = status_file::read(&flags.data_dir)? else {
        return Ok(());
    };
    if !flags.force {
        return Err(DownError::Running {
            directory: flags.data_dir.clone(),
            pid: status.pid,
        }
        .into());
    }
    output::print(&format!("Stopping portolan, process {} …\n", status.pid));
    Ok(running_process::stop(&flags.data_dir).await?)
}

/// A wrong path must not delete other data.
fn check_data_directory(directory: &Path) -> Result<(), DownError> {
    if status_file::is_data_directory(directory) {
        Ok(())
    } else {
        Err(DownError::NoDataDirectory(directory.to_owned()))
    }
}

/// Refuses a directory of other data, and one beside that of a running portolan. The rules, links and routes of that
/// process belong to the network of this one, and no data directory has a part of them.
fn check_network_unused(directory: &Path) -> Result<(), DownError> {
    if directory.exists() && !status_file::is_data_directory(directory) {
        return Err(DownError::OtherDirectory(directory.to_owned()));
    }
    let network = |process: &Path| fs::read_link(process.join("ns/net")).ok();
    let own = network(Path::new("/proc/self"));
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.map(|entry| entry.path()) {
        let name = process.file_name().and_then(OsStr::to_str);
        let pid: Option<u32> = name.and_then(|name| name.parse().ok());
        let Some(pid) = pid.filter(|_| own.is_some() && network(&process) == own) else {
            continue;
        };
        if let Some(directory) = locked_directory(&process) {
            return Err(DownError::OtherRunning { directory, pid });
        }
    }
    Ok(())
}

/// Returns the data directory whose lock file a process has open.
fn locked_directory(process: &Path) -> Option<PathBuf> {
    let descriptors = fs::read_dir(process.join("fd")).ok()?.flatten();
    let mut files = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    let lock = files.find(|file| file.is_absolute() && file.file_name() == Some(OsStr::new(LOCK)))?;
    lock.parent().map(Path::to_owned)
}

/// Deletes a directory with its content. A mount point cannot be deleted, and stays without content.
fn remove_directory(directory: &Path) -> io::Result<()> {
    let is_empty = || fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy && is_empty() => Ok(()),
        result => result,
    }
}

/// Printer and counter of removed objects.
#[derive(Default)]
struct Removal {
    removed: usize,
    failures: usize,
}

impl Removal {
    async fn remove_pods(&mut self, flags: &Flags) -> Result<(), CommandError> {
        let removed = agent::remove_pods(&flags.data_dir.join("agent"), flags.grace_period).await?;
        for pod in removed.pods {
            self.record(&format!("Pod {pod}"), Ok::<_, io::Error>(true));
        }
        for link in removed.links {
            self.record(&format!("link {link}"), Ok::<_, io::Error>(true));
        }
        for failure in removed.failures {
            self.fail(&failure);
        }
        Ok(())
    }

    /// Removes rules, links, routes and addresses of all components from the host.
    fn remove_network(&mut self) {
        // kube-proxy's rules belong to another cluster.
        let rules = proxy::remove_leftovers(None, LeftoverScope::OwnModes);
        for object in rules.removed {
            self.record(&object, Ok::<_, io::Error>(true));
        }
        for failure in rules.failures {
            self.fail(&failure);
        }
        match routes::remove_all() {
            Ok(objects) => objects
                .iter()
                .for_each(|object| self.record(object, Ok::<_, io::Error>(true))),
            Err(error) => self.fail(&format!("routes to Pods: {error}")),
        }
        match announcer::remove_egress() {
            Ok(tables) => tables
                .iter()
                .for_each(|table| self.record(table, Ok::<_, io::Error>(true))),
            Err(error) => self.fail(&format!("egress: {error}")),
        }
        match Nftables::open() {
            Ok(mut nftables) => {
                for (family, table) in TABLES {
                    let deleted = nftables.delete_table(family, table);
                    self.record(&format!("nftables table {family} {table}"), deleted);
                }
            }
            Err(error) => self.fail(&format!("nftables tables: {error}")),
        }
        if let Err(error) = dns::tear_down_node_local() {
            self.fail(&format!("link of node-local DNS: {error}"));
        }
        if let Err(error) = self.remove_local_addresses() {
            self.fail(&format!("addresses of load balancers: {error}"));
        }
    }

    fn remove_local_addresses(&mut self) -> Result<(), netlink::route::RouteError> {
        let mut local = LocalAddresses::open()?;
        for address in local.present().clone() {
            let removed = local.remove(address).map(|()| true);
            self.record(&format!("local address {address}"), removed);
        }
        Ok(())
    }

    /// Allows `portolan image prune` to remove the images of ended Pods.
    fn release_images(&mut self, data_directory: &Path) {
        let directory = data_directory.join("images");
        if !directory.exists() {
            return;
        }
        if let Err(error) = agent::release_images(&directory) {
            self.fail(&error.to_string());
        }
    }

    fn record_file(&mut self, path: &Path, result: io::Result<()>) {
        let removed = match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            other => other.map(|()| true),
        };
        self.record(&path.display().to_string(), removed);
    }

    /// Prints a removed object. `Ok(false)` means that it did not exist.
    fn record(&mut self, object: &str, result: Result<bool, impl std::fmt::Display>) {
        match result {
            Ok(true) => {
                self.removed += 1;
                output::print(&format!("removed: {object}\n"));
            }
            Ok(false) => {}
            Err(error) => self.fail(&format!("{object}: {error}")),
        }
    }

    fn fail(&mut self, failure: &str) {
        self.failures += 1;
        output::print(&format!("not removed: {failure}\n"));
    }

    fn finish(self) -> Result<ExitCode, CommandError> {
        if self.failures > 0 {
            return Err(DownError::Incomplete(self.failures).into());
        }
        if self.removed == 0 {
            output::print("Nothing of portolan is on this host.\n");
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests;
