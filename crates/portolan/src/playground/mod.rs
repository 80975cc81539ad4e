//! The playground: a cluster in a box, with the example manifests applied and checked.
//!
//! The process goes into an enclosure (namespaces of its own), starts every component there as the process
//! it is in a real cluster, applies the examples, checks that each of them answers, and stays.

mod checks;
mod components;
mod guide;
mod lookup;
mod manifests;

use std::io::Write;
use std::net::TcpListener;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use testbed::{Cluster, Topology};

use crate::commands::Failure;
use components::Components;

/// Settings of a playground.
pub struct Options {
    /// Number of nodes.
    pub nodes: usize,
    /// Whether to end after the checks.
    pub check_only: bool,
    /// Port of the host's loopback address for the API, or 0 for a free one.
    pub api_port: u16,
}

/// Runs the playground to its end.
pub fn run(options: &Options) -> Result<ExitCode, Failure> {
    // Bound outside and handed in: the only way from the host's network to the inside.
    let listener = match testbed::host_listener() {
        Some(inherited) => inherited,
        None => TcpListener::bind(("127.0.0.1", options.api_port)).map_err(|e| {
            format!(
                "cannot listen on 127.0.0.1:{}: {e}; choose another --api-port",
                options.api_port
            )
        })?,
    };
    let address = listener.local_addr()?;
    if let Some(status) = testbed::enclose(Some(&listener))? {
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
    }
    let host_pid = guide::host_pid();
    let inside = testbed::settle()?;
    if !inside.has_own_proc {
        tracing::debug!("the enclosure shows the processes of outside");
    }
    let started = Instant::now();
    let cluster = step(
        started,
        &format!("{} nodes and a client outside", options.nodes),
        || {
            let cluster = Cluster::start(Topology::with_nodes(options.nodes)?)?;
            cluster.publish()?;
            Ok(cluster)
        },
    )?;
    let mut components = step(started, "API server, controllers, balancer, DNS", || {
        Components::start(&cluster)
    })?;
    step(started, "proxy, load balancer and agent on every node", || {
        components.start_nodes(&cluster)
    })?;
    testbed::forward(listener, cluster.control_plane()?, components.api_address())?;
    components.write_host_kubeconfig(address)?;
    step(started, "examples applied", || {
        manifests::apply(&cluster, components.kubeconfig())
    })?;
    let all_answer = check(started, &cluster, &components)?;
    if options.check_only || !all_answer {
        if !all_answer {
            eprintln!("The components' logs were kept until here; the ends of those with errors:");
            components.print_log_ends();
        }
        components.stop();
        return Ok(if all_answer {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    guide::print(&cluster, &components, host_pid);
    components.wait_for_end()?;
    components.stop();
    println!("The playground is gone.");
    Ok(ExitCode::SUCCESS)
}

/// How long an example may take to answer, from the moment all of them are applied.
const CHECK_PATIENCE: Duration = Duration::from_secs(60);

/// Checks every example, waiting for Pods to come up; prints a line for each.
fn check(started: Instant, cluster: &Cluster, components: &Components) -> Result<bool, Failure> {
    let deadline = Instant::now() + CHECK_PATIENCE;
    let mut all = true;
    println!("\n  Examples:");
    for check in checks::all() {
        let outcome = loop {
            match (check.run)(cluster, components) {
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
                outcome => break outcome,
            }
        };
        match outcome {
            Ok(seen) => println!("  [ok]     {:28} {seen}", check.example),
            Err(error) => {
                all = false;
                println!("  [FAILED] {:28} {error}", check.example);
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "\n  {} after {seconds:.1} s\n",
        if all {
            "All examples answered"
        } else {
            "Not all examples answered"
        }
    );
    Ok(all)
}

/// Runs one step and shows how long it took.
fn step<T>(started: Instant, what: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    print!("  {what} … ");
    std::io::stdout().flush()?;
    let result = work();
    match &result {
        Ok(_) => println!("after {:.1} s", started.elapsed().as_secs_f64()),
        Err(_) => println!("failed"),
    }
    result
}
