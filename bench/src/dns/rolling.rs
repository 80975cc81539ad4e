//! Whether each ready member of a large headless Service has its name while all of them are replaced.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};

use super::asking::{A_CODE_OK, Answer, Window, connect, question, wire};
use super::history::History;
use super::visible::headless;
use super::{Place, wait_for_answer};
use crate::Failure;
use crate::world;

/// The Service.
const SERVICE: &str = "rolling";
/// Endpoints of a slice, as the controller writes them.
const SLICE_ENDPOINTS: usize = 100;
/// Steps in which a member is replaced: not ready, gone, there again with another address, ready.
const STEPS: usize = 4;
/// First of the addresses: the upper bits behind it tell the generation, the lower ones the member.
const ADDRESSES: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);
/// Bits that tell the member.
const MEMBER_BITS: u32 = 16;
/// Octets of the longest message.
const MESSAGE_OCTETS_MAX: usize = 65_535;

/// Flags of `bench dns rolling`.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Members of the Service
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=1 << MEMBER_BITS))]
    members: u32,
    /// Milliseconds after the API has answered a write from which an older answer is wrong
    #[arg(long, default_value_t = 1_000, value_name = "MILLISECONDS")]
    stale_after: u64,
}

/// What was found.
#[derive(Default)]
struct Tally {
    lookups: u64,
    /// Of these, those of members that nothing was happening to.
    of_settled: u64,
    wrong: u64,
    oldest: Duration,
}

/// Runs the case.
pub fn run(flags: &Flags, place: &Place<'_>) -> Result<(), Failure> {
    let histories: Vec<History> = (0..flags.members).map(|_| History::default()).collect();
    place.setting.with_api(async || create(place, &histories).await)?;
    place
        .node()?
        .enter(|| wait_for_answer(place.listen, &member_name(histories.len() - 1)))??;
    let (end, is_over) = (Instant::now() + place.duration, AtomicBool::new(false));
    let bound = Duration::from_millis(flags.stale_after);
    let (written, by_name, whole) = std::thread::scope(|scope| {
        let write = scope.spawn(|| {
            let written = place
                .setting
                .with_api(async || roll(place, &histories, end).await);
            is_over.store(true, Ordering::Release);
            written
        });
        let whole = scope.spawn(|| ask_for_all(place, &histories, bound, &is_over));
        let by_name = ask_by_name(place, &histories, bound, &is_over);
        (write.join(), by_name, whole.join())
    });
    let written = written.map_err(|_| "the writer failed")??;
    let (by_name, (sets, whole)) = (by_name?, whole.map_err(|_| "asking over TCP failed")??);
    println!(
        "{} members, {written} writes ({:.0}/s), {} members replaced",
        flags.members,
        written as f64 / place.duration.as_secs_f64(),
        written / STEPS as u64,
    );
    println!(
        "{} lookups by name, {} of members that were ready and stayed so: {} failed or wrong; the oldest was out of \
         date for {:.2} ms",
        by_name.lookups,
        by_name.of_settled,
        by_name.wrong,
        by_name.oldest.as_secs_f64() * 1e3,
    );
    println!(
        "{sets} answers with the whole set over TCP, {} addresses: {} wrong; the oldest was out of date for {:.2} ms",
        whole.lookups,
        whole.wrong,
        whole.oldest.as_secs_f64() * 1e3,
    );
    match by_name.wrong + whole.wrong {
        0 => Ok(()),
        _ => Err("lookups failed or were wrong".into()),
    }
}

fn member_name(number: usize) -> String {
    format!("db-{number}.{SERVICE}.default.svc.cluster.local")
}

/// The address of a member after so many steps.
fn address(number: usize, step: usize) -> Ipv4Addr {
    // One more in the last step but one, when the next generation is there.
    let generation = step.div_ceil(STEPS) as u32 - u32::from(matches!(step % STEPS, 1 | 2));
    Ipv4Addr::from(u32::from(ADDRESSES) + (generation << MEMBER_BITS) + number as u32)
}

/// The endpoint of a member after so many steps, if there is one.
fn endpoint(number: usize, step: usize) -> Option<Value> {
    (step % STEPS != 2).then(|| {
        json!({"addresses": [address(number, step)], "hostname": format!("db-{number}"),
               "conditions": {"ready": step.is_multiple_of(STEPS)}, "nodeName": "elsewhere"})
    })
}

/// What a lookup after so many steps finds.
fn found_after(number: usize, step: usize) -> Option<Ipv4Addr> {
    step.is_multiple_of(STEPS).then(|| address(number, step))
}

/// The endpoints of a slice, whose members have come so far.
fn endpoints(slice: usize, steps: &[usize]) -> Vec<Value> {
    let first = slice * SLICE_ENDPOINTS;
    let members = (first..steps.len()).take(SLICE_ENDPOINTS);
    members
        .filter_map(|number| endpoint(number, steps[number]))
        .collect()
}

async fn create(place: &Place<'_>, histories: &[History]) -> Result<(), Failure> {
    let client = place.setting.client()?;
    let mut service = headless(SERVICE);
    service["metadata"]["name"] = SERVICE.into();
    world::post(&client, &service).await?;
    let steps = vec![0; histories.len()];
    let begun: Vec<usize> = histories.iter().map(History::begin).collect();
    for slice in 0..histories.len().div_ceil(SLICE_ENDPOINTS) {
        let mut object = world::slice(SERVICE, &[]);
        object["metadata"]["name"] = slice_name(slice).into();
        object["endpoints"] = endpoints(slice, &steps).into();
        world::post(&client, &object).await?;
    }
    for (history, version) in histories.iter().zip(begun) {
        history.written(version);
    }
    Ok(())
}

fn slice_name(slice: usize) -> String {
    format!("{SERVICE}-{slice}")
}

/// Replaces one member after the other, the last first as a StatefulSet does; the number of writes.
async fn roll(place: &Place<'_>, histories: &[History], end: Instant) -> Result<u64, Failure> {
    let client = place.setting.client()?;
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

impl Tally {
    /// Counts what was found for a member by a question that was sent at some time.
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

/// Looks all members up by their names, by turns.
fn ask_by_name(
    place: &Place<'_>,
    histories: &[History],
    bound: Duration,
    is_over: &AtomicBool,
) -> Result<Tally, Failure> {
    const PART: Duration = Duration::from_millis(100);
    let mut window = Window::new(place.node()?.enter(|| connect(place.listen))??);
    let mut tally = Tally::default();
    let mut next = 0;
    let asked = RefCell::new(vec![0; usize::from(u16::MAX) + 1]);
    while !is_over.load(Ordering::Acquire) {
        window.run(
            Instant::now() + PART,
            |place, id| {
                next = (next + 1) % histories.len();
                asked.borrow_mut()[place] = next;
                question(id, &member_name(next))
            },
            |place, sent, answer| {
                let number = asked.borrow()[place];
                if answer.name != wire(&member_name(number)) {
                    return Ok(()); // late: its place has another question by now
                }
                let found = answer.addresses.first().copied();
                let is_consistent = answer.addresses.len() == usize::from(answer.code == A_CODE_OK);
                tally.of_settled += u64::from(histories[number].is_settled(sent, bound));
                tally.wrong += u64::from(!is_consistent);
                tally.count(&histories[number], number, found, sent, bound);
                Ok(())
            },
        )?;
    }
    Ok(tally)
}

/// Asks for the whole set over TCP, again and again: every address must be that of a ready member. The number of
/// answers, and what their addresses were.
fn ask_for_all(
    place: &Place<'_>,
    histories: &[History],
    bound: Duration,
    is_over: &AtomicBool,
) -> Result<(u64, Tally), Failure> {
    let mut stream = place.node()?.enter(|| TcpStream::connect(place.listen))??;
    let message = question(1, &format!("{SERVICE}.default.svc.cluster.local"));
    let framed = [&u16::try_from(message.len())?.to_be_bytes(), message.as_slice()].concat();
    let (mut sets, mut tally) = (0, Tally::default());
    let mut buffer = vec![0; MESSAGE_OCTETS_MAX];
    while !is_over.load(Ordering::Acquire) {
        let sent = Instant::now();
        stream.write_all(&framed)?;
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let room = &mut buffer[..usize::from(u16::from_be_bytes(length))];
        stream.read_exact(room)?;
        let answer = Answer::read(room).ok_or("a malformed answer")?;
        sets += 1;
        // Members that are settled are missing only if the message is full.
        let is_full = room.len() + 16 > MESSAGE_OCTETS_MAX - 64;
        let at_least = histories
            .iter()
            .filter(|history| history.is_settled(sent, bound))
            .count();
        tally.wrong += u64::from(!is_full && answer.addresses.len() < at_least);
        for address in answer.addresses {
            let number = (u32::from(address) & ((1 << MEMBER_BITS) - 1)) as usize;
            match histories.get(number) {
                Some(history) => tally.count(history, number, Some(address), sent, bound),
                None => tally.wrong += 1,
            }
        }
    }
    Ok((sets, tally))
}
