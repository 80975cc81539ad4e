//! Lookups of the members of a large headless Service while all are replaced.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};

use super::history::History;
use super::queries::{RCODE_NO_ERROR, Response, Window, connect, encode_name, query};
use super::visible::headless;
use super::{Context, wait_for_address};
use crate::Failure;
use crate::fixtures;

/// Name of the Service.
const SERVICE: &str = "rolling";
/// Endpoints per EndpointSlice, as the controller writes them.
const SLICE_ENDPOINTS: usize = 100;
/// Steps of a replacement: not ready, removed, added with another address, ready.
const STEPS: usize = 4;
/// First of the addresses; the upper bits after it encode the generation, the lower ones the member.
const ADDRESSES: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);
/// Number of bits that encode the member.
const MEMBER_BITS: u32 = 16;
/// Maximum length of a message over TCP.
const MESSAGE_BYTES_MAX: usize = 65_535;

/// Flags of `bench dns rolling`.
#[derive(Clone, Debug, Args)]
pub(super) struct Flags {
    /// Number of members of the Service
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=1 << MEMBER_BITS))]
    members: u32,
    /// Time after a write in milliseconds from which older responses are wrong
    #[arg(long, default_value_t = 1_000, value_name = "MILLISECONDS")]
    stale_after: u64,
}

/// Results of lookups.
#[derive(Default)]
struct LookupCounts {
    lookups: u64,
    /// Number of lookups of members that did not change.
    of_stable: u64,
    wrong: u64,
    oldest: Duration,
}

/// Runs the case.
pub(super) fn run(flags: &Flags, context: &Context<'_>) -> Result<(), Failure> {
    let histories: Vec<History> = (0..flags.members).map(|_| History::default()).collect();
    context
        .environment
        .with_api(async || create(context, &histories).await)?;
    context
        .node()?
        .enter(|| wait_for_address(context.listen, &member_name(histories.len() - 1)))??;
    let (end, is_over) = (Instant::now() + context.duration, AtomicBool::new(false));
    let bound = Duration::from_millis(flags.stale_after);
    let (written, by_name, whole) = std::thread::scope(|scope| {
        let write = scope.spawn(|| {
            let written = context
                .environment
                .with_api(async || roll(context, &histories, end).await);
            is_over.store(true, Ordering::Release);
            written
        });
        let whole = scope.spawn(|| query_all(context, &histories, bound, &is_over));
        let by_name = query_by_name(context, &histories, bound, &is_over);
        (write.join(), by_name, whole.join())
    });
    let written = written.map_err(|_| "the writer panicked")??;
    let (by_name, (sets, whole)) = (by_name?, whole.map_err(|_| "the TCP client panicked")??);
    println!(
        "{} members, {written} writes ({:.0}/s), {} members replaced",
        flags.members,
        written as f64 / context.duration.as_secs_f64(),
        written / STEPS as u64,
    );
    println!(
        "{} lookups by name, {} of members that were ready and stayed so: {} failed or wrong; the oldest was out of \
         date for {:.2} ms",
        by_name.lookups,
        by_name.of_stable,
        by_name.wrong,
        by_name.oldest.as_secs_f64() * 1e3,
    );
    println!(
        "{sets} answers with the whole set over TCP, {} addresses: {} wrong; the oldest was out of date for {:.2} ms",
        whole.lookups,
        whole.wrong,
        whole.oldest.as_secs_f64() * 1e3,
    );
    if by_name.wrong + whole.wrong > 0 {
        return Err("failed or wrong lookups".into());
    }
    Ok(())
}

fn member_name(number: usize) -> String {
    format!("db-{number}.{SERVICE}.default.svc.cluster.local")
}

/// Address of a member after a number of steps.
fn address(number: usize, step: usize) -> Ipv4Addr {
    // The next generation starts with the third step.
    let generation = step.div_ceil(STEPS) as u32 - u32::from(matches!(step % STEPS, 1 | 2));
    Ipv4Addr::from(u32::from(ADDRESSES) + (generation << MEMBER_BITS) + number as u32)
}

/// Endpoint of a member after a number of steps, if there is one.
fn endpoint(number: usize, step: usize) -> Option<Value> {
    (step % STEPS != 2).then(|| {
        json!({"addresses": [address(number, step)], "hostname": format!("db-{number}"),
               "conditions": {"ready": step.is_multiple_of(STEPS)}, "nodeName": "elsewhere"})
    })
}

/// Result of a lookup after a number of steps.
fn found_after(number: usize, step: usize) -> Option<Ipv4Addr> {
    step.is_multiple_of(STEPS).then(|| address(number, step))
}

/// Endpoints of an EndpointSlice, for the steps of its members.
fn endpoints(slice: usize, steps: &[usize]) -> Vec<Value> {
    let first = slice * SLICE_ENDPOINTS;
    let members = (first..steps.len()).take(SLICE_ENDPOINTS);
    members
        .filter_map(|number| endpoint(number, steps[number]))
        .collect()
}

async fn create(context: &Context<'_>, histories: &[History]) -> Result<(), Failure> {
    let client = context.environment.client()?;
    let mut service = headless(SERVICE);
    service["metadata"]["name"] = SERVICE.into();
    fixtures::post(&client, &service).await?;
    let steps = vec![0; histories.len()];
    let begun: Vec<usize> = histories.iter().map(History::begin).collect();
    for slice in 0..histories.len().div_ceil(SLICE_ENDPOINTS) {
        let mut object = fixtures::slice(SERVICE, &[]);
        object["metadata"]["name"] = slice_name(slice).into();
        object["endpoints"] = endpoints(slice, &steps).into();
        fixtures::post(&client, &object).await?;
    }
    for (history, version) in histories.iter().zip(begun) {
        history.written(version);
    }
    Ok(())
}

fn slice_name(slice: usize) -> String {
    format!("{SERVICE}-{slice}")
}

/// Replaces members in the order of a StatefulSet, from the last. Returns the number of writes.
async fn roll(context: &Context<'_>, histories: &[History], end: Instant) -> Result<u64, Failure> {
    let client = context.environment.client()?;
    let mut steps = vec![0; histories.len()];
    let mut written = 0;
    for number in (0..histories.len()).rev().cycle() {
        for _ in 0..STEPS {
            let version = histories[number].begin();
            steps[number] = version;
            let slice = number / SLICE_ENDPOINTS;
            write(&client, slice, &endpoints(slice, &steps)).await?;
            histories[number].written(version);
            written += 1;
        }
        if Instant::now() > end {
            break;
        }
    }
    Ok(written)
}

async fn write(client: &Client, slice: usize, endpoints: &[Value]) -> Result<(), Failure> {
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{}",
        slice_name(slice)
    );
    let body = json!({"endpoints": endpoints});
    client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&body))
        .await?;
    Ok(())
}

impl LookupCounts {
    /// Adds the result of a lookup of a member.
    fn count(
        &mut self,
        history: &History,
        number: usize,
        found: Option<Ipv4Addr>,
        sent: Instant,
        bound: Duration,
    ) {
        self.lookups += 1;
        match history.age(sent, |step| found_after(number, step) == found) {
            Some(age) if age <= bound => self.oldest = self.oldest.max(age),
            _ => self.wrong += 1,
        }
    }
}

/// Looks up all members by name, in turn.
fn query_by_name(
    context: &Context<'_>,
    histories: &[History],
    bound: Duration,
    is_over: &AtomicBool,
) -> Result<LookupCounts, Failure> {
    const PART: Duration = Duration::from_millis(100);
    let mut window = Window::new(context.node()?.enter(|| connect(context.listen))??);
    let mut tally = LookupCounts::default();
    let mut next = 0;
    let queried = RefCell::new(vec![0; usize::from(u16::MAX) + 1]);
    while !is_over.load(Ordering::Acquire) {
        window.run(
            Instant::now() + PART,
            |slot, id| {
                next = (next + 1) % histories.len();
                queried.borrow_mut()[slot] = next;
                query(id, &member_name(next))
            },
            |slot, sent, response| {
                let number = queried.borrow()[slot];
                if response.name != encode_name(&member_name(number)) {
                    return Ok(()); // The response is late: its slot has another query.
                }
                let found = response.addresses.first().copied();
                let is_consistent = response.addresses.len() == usize::from(response.rcode == RCODE_NO_ERROR);
                tally.of_stable += u64::from(histories[number].is_stable(sent, bound));
                tally.wrong += u64::from(!is_consistent);
                tally.count(&histories[number], number, found, sent, bound);
                Ok(())
            },
        )?;
    }
    Ok(tally)
}

/// Queries the whole set over TCP repeatedly; every address must be that of a ready member. Returns the
/// number of responses, and the results of their addresses.
fn query_all(
    context: &Context<'_>,
    histories: &[History],
    bound: Duration,
    is_over: &AtomicBool,
) -> Result<(u64, LookupCounts), Failure> {
    let mut stream = context.node()?.enter(|| TcpStream::connect(context.listen))??;
    let query = query(1, &format!("{SERVICE}.default.svc.cluster.local"));
    let framed = [&u16::try_from(query.len())?.to_be_bytes(), query.as_slice()].concat();
    let (mut sets, mut tally) = (0, LookupCounts::default());
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    while !is_over.load(Ordering::Acquire) {
        let sent = Instant::now();
        stream.write_all(&framed)?;
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let message = &mut buffer[..usize::from(u16::from_be_bytes(length))];
        stream.read_exact(message)?;
        let response = Response::parse(message).ok_or("malformed response")?;
        sets += 1;
        // Stable members may be missing only if the message is full.
        let is_full = message.len() + 16 > MESSAGE_BYTES_MAX - 64;
        let at_least = histories
            .iter()
            .filter(|history| history.is_stable(sent, bound))
            .count();
        tally.wrong += u64::from(!is_full && response.addresses.len() < at_least);
        for address in response.addresses {
            let number = (u32::from(address) & ((1 << MEMBER_BITS) - 1)) as usize;
            match histories.get(number) {
                Some(history) => tally.count(history, number, Some(address), sent, bound),
                None => tally.wrong += 1,
            }
        }
    }
    Ok((sets, tally))
}
