//! Correctness of responses while the API server is down and after it returns.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use super::queries::{RCODE_NO_ERROR, Response, Window, connect, encode_name, query};
use super::{Context, cluster_names, wait_for_address};
use crate::Failure;
use crate::fixtures;
use crate::percentiles::Percentiles;

/// Duration of the queries after the last restart.
const FINAL_QUERIES: Duration = Duration::from_secs(2);

/// Flags of `bench dns restart`.
#[derive(Clone, Debug, Args)]
pub(super) struct Flags {
    /// Number of times the API server is killed
    #[arg(long, default_value_t = 3)]
    times: u32,
    /// Downtime of the API server in seconds
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    away: u64,
}

/// Runs the case. Addresses do not change, so every response is compared with the first one.
pub(super) fn run(flags: &Flags, context: &mut Context<'_>) -> Result<(), Failure> {
    let names = cluster_names(context)?;
    let expected = first_addresses(context, &names)?;
    let window = Window::new(context.node()?.enter(|| connect(context.listen))??);
    let memory_before = context.server.resident_mib()?;
    let is_over = AtomicBool::new(false);
    let (restarted, queried) = std::thread::scope(|scope| {
        let queries = scope.spawn(|| run_queries(window, &names, &expected, &is_over));
        let restarted = restart_all(flags, context);
        is_over.store(true, Ordering::Release);
        (restarted, queries.join())
    });
    let (memory_max, visible) = restarted?;
    let (answered, wrong) = queried.map_err(|_| "the client panicked")??;
    let visible = Percentiles::of(visible).ok_or("--times=0 leaves nothing to measure")?;
    println!(
        "{} restarts, {} s away each: {answered} answers, {wrong} wrong; a Service written once the API answers is \
         known after {:.0} ms at most",
        flags.times,
        flags.away,
        visible.milliseconds(100),
    );
    println!("resident memory: {memory_before:.1} MiB before, {memory_max:.1} MiB at most");
    if wrong > 0 {
        return Err("wrong responses".into());
    }
    Ok(())
}

/// Addresses of all names before the first restart.
fn first_addresses(context: &Context<'_>, names: &[String]) -> Result<Vec<Ipv4Addr>, Failure> {
    let socket = context.node()?.enter(|| connect(context.listen))??;
    let mut buffer = [0; 4_096];
    let mut addresses = Vec::with_capacity(names.len());
    for name in names {
        socket.send(&query(0, name))?;
        let length = socket.recv(&mut buffer)?;
        let response = Response::parse(&buffer[..length]).ok_or("malformed response")?;
        addresses.push(*response.addresses.first().ok_or("name without an address")?);
    }
    Ok(addresses)
}

/// Kills and restarts the API server repeatedly. Returns the peak memory of the DNS server, and the time
/// until it served a Service that was created after each restart.
fn restart_all(flags: &Flags, context: &mut Context<'_>) -> Result<(f64, Vec<Duration>), Failure> {
    let mut memory_max = 0.0_f64;
    let mut visible = Vec::new();
    for time in 0..flags.times {
        context.environment.kill_api()?;
        let back = Instant::now() + Duration::from_secs(flags.away);
        while Instant::now() < back {
            memory_max = memory_max.max(context.server.resident_mib()?);
            std::thread::sleep(Duration::from_millis(100));
        }
        context.environment.resume_api()?;
        let name = format!("after-{time}");
        let written = Instant::now();
        context.environment.with_api(async || {
            fixtures::post(&context.environment.client()?, &fixtures::service(&name)).await?;
            Ok(())
        })?;
        let name = format!("{name}.default.svc.cluster.local");
        context
            .node()?
            .enter(|| wait_for_address(context.listen, &name))??;
        visible.push(written.elapsed());
        memory_max = memory_max.max(context.server.resident_mib()?);
    }
    std::thread::sleep(FINAL_QUERIES);
    Ok((memory_max.max(context.server.resident_mib()?), visible))
}

/// Queries all names in turn until `is_over`. Returns the number of responses and of wrong ones.
fn run_queries(
    mut window: Window,
    names: &[String],
    expected: &[Ipv4Addr],
    is_over: &AtomicBool,
) -> Result<(u64, u64), Failure> {
    const PART: Duration = Duration::from_millis(100);
    let (mut answered, mut wrong, mut next) = (0, 0, 0);
    let mut queried = vec![0; usize::from(u16::MAX) + 1];
    let queried = std::cell::RefCell::new(&mut queried);
    while !is_over.load(Ordering::Acquire) {
        answered += window.run(
            Instant::now() + PART,
            |slot, id| {
                next = (next + 1) % names.len();
                queried.borrow_mut()[slot] = next;
                query(id, &names[next])
            },
            |slot, _, response| {
                let number = queried.borrow()[slot];
                let is_late = response.name != encode_name(&names[number]);
                let is_right = response.rcode == RCODE_NO_ERROR && response.addresses == [expected[number]];
                wrong += u64::from(!is_late && !is_right);
                Ok(())
            },
        )?;
    }
    Ok((answered, wrong))
}
