//! Clients with open connections to a Service, in processes of their own. For each line of its input, which has the
//! numbers of the live endpoints, a process exchanges a byte on all of its connections. It reports on its output.

use std::fmt;
use std::io::{self, BufRead, BufReader, Lines, Write};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::str::FromStr;

use clap::Args;
use netlink::route::NetworkNamespace;

use super::connections::{Checked, Connections};
use super::world::ENDPOINTS_AT_START;
use crate::Failure;
use crate::process::Measured;

/// Flags of `bench two-tier-client`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Address and port of the Service
    #[arg(long)]
    service: SocketAddr,
    /// Number of connections
    #[arg(long)]
    connections: usize,
}

/// Opens connections, and exchanges bytes on them until the end of the input.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    netlink::rlimit::raise_open_files()?;
    let report_open = |number| println!("{}", Report::Open(number));
    let mut connections = Connections::open(flags.service, flags.connections, report_open)?;
    let by_endpoint = connections.by_endpoint(ENDPOINTS_AT_START);
    println!("{}", Report::Complete(by_endpoint));
    for request in io::stdin().lines() {
        let living = numbers::<u8>(&request?)?;
        let checked = connections.check(|endpoint| living.contains(&endpoint));
        println!("{}", Report::Checked(checked));
    }
    Ok(ExitCode::SUCCESS)
}

/// Report of a process: a line with a word and numbers.
#[derive(Debug, PartialEq, Eq)]
enum Report {
    /// Number of connections that are open so far.
    Open(usize),
    /// All connections are open: their number for each endpoint.
    Complete(Vec<usize>),
    /// Result of an exchange.
    Checked(Checked),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(number) => write!(f, "open {number}"),
            Self::Complete(by_endpoint) => {
                f.write_str("complete")?;
                by_endpoint.iter().try_for_each(|count| write!(f, " {count}"))
            }
            Self::Checked(Checked { examined, lost }) => write!(f, "checked {examined} {lost}"),
        }
    }
}

impl FromStr for Report {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, numbers::<usize>(rest)?.as_slice()) {
            ("open", [number]) => Ok(Self::Open(*number)),
            ("complete", by_endpoint) => Ok(Self::Complete(by_endpoint.to_vec())),
            ("checked", [examined, lost]) => Ok(Self::Checked(Checked {
                examined: *examined,
                lost: *lost,
            })),
            _ => Err(format!("expected a report of a client, found {line:?}").into()),
        }
    }
}

/// Parses numbers between spaces.
fn numbers<T: FromStr<Err = std::num::ParseIntError>>(text: &str) -> Result<Vec<T>, Failure> {
    let numbers = text.split_ascii_whitespace().map(str::parse::<T>);
    Ok(numbers.collect::<Result<Vec<T>, _>>()?)
}

/// Clients of a Service.
pub(super) struct Clients {
    processes: Vec<ClientProcess>,
    /// Number of connections that were opened, for each endpoint.
    by_endpoint: Vec<usize>,
}

impl Clients {
    /// Opens connections one after the other, in a namespace. A process holds at most `per_process` of them.
    pub(super) fn start(
        namespace: &NetworkNamespace,
        service: SocketAddr,
        count: usize,
        per_process: usize,
    ) -> Result<Self, Failure> {
        let mut processes = Vec::new();
        let mut by_endpoint = vec![0; ENDPOINTS_AT_START];
        let mut opened = 0;
        while opened < count {
            let connections = per_process.min(count - opened);
            let mut process = ClientProcess::start(namespace, service, connections)?;
            let of_process = process.wait_for_all(|number| {
                eprintln!("{} of {count} connections are open", opened + number);
            })?;
            for (sum, count) in by_endpoint.iter_mut().zip(of_process) {
                *sum += count;
            }
            opened += connections;
            processes.push(process);
        }
        Ok(Self {
            processes,
            by_endpoint,
        })
    }

    /// Returns the number of connections that were opened, for each endpoint.
    pub(super) fn by_endpoint(&self) -> &[usize] {
        &self.by_endpoint
    }

    /// Exchanges a byte on all connections whose endpoint lives. All processes do so at the same time.
    pub(super) fn check(&mut self, living: &[u8]) -> Result<Checked, Failure> {
        let living: Vec<String> = living.iter().map(u8::to_string).collect();
        for process in &mut self.processes {
            writeln!(process.requests, "{}", living.join(" "))?;
        }
        let mut sum = Checked::default();
        for process in &mut self.processes {
            let Checked { examined, lost } = process.checked()?;
            sum.examined += examined;
            sum.lost += lost;
        }
        Ok(sum)
    }
}

/// A client that runs.
struct ClientProcess {
    requests: ChildStdin,
    reports: Lines<BufReader<ChildStdout>>,
    /// Killed with the value.
    _process: Measured,
}

impl ClientProcess {
    fn start(namespace: &NetworkNamespace, service: SocketAddr, connections: usize) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("two-tier-client")
            .arg(format!("--service={service}"))
            .arg(format!("--connections={connections}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        namespace.start_inside(&mut command)?;
        let mut child = command.spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let process = Measured::new(format!("a client of {service}"), child);
        let (Some(requests), Some(reports)) = pipes else {
            return Err("no pipe".into());
        };
        Ok(Self {
            requests,
            reports: BufReader::new(reports).lines(),
            _process: process,
        })
    }

    /// Waits until all connections are open. Returns their number for each endpoint.
    fn wait_for_all(&mut self, mut report_open: impl FnMut(usize)) -> Result<Vec<usize>, Failure> {
        loop {
            match self.report()? {
                Report::Open(number) => report_open(number),
                Report::Complete(by_endpoint) => return Ok(by_endpoint),
                other @ Report::Checked(_) => return Err(unexpected(&other)),
            }
        }
    }

    /// Waits for the result of an exchange.
    fn checked(&mut self) -> Result<Checked, Failure> {
        match self.report()? {
            Report::Checked(checked) => Ok(checked),
            other => Err(unexpected(&other)),
        }
    }

    fn report(&mut self) -> Result<Report, Failure> {
        let line = self.reports.next();
        line.ok_or("a client exited; its error precedes")??.parse()
    }
}

fn unexpected(report: &Report) -> Failure {
    format!("expected another report of a client, found {report}").into()
}

#[cfg(test)]
mod tests;
