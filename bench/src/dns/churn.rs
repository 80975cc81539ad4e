//! Correctness of responses while endpoints change: each is compared with the writes before it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use clap::Args;
use client::Client;
use futures_util::future::join_all;

use super::history::History;
use super::queries::{RCODE_NO_ERROR, Response, Window, connect, encode_name, query};
use super::visible::{headless, replace};
use super::{Context, wait_for_address};
use crate::Failure;
use crate::fixtures;

/// Number of concurrent writers.
const WRITERS: usize = 16;
/// First of the addresses that encode the version of an EndpointSlice.
const VERSIONS: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);

/// Flags of `bench dns churn`.
#[derive(Clone, Debug, Args)]
pub(super) struct Flags {
    /// Number of headless Services
    #[arg(long, default_value_t = 100)]
    changing: usize,
    /// Changes per second, of all Services
    #[arg(long, default_value_t = 500)]
    changes: u32,
    /// Time after a write in milliseconds from which older responses are wrong
    #[arg(long, default_value_t = 1_000, value_name = "MILLISECONDS")]
    stale_after: u64,
}

/// Runs the case.
pub(super) fn run(flags: &Flags, context: &Context<'_>) -> Result<(), Failure> {
    let histories: Vec<History> = (0..flags.changing.max(1)).map(|_| History::default()).collect();
    context.environment.with_api(async || {
        let client = context.environment.client()?;
        for (number, history) in histories.iter().enumerate() {
            let service = service_name(number);
            fixtures::post(&client, &headless(&service)).await?;
            let version = history.begin();
            fixtures::post(&client, &fixtures::slice(&service, &addresses(version))).await?;
            history.written(version);
        }
        Ok(())
    })?;
    let last = dns_name(histories.len() - 1);
    context
        .node()?
        .enter(|| wait_for_address(context.listen, &last))??;
    let end = Instant::now() + context.duration;
    let (written, queried) = std::thread::scope(|scope| {
        let write = scope.spawn(|| {
            context
                .environment
                .with_api(async || write_all(flags, context, &histories, end).await)
        });
        let queries = run_queries(flags, context, &histories, end);
        (write.join(), queries)
    });
    let written = written.map_err(|_| "the writer panicked")??;
    let (answered, oldest) = queried?;
    println!(
        "{written} changes ({:.0}/s), {answered} answers ({:.0}/s), none wrong; the oldest was out of date for {:.2} ms",
        written as f64 / context.duration.as_secs_f64(),
        answered as f64 / context.duration.as_secs_f64(),
        oldest.as_secs_f64() * 1e3,
    );
    Ok(())
}

fn service_name(number: usize) -> String {
    format!("changing-{number}")
}

fn dns_name(number: usize) -> String {
    format!("{}.default.svc.cluster.local", service_name(number))
}

/// Endpoints of an EndpointSlice in a version: constant ones, and one that encodes the version.
fn addresses(version: usize) -> Vec<IpAddr> {
    let encoded = u32::from(VERSIONS) + u32::try_from(version).unwrap_or(u32::MAX >> 1);
    (0..4)
        .map(fixtures::unused_address)
        .chain([IpAddr::V4(Ipv4Addr::from(encoded))])
        .collect()
}

/// Version of a response; `None` if it is not exactly one version.
fn version_of(response: &Response) -> Option<usize> {
    let mut found: Vec<IpAddr> = response.addresses.iter().copied().map(IpAddr::V4).collect();
    found.sort_unstable();
    let IpAddr::V4(encoded) = *found.last()? else {
        return None;
    };
    let version = usize::try_from(u32::from(encoded).checked_sub(u32::from(VERSIONS))?).ok()?;
    (response.rcode == RCODE_NO_ERROR && found == addresses(version)).then_some(version)
}

/// Changes EndpointSlices at the rate of the flags. Returns the number of changes.
async fn write_all(
    flags: &Flags,
    context: &Context<'_>,
    histories: &[History],
    end: Instant,
) -> Result<u64, Failure> {
    let writers = WRITERS.min(histories.len());
    let interval = Duration::from_secs(1) * u32::try_from(writers)? / flags.changes.max(1);
    let clients = (0..writers)
        .map(|_| context.environment.client())
        .collect::<Result<Vec<_>, _>>()?;
    let writing = clients.iter().enumerate().map(|(writer, client)| {
        // Each EndpointSlice has one writer, so that its versions are ordered.
        let own: Vec<usize> = (writer..histories.len()).step_by(writers).collect();
        write(client, own, histories, interval, end)
    });
    let mut total = 0;
    for written in join_all(writing).await {
        total += written?;
    }
    Ok(total)
}

async fn write(
    client: &Client,
    own: Vec<usize>,
    histories: &[History],
    interval: Duration,
    end: Instant,
) -> Result<u64, Failure> {
    let mut ticks = tokio::time::interval(interval);
    let mut written = 0;
    for number in own.into_iter().cycle() {
        ticks.tick().await;
        if Instant::now() > end {
            break;
        }
        let version = histories[number].begin();
        replace(client, &service_name(number), &addresses(version)).await?;
        histories[number].written(version);
        written += 1;
    }
    Ok(written)
}

/// Queries all Services in turn. Returns the number of responses and the age of the oldest.
fn run_queries(
    flags: &Flags,
    context: &Context<'_>,
    histories: &[History],
    end: Instant,
) -> Result<(u64, Duration), Failure> {
    let bound = Duration::from_millis(flags.stale_after);
    let mut window = Window::new(context.node()?.enter(|| connect(context.listen))??);
    let mut oldest = Duration::ZERO;
    let mut next = 0;
    let queried = RefCell::new(HashMap::new());
    let answered = window.run(
        end,
        |slot, id| {
            next = (next + 1) % histories.len();
            queried.borrow_mut().insert(slot, next);
            query(id, &dns_name(next))
        },
        |slot, sent, response| {
            let number = queried.borrow().get(&slot).copied().unwrap_or_default();
            if response.name != encode_name(&dns_name(number)) {
                return Ok(()); // The response is late: its slot has another query.
            }
            let version = version_of(response)
                .ok_or_else(|| format!("{} was never {:?}", dns_name(number), response.addresses))?;
            let age = histories[number]
                .age(sent, |written| written == version)
                .ok_or("version that was never written")?;
            oldest = oldest.max(age);
            if age > bound {
                return Err(format!("{} was out of date for {age:?}", dns_name(number)).into());
            }
            Ok(())
        },
    )?;
    Ok((answered, oldest))
}
