//! Latency at a fixed rate below the capacity of the server.

use std::time::{Duration, Instant};

use clap::Args;

use super::queries::{RCODE_NO_ERROR, Response, connect, query};
use super::{Context, cluster_names};
use crate::Failure;
use crate::percentiles::Percentiles;

/// Flags of `bench dns paced`.
#[derive(Clone, Debug, Args)]
pub(super) struct Flags {
    /// Queries per second
    #[arg(long, default_value_t = 20_000)]
    rate: u32,
}

/// Runs the case. The latency of a query counts from the time when it was due. So it includes the wait for a stalled
/// server.
pub(super) fn run(flags: &Flags, context: &Context<'_>) -> Result<(), Failure> {
    let names = cluster_names(context)?;
    let socket = context.node()?.enter(|| connect(context.listen))??;
    socket.set_nonblocking(true)?;
    let interval = Duration::from_secs(1) / flags.rate.max(1);
    let started = Instant::now();
    let mut due = vec![None; usize::from(u16::MAX) + 1];
    let (mut sent, mut latencies) = (0_u32, Vec::new());
    let mut buffer = [0; 4_096];
    let end = context.duration + Duration::from_millis(500);
    while started.elapsed() < end {
        let next = interval * sent;
        if next < context.duration && started.elapsed() >= next {
            let id = (sent & 0xFFFF) as u16;
            match socket.send(&query(id, &names[sent as usize % names.len()])) {
                Ok(_) => {
                    due[usize::from(id)] = Some(next);
                    sent += 1;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        while let Ok(length) = socket.recv(&mut buffer) {
            let response = Response::parse(&buffer[..length]).ok_or("malformed response")?;
            if response.rcode != RCODE_NO_ERROR || response.addresses.len() != 1 {
                return Err("wrong response".into());
            }
            if let Some(due) = due[usize::from(response.id)].take() {
                latencies.push(started.elapsed() - due);
            }
        }
    }
    let answered = latencies.len();
    let latencies = Percentiles::of(latencies).ok_or("no measurement")?;
    println!(
        "{} queries per second, {sent} sent, {answered} answered: p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms",
        flags.rate,
        latencies.milliseconds(50),
        latencies.milliseconds(99),
        latencies.milliseconds(100),
    );
    Ok(())
}
