//! The playground: a cluster in network namespaces, with the example manifests applied and checked.
//!
//! The process enters namespaces of its own and starts each component as a process, as in a real cluster. It
//! applies the examples, checks that each one responds, and runs until a signal.

mod checks;
mod components;
mod guide;
mod lookup;
mod manifests;
mod router;

use std::net::TcpListener;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use testbed::{Cluster, Topology};

use crate::error::CommandError;
use crate::output;
use components::Components;

/// Time for all examples to respond.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// Settings of a playground.
pub(crate) struct Options {
    /// Number of nodes.
    pub nodes: usize,
    /// True if the playground exits after the checks.
    pub check_only: bool,
    /// Port of the API on the loopback address of the host; 0 for any free port.
    pub api_port: u16,
}

/// Runs the playground until a signal, or until the end of the checks.
///
/// # Errors
///
/// An error if a component does not start.
pub(crate) fn run(options: &Options) -> Result<ExitCode, CommandError> {
    // The socket is bound before the process enters its namespaces: it is the only connection to the host's network.
    let listener = host_listener(options.api_port)?;
    let address = listener.local_addr()?;
    if let Some(status) = testbed::enclose(Some(&listener))? {
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
    }
    let host_pid = guide::host_pid();
    let inside = testbed::set_up_enclosure()?;
    if !inside.has_own_proc {
        tracing::warn!(
            "/proc not mounted, so Pods do not start; run the playground outside of a container, or in one with an \
             unmasked /proc"
        );
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
        manifests::apply(&cluster, components.kubeconfig(), components.has_router())
    })?;
    let all_respond = check_examples(started, &cluster, &components)?;
    if options.check_only || !all_respond {
        if !all_respond {
            eprintln!("Ends of the logs with errors:");
            components.print_log_ends();
        }
        components.stop();
        return Ok(if all_respond {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    guide::print(&cluster, &components, host_pid);
    components.wait_for_signal()?;
    components.stop();
    output::print("The playground is stopped.\n");
    Ok(ExitCode::SUCCESS)
}

/// Returns the listener of the API on the host, which the process inherits after it has entered its namespaces.
fn host_listener(api_port: u16) -> Result<TcpListener, CommandError> {
    if let Some(inherited) = testbed::host_listener() {
        return Ok(inherited);
    }
    let listener = TcpListener::bind(("127.0.0.1", api_port)).map_err(|error| {
        format!("cannot listen on 127.0.0.1:{api_port}: {error}; choose another --api-port")
    })?;
    Ok(listener)
}

/// Checks each example until it responds, and prints a line per example.
fn check_examples(
    started: Instant,
    cluster: &Cluster,
    components: &Components,
) -> Result<bool, CommandError> {
    let deadline = Instant::now() + CHECK_TIMEOUT;
    let mut all_respond = true;
    output::print("\n  Examples:\n");
    let router = components.has_router().then(checks::router);
    let skipped = router.is_none().then(checks::router);
    for check in checks::all_checks().into_iter().chain(router) {
        let outcome = loop {
            match (check.run)(cluster, components) {
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
                outcome => break outcome,
            }
        };
        match outcome {
            Ok(result) => output::print(&format!("  [ok]     {:28} {result}\n", check.example)),
            Err(error) => {
                all_respond = false;
                output::print(&format!("  [FAILED] {:28} {error}\n", check.example));
            }
        }
    }
    if let Some(check) = skipped {
        output::print(&format!(
            "  [skipped] {:26} BIRD is not installed\n",
            check.example
        ));
    }
    let seconds = started.elapsed().as_secs_f64();
    let result = if all_respond {
        "All examples responded"
    } else {
        "Not all examples responded"
    };
    output::print(&format!("\n  {result} after {seconds:.1} s\n\n"));
    Ok(all_respond)
}

/// Runs one step, and prints the time since the start.
fn step<T>(
    started: Instant,
    title: &str,
    work: impl FnOnce() -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    output::print(&format!("  {title} … "));
    let result = work();
    match &result {
        Ok(_) => output::print(&format!("after {:.1} s\n", started.elapsed().as_secs_f64())),
        Err(_) => output::print("failed\n"),
    }
    result
}
