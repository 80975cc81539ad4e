//! Cost of DNS responses, and their correctness while the cluster changes.

mod churn;
mod forwarded;
mod history;
mod idle;
mod paced;
pub(crate) mod queries;
mod restart;
mod rolling;
mod visible;

use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use testbed::Member;

use crate::Failure;
use crate::environment::{Environment, TIMEOUT, run_enclosed};
use crate::fixtures;
use crate::process::{Measured, portolan};

use queries::{RCODE_NO_ERROR, Window, connect, query};

/// Flags of `bench dns`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of Services
    #[arg(long, default_value_t = 10_000, global = true)]
    services: usize,
    /// Number of endpoints per Service
    #[arg(long, default_value_t = 10, global = true)]
    endpoints: usize,
    /// Duration of the queries in seconds
    #[arg(long, default_value_t = 10, global = true)]
    seconds: u64,
    /// Measure this DNS server instead of Portolan: command for `sh` with {kubeconfig}, {listen} and {forward}
    #[arg(long, value_name = "COMMAND", global = true)]
    command: Option<String>,
    #[command(subcommand)]
    case: Option<Case>,
}

#[derive(Clone, Debug, Subcommand)]
enum Case {
    /// Query cached names outside of the cluster: rate, CPU per query
    Forwarded(forwarded::Flags),
    /// Query cluster IPs at a fixed rate: latency
    Paced(paced::Flags),
    /// Replace an endpoint: time until a response contains the new address
    Visible(visible::Flags),
    /// Change endpoints at a fixed rate and compare every response with the writes
    Churn(churn::Flags),
    /// Replace all members of a headless Service: failed and wrong lookups
    Rolling(rolling::Flags),
    /// Kill the API server repeatedly: wrong responses, memory
    Restart(restart::Flags),
    /// Open idle TCP connections: rate and memory
    Idle(idle::Flags),
}

/// DNS server under test, and its cluster.
struct Context<'a> {
    environment: &'a mut Environment,
    listen: SocketAddr,
    server: Measured,
    /// Duration of the queries.
    duration: Duration,
    services: usize,
}

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    run_enclosed(false, |mut environment| {
        environment.with_api(async || {
            let clients = (0..4)
                .map(|_| environment.client())
                .collect::<Result<Vec<_>, _>>()?;
            fixtures::create_services(&clients, flags.services, flags.endpoints).await
        })?;
        let upstream = forwarded::start_upstream(environment.cluster.outside()?)?;
        let node = environment
            .cluster
            .nodes()
            .next()
            .ok_or("the testbed has no node")?;
        let listen = SocketAddr::from((environment.cluster.topology.nodes[0].member.address.ipv4, 10053));
        let started = Instant::now();
        let command = command(flags, &environment, listen, upstream)?;
        let server = environment.start_component("DNS server", node, command)?;
        let mut context = Context {
            environment: &mut environment,
            listen,
            server,
            duration: Duration::from_secs(flags.seconds),
            services: flags.services,
        };
        if let Some(last) = flags.services.checked_sub(1) {
            context
                .node()?
                .enter(|| wait_for_address(listen, &cluster_name(last)))??;
            println!("ready {:.3} s after exec", started.elapsed().as_secs_f64());
        }
        context.server.must_run()?;
        match &flags.case {
            None => cluster_ips(&context)?,
            Some(Case::Forwarded(flags)) => forwarded::run(flags, &context)?,
            Some(Case::Paced(flags)) => paced::run(flags, &context)?,
            Some(Case::Visible(flags)) => visible::run(flags, &context)?,
            Some(Case::Churn(flags)) => churn::run(flags, &context)?,
            Some(Case::Rolling(flags)) => rolling::run(flags, &context)?,
            Some(Case::Restart(flags)) => restart::run(flags, &mut context)?,
            Some(Case::Idle(flags)) => idle::run(flags, &context)?,
        }
        context.server.must_run()?;
        println!("resident memory: {:.1} MiB", context.server.resident_mib()?);
        Ok(())
    })
}

impl Context<'_> {
    /// Node of the server and of the clients.
    fn node(&self) -> Result<&Member, Failure> {
        Ok(self
            .environment
            .cluster
            .nodes()
            .next()
            .ok_or("the testbed has no node")?)
    }

    /// Queries all names in turn, each of which has one address, and prints the rate and the CPU time of the server.
    fn measure_rate(&self, names: &[String]) -> Result<(), Failure> {
        let before = self.server.cpu()?;
        let mut window = Window::new(self.node()?.enter(|| connect(self.listen))??);
        let mut next = 0;
        let answered = window.run(
            Instant::now() + self.duration,
            |_, id| {
                next = (next + 1) % names.len();
                query(id, &names[next])
            },
            |_, _, response| {
                if response.rcode == RCODE_NO_ERROR && response.addresses.len() == 1 {
                    Ok(())
                } else {
                    Err("wrong response".into())
                }
            },
        )?;
        let cpu = (self.server.cpu()? - before).as_secs_f64();
        let seconds = self.duration.as_secs_f64();
        println!(
            "{answered} answers in {seconds} s: {:.0}/s",
            answered as f64 / seconds
        );
        println!("server CPU a query: {:.2} us", cpu * 1e6 / answered as f64);
        Ok(())
    }
}

fn cluster_ips(context: &Context<'_>) -> Result<(), Failure> {
    context.measure_rate(&cluster_names(context)?)
}

fn cluster_names(context: &Context<'_>) -> Result<Vec<String>, Failure> {
    match context.services {
        0 => Err("--services=0 leaves no name to query".into()),
        services => Ok((0..services).map(cluster_name).collect()),
    }
}

fn cluster_name(service: usize) -> String {
    format!("s-{service}.default.svc.cluster.local")
}

fn command(
    flags: &Flags,
    environment: &Environment,
    listen: SocketAddr,
    forward: SocketAddr,
) -> Result<Command, Failure> {
    let kubeconfig = environment.kubeconfig().display().to_string();
    if let Some(line) = &flags.command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(
            line.replace("{kubeconfig}", &kubeconfig)
                .replace("{listen}", &listen.to_string())
                .replace("{forward}", &forward.to_string()),
        );
        return Ok(command);
    }
    let mut command = Command::new(portolan()?);
    command
        .arg("dns")
        .arg(format!("--kubeconfig={kubeconfig}"))
        .arg(format!("--listen={listen}"))
        .arg(format!("--forward={forward}"));
    Ok(command)
}

/// Queries a name until it has an address.
fn wait_for_address(server: SocketAddr, name: &str) -> Result<(), Failure> {
    let socket = connect(server)?;
    let deadline = Instant::now() + TIMEOUT;
    let mut buffer = [0; 4_096];
    while Instant::now() < deadline {
        if socket.send(&query(0, name)).is_ok()
            && let Ok(length) = socket.recv(&mut buffer)
            && queries::Response::parse(&buffer[..length])
                .is_some_and(|response| response.rcode == RCODE_NO_ERROR && !response.addresses.is_empty())
        {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("the DNS server has no address for {name}").into())
}
