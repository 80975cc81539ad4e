//! Takeover in a real cluster. The benchmark counts requests that fail while Portolan replaces upstream's parts, and
//! while upstream's parts replace Portolan. Pods of the backends are replaced meanwhile.

mod backends;
pub(crate) mod cluster;
mod load;
mod parts;
mod request;
mod scenarios;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::Value;

use self::cluster::{DNS, RealCluster};
use self::load::{ClientLocation, Load, RequestResults, Target};
use self::parts::{Mode, Parts};
use self::scenarios::Scenario;
use crate::Failure;
use crate::process::portolan;

/// Variable with the path of a script that starts a cluster.
const SCRIPT_VARIABLE: &str = "PORTOLAN_CLUSTER_SCRIPT";
/// Name that DNS clients query.
const DNS_NAME: &str = "backends.takeover.svc.cluster.local";
/// Number of backends.
const BACKENDS: usize = 6;
/// Time before the count, in which kube-proxy loads the rules of the workload.
const WARM_UP: Duration = Duration::from_secs(2);
/// Maximum number of failures in the report of a step.
const FAILURES_MAX: usize = 20;

/// Flags of `bench takeover`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Script that starts a cluster, see CONTRIBUTING.md; default: the variable PORTOLAN_CLUSTER_SCRIPT
    #[arg(long, value_name = "FILE")]
    cluster_script: Option<PathBuf>,
    /// Use the running cluster of CLUSTER_DIR instead of a new one
    #[arg(long)]
    existing_cluster: bool,
    /// Leave the cluster running
    #[arg(long)]
    keep_cluster: bool,
    /// Number of nodes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=9))]
    nodes: u16,
    /// Scenario; repeatable. Default: all, `versions` only with --old-binary
    #[arg(long = "scenario", value_enum, value_name = "NAME")]
    scenarios: Vec<Scenario>,
    /// Requests a second, all clients together
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Seconds of load before the first and after each step
    #[arg(long, default_value_t = 15)]
    settle_seconds: u64,
    /// Seconds between deletions of a backend's Pod
    #[arg(long, default_value_t = 3)]
    replace_seconds: u64,
    /// Seconds for which a backend serves after its deletion (preStop)
    #[arg(long, default_value_t = 15)]
    pre_stop_seconds: u64,
    /// Measured binary; default: portolan beside this program
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Older binary, for the scenario `versions`
    #[arg(long, value_name = "FILE")]
    old_binary: Option<PathBuf>,
}

impl Flags {
    fn script(&self) -> Option<PathBuf> {
        let variable = || std::env::var_os(SCRIPT_VARIABLE).map(PathBuf::from);
        self.cluster_script.clone().or_else(variable)
    }

    fn scenarios(&self) -> Result<Vec<Scenario>, Failure> {
        if !self.scenarios.is_empty() {
            if self.scenarios.contains(&Scenario::Versions) && self.old_binary.is_none() {
                return Err("the scenario versions needs --old-binary".into());
            }
            return Ok(self.scenarios.clone());
        }
        let has_old = self.old_binary.is_some();
        let all = Scenario::value_variants().iter().copied();
        Ok(all
            .filter(|scenario| has_old || *scenario != Scenario::Versions)
            .collect())
    }
}

/// Runs the scenarios and prints the table. The exit code is 1 if a request over a new connection or from a new socket
/// failed.
///
/// # Errors
/// The cluster does not start, or a step fails.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let Some(script) = flags.script().filter(|script| script.exists()) else {
        println!(
            "skipped: takeover (no script that starts a cluster; set --cluster-script or {SCRIPT_VARIABLE})"
        );
        return Ok(ExitCode::SUCCESS);
    };
    if !rustix::process::geteuid().is_root() {
        println!("skipped: takeover (the script that starts a cluster needs root)");
        return Ok(ExitCode::SUCCESS);
    }
    let scenarios = flags.scenarios()?;
    let cluster = RealCluster::new(&script, flags.nodes.into());
    if !flags.existing_cluster {
        cluster.up()?;
    }
    let outcome = measure_all(flags, &cluster, &scenarios);
    if !flags.keep_cluster {
        cluster.down()?;
    }
    let rows = outcome?;
    print_table(&rows);
    let has_failures = rows
        .iter()
        .any(|(_, tally)| tally.new.failed > 0 || tally.new.requests == 0);
    Ok(if has_failures {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

type Row = (String, RequestResults);

fn measure_all(flags: &Flags, cluster: &RealCluster, scenarios: &[Scenario]) -> Result<Vec<Row>, Failure> {
    let binary = flags.binary.clone().map_or_else(portolan, Ok)?;
    let parts = Parts::new(cluster, &binary, flags.old_binary.as_deref())?;
    parts.install_kube_proxy(Mode::Nftables)?;
    parts.install_coredns()?;
    parts.install_workload(BACKENDS, flags.pre_stop_seconds)?;
    let mut rows = Vec::new();
    for scenario in scenarios {
        scenario.prepare(&parts)?;
        rows.extend(measure(flags, cluster, &parts, *scenario)?);
        scenario.restore(&parts)?;
    }
    Ok(rows)
}

/// Runs the steps of a scenario under load. Each row has the requests from the begin of a step to that of the next one.
fn measure(
    flags: &Flags,
    cluster: &RealCluster,
    parts: &Parts<'_>,
    scenario: Scenario,
) -> Result<Vec<Row>, Failure> {
    let settle = || std::thread::sleep(Duration::from_secs(flags.settle_seconds));
    let load = Load::start(places(cluster)?, flags.rate);
    std::thread::sleep(WARM_UP);
    drop(load.take());
    let is_over = AtomicBool::new(false);
    let period = Duration::from_secs(flags.replace_seconds);
    let (rows, replaced) = std::thread::scope(|scope| {
        let replacement = scope.spawn(|| backends::replace_until(cluster, BACKENDS, period, &is_over));
        let run_all = || -> Result<Vec<Row>, Failure> {
            let begun = Instant::now();
            settle();
            let mut rows = vec![report(format!("before {}", scenario.name()), load.take(), begun)];
            for step in scenario.steps() {
                let begun = Instant::now();
                (step.work)(parts)?;
                eprintln!("{}: done after {:.1} s", step.name, begun.elapsed().as_secs_f64());
                settle();
                rows.push(report(step.name, load.take(), begun));
            }
            Ok(rows)
        };
        let rows = run_all();
        is_over.store(true, Ordering::Release);
        (rows, replacement.join())
    });
    let last = load.stop()?;
    let replaced = replaced.map_err(|_| "the replacement of backends panicked")??;
    eprintln!("{}: {replaced} Pods of backends replaced", scenario.name());
    let mut rows = rows?;
    if let Some((name, tally)) = rows.last_mut() {
        let (_, last) = report(format!("{name}, last requests"), last, Instant::now());
        tally.add(last);
    }
    Ok(rows)
}

/// Clients: a Pod on each node, each node, and the outside.
fn places(cluster: &RealCluster) -> Result<Vec<ClientLocation>, Failure> {
    let service: Value = serde_json::from_str(&cluster.kubectl(&[
        "--namespace=takeover",
        "get",
        "service",
        "backends",
        "--output=json",
    ])?)?;
    let cluster_ip = service["spec"]["clusterIP"]
        .as_str()
        .ok_or("no cluster IP")?
        .parse()?;
    let node_port = service["spec"]["ports"][0]["nodePort"]
        .as_u64()
        .ok_or("no node port")?;
    let node_port = u16::try_from(node_port)?;
    let cluster_ip = Target::Http("cluster IP", SocketAddr::new(cluster_ip, 80));
    let dns = [
        Target::Dns(SocketAddr::new(DNS.into(), 53)),
        Target::DnsKept(SocketAddr::new(DNS.into(), 53)),
    ];
    let mut at_nodes = Vec::new();
    for node in 1..=cluster.nodes {
        at_nodes.push(Target::Http(
            "node port",
            SocketAddr::new(cluster.node_address(node)?, node_port),
        ));
    }
    let mut places = vec![ClientLocation {
        name: "outside".to_owned(),
        namespace: cluster.outside_namespace()?,
        targets: [at_nodes.clone(), at_nodes.clone()].concat(),
    }];
    let pods: Value = serde_json::from_str(&cluster.kubectl(&[
        "--namespace=takeover",
        "get",
        "pods",
        "--selector=app=clients",
        "--output=json",
    ])?)?;
    for pod in pods["items"].as_array().into_iter().flatten() {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        places.push(ClientLocation {
            name: format!("Pod on {node}"),
            namespace: cluster.pod_namespace(pod)?,
            targets: [&[cluster_ip.clone(), cluster_ip.clone()], &dns[..], &at_nodes].concat(),
        });
    }
    for node in 1..=cluster.nodes {
        let own_port = at_nodes[node - 1].clone();
        places.push(ClientLocation {
            name: format!("node{node}"),
            namespace: cluster.node_namespace(node)?,
            targets: [std::slice::from_ref(&cluster_ip), &dns[..], &[own_port]].concat(),
        });
    }
    Ok(places)
}

/// Prints the failures of a step, with their times in seconds after its begin.
fn report(name: String, tally: RequestResults, begun: Instant) -> Row {
    eprintln!(
        "{name}: {} requests, {} failed; {} queries of kept sockets, {} failed; longest {:.0} ms",
        tally.new.requests,
        tally.new.failed,
        tally.kept.requests,
        tally.kept.failed,
        tally.longest.as_secs_f64() * 1e3
    );
    let seconds = |at: Instant| at.saturating_duration_since(begun).as_secs_f64();
    for (cause, (count, first, last)) in tally.failures.iter().take(FAILURES_MAX) {
        let (first, last) = (seconds(*first), seconds(*last));
        eprintln!("    {count} x {cause}, from {first:.1} s to {last:.1} s");
    }
    (name, tally)
}

fn print_table(rows: &[Row]) {
    println!("| Step | Requests | Failed | Kept sockets | Failed | Longest, ms |");
    println!("|---|---|---|---|---|---|");
    for (
        name,
        RequestResults {
            new, kept, longest, ..
        },
    ) in rows.iter().filter(|(_, tally)| tally.new.requests > 0)
    {
        let longest = longest.as_secs_f64() * 1e3;
        println!(
            "| {name} | {} | {} | {} | {} | {longest:.0} |",
            new.requests, new.failed, kept.requests, kept.failed
        );
    }
}
