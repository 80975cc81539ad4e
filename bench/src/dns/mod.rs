//! What a DNS answer costs the server, and whether it is right while the world changes.

mod asking;
mod churn;
mod forwarded;
mod history;
mod idle;
mod paced;
mod restart;
mod rolling;
mod visible;

use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use testbed::Member;

use crate::Failure;
use crate::process::{Measured, portolan};
use crate::setting::{PATIENCE, Setting, enclosed};
use crate::world;

use asking::{A_CODE_OK, Window, connect, question};

/// Flags of `bench dns`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Services
    #[arg(long, default_value_t = 10_000, global = true)]
    services: usize,
    /// Endpoints of each
    #[arg(long, default_value_t = 10, global = true)]
    endpoints: usize,
    /// Seconds of questions
    #[arg(long, default_value_t = 10, global = true)]
    seconds: u64,
    /// Another DNS server that is measured in the place of Portolan's: a command line for `sh`, in which
    /// {kubeconfig}, {listen} and {forward} are replaced
    #[arg(long, value_name = "COMMAND", global = true)]
    command: Option<String>,
    #[command(subcommand)]
    case: Option<Case>,
}

#[derive(Clone, Debug, Subcommand)]
enum Case {
    /// Names outside of the cluster, all of them in the cache: answers a second, server CPU a query
    Forwarded(forwarded::Flags),
    /// Cluster IPs at a steady rate: latency
    Paced(paced::Flags),
    /// An endpoint is replaced again and again: time from the write until an answer has the new one
    Visible(visible::Flags),
    /// Endpoints change at a steady rate while questions are asked: every answer is compared with what was written
    Churn(churn::Flags),
    /// A headless Service of thousands of members is rolled, member by member, while each is looked up: lookups that
    /// failed or were wrong
    Rolling(rolling::Flags),
    /// The API server is killed again and again while names are asked for: wrong answers, memory
    Restart(restart::Flags),
    /// Thousands of connections that say nothing: rate and memory beside them
    Idle(idle::Flags),
}

/// A server that answers for a world.
struct Place<'a> {
    setting: &'a mut Setting,
    listen: SocketAddr,
    server: Measured,
    /// How long questions are asked.
    duration: Duration,
    services: usize,
}

/// Runs the benchmark.
pub fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    enclosed(false, |mut setting| {
        setting.with_api(async || {
            let clients = (0..4).map(|_| setting.client()).collect::<Result<Vec<_>, _>>()?;
            world::create(&clients, flags.services, flags.endpoints).await
        })?;
        let upstream = forwarded::start_upstream(setting.cluster.outside()?)?;
        let node = setting.cluster.nodes().next().ok_or("the testbed has no node")?;
        let listen = SocketAddr::from((setting.cluster.topology.nodes[0].member.address.ipv4, 10053));
        let started = Instant::now();
        let command = command(flags, &setting, listen, upstream)?;
        let server = setting.start_component("the DNS server", node, command)?;
        let mut place = Place {
            setting: &mut setting,
            listen,
            server,
            duration: Duration::from_secs(flags.seconds),
            services: flags.services,
        };
        if let Some(last) = flags.services.checked_sub(1) {
            place
                .node()?
                .enter(|| wait_for_answer(listen, &cluster_name(last)))??;
            println!("ready {:.3} s after exec", started.elapsed().as_secs_f64());
        }
        place.server.must_run()?;
        match &flags.case {
            None => cluster_ips(&place)?,
            Some(Case::Forwarded(flags)) => forwarded::run(flags, &place)?,
            Some(Case::Paced(flags)) => paced::run(flags, &place)?,
            Some(Case::Visible(flags)) => visible::run(flags, &place)?,
            Some(Case::Churn(flags)) => churn::run(flags, &place)?,
            Some(Case::Rolling(flags)) => rolling::run(flags, &place)?,
            Some(Case::Restart(flags)) => restart::run(flags, &mut place)?,
            Some(Case::Idle(flags)) => idle::run(flags, &place)?,
        }
        place.server.must_run()?;
        println!("resident memory: {:.1} MiB", place.server.resident_mib()?);
        Ok(())
    })
}

impl Place<'_> {
    /// Where the server runs, and who asks.
    fn node(&self) -> Result<&Member, Failure> {
        Ok(self
            .setting
            .cluster
            .nodes()
            .next()
            .ok_or("the testbed has no node")?)
    }

    /// Asks for all names by turns, each of which has one address, with a window of questions under way; tells the
    /// rate and what it cost the server.
    fn measure_rate(&self, names: &[String]) -> Result<(), Failure> {
        let before = self.server.cpu()?;
        let mut window = Window::new(self.node()?.enter(|| connect(self.listen))??);
        let mut next = 0;
        let answered = window.run(
            Instant::now() + self.duration,
            |_, id| {
                next = (next + 1) % names.len();
                question(id, &names[next])
            },
            |_, _, answer| match answer.code == A_CODE_OK && answer.addresses.len() == 1 {
                true => Ok(()),
                false => Err("a wrong answer".into()),
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

fn cluster_ips(place: &Place<'_>) -> Result<(), Failure> {
    place.measure_rate(&cluster_names(place)?)
}

fn cluster_names(place: &Place<'_>) -> Result<Vec<String>, Failure> {
    match place.services {
        0 => Err("--services=0 leaves nothing to ask for".into()),
        services => Ok((0..services).map(cluster_name).collect()),
    }
}

fn cluster_name(service: usize) -> String {
    format!("s-{service}.default.svc.cluster.local")
}

fn command(
    flags: &Flags,
    setting: &Setting,
    listen: SocketAddr,
    forward: SocketAddr,
) -> Result<Command, Failure> {
    let kubeconfig = setting.kubeconfig().display().to_string();
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

/// Asks until a name has an address.
fn wait_for_answer(server: SocketAddr, name: &str) -> Result<(), Failure> {
    let socket = connect(server)?;
    let deadline = Instant::now() + PATIENCE;
    let mut buffer = [0; 4_096];
    while Instant::now() < deadline {
        if socket.send(&question(0, name)).is_ok()
            && let Ok(length) = socket.recv(&mut buffer)
            && asking::Answer::read(&buffer[..length])
                .is_some_and(|answer| answer.code == A_CODE_OK && !answer.addresses.is_empty())
        {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("the DNS server has no address for {name}").into())
}
