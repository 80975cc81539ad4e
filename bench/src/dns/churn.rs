//! Whether answers are right while endpoints change: each is compared with what had been written by then.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use clap::Args;
use client::Client;
use futures_util::future::join_all;

use super::asking::{A_CODE_OK, Answer, Window, connect, question, wire};
use super::history::History;
use super::visible::{headless, replace};
use super::{Place, wait_for_answer};
use crate::Failure;
use crate::world;

/// Writes under way at the same time.
const WRITERS: usize = 16;
/// First of the addresses whose number is the version of their slice; 2 million follow.
const VERSIONS: Ipv4Addr = Ipv4Addr::new(10, 64, 0, 0);

/// Flags of `bench dns churn`.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Headless Services whose endpoints change
    #[arg(long, default_value_t = 100)]
    changing: usize,
    /// Changes a second, over all of them
    #[arg(long, default_value_t = 500)]
    changes: u32,
    /// Milliseconds after the API has answered a write from which an older answer is wrong
    #[arg(long, default_value_t = 1_000, value_name = "MILLISECONDS")]
    stale_after: u64,
}

/// Runs the case.
pub fn run(flags: &Flags, place: &Place<'_>) -> Result<(), Failure> {
    let histories: Vec<History> = (0..flags.changing.max(1)).map(|_| History::default()).collect();
    place.setting.with_api(async || {
        let client = place.setting.client()?;
        for (number, history) in histories.iter().enumerate() {
            let service = service_name(number);
            world::post(&client, &headless(&service)).await?;
            let version = history.begin();
            world::post(&client, &world::slice(&service, &addresses(version))).await?;
            history.written(version);
        }
        Ok(())
    })?;
    let last = dns_name(histories.len() - 1);
    place.node()?.enter(|| wait_for_answer(place.listen, &last))??;
    let end = Instant::now() + place.duration;
    let (written, asked) = std::thread::scope(|scope| {
        let write = scope.spawn(|| {
            place
                .setting
                .with_api(async || write_all(flags, place, &histories, end).await)
        });
        let ask = ask(flags, place, &histories, end);
        (write.join(), ask)
    });
    let written = written.map_err(|_| "the writer failed")??;
    let (answered, oldest) = asked?;
    println!(
        "{written} changes ({:.0}/s), {answered} answers ({:.0}/s), none wrong; the oldest was out of date for {:.2} ms",
        written as f64 / place.duration.as_secs_f64(),
        answered as f64 / place.duration.as_secs_f64(),
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

/// The endpoints of a slice in a version: some that stay, and one that tells the version.
fn addresses(version: usize) -> Vec<IpAddr> {
    let told = u32::from(VERSIONS) + u32::try_from(version).unwrap_or(u32::MAX >> 1);
    (0..4)
        .map(world::nobody)
        .chain([IpAddr::V4(Ipv4Addr::from(told))])
        .collect()
}

/// The version that an answer has; nothing if it is not one version as it was written.
fn version_of(answer: &Answer) -> Option<usize> {
    let mut found: Vec<IpAddr> = answer.addresses.iter().copied().map(IpAddr::V4).collect();
    found.sort_unstable();
    let IpAddr::V4(told) = *found.last()? else {
        return None;
    };
    let version = usize::try_from(u32::from(told).checked_sub(u32::from(VERSIONS))?).ok()?;
    (answer.code == A_CODE_OK && found == addresses(version)).then_some(version)
}

/// Changes the slices at the rate of the flags; the number of changes.
async fn write_all(
    flags: &Flags,
    place: &Place<'_>,
    histories: &[History],
    end: Instant,
) -> Result<u64, Failure> {
    let writers = WRITERS.min(histories.len());
    let interval = Duration::from_secs(1) * u32::try_from(writers)? / flags.changes.max(1);
    let clients = (0..writers)
        .map(|_| place.setting.client())
        .collect::<Result<Vec<_>, _>>()?;
    let writing = clients.iter().enumerate().map(|(writer, client)| {
        // Each slice has one writer, so its versions come one after the other.
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

/// Asks for all of them by turns; the number of answers and for how long the oldest was out of date.
fn ask(
    flags: &Flags,
    place: &Place<'_>,
    histories: &[History],
    end: Instant,
) -> Result<(u64, Duration), Failure> {
    let bound = Duration::from_millis(flags.stale_after);
    let mut window = Window::new(place.node()?.enter(|| connect(place.listen))??);
    let mut oldest = Duration::ZERO;
    let mut next = 0;
    let asked = RefCell::new(HashMap::new());
    let answered = window.run(
        end,
        |place, id| {
            next = (next + 1) % histories.len();
            asked.borrow_mut().insert(place, next);
            question(id, &dns_name(next))
        },
        |place, sent, answer| {
            let number = asked.borrow().get(&place).copied().unwrap_or_default();
            if answer.name != wire(&dns_name(number)) {
                return Ok(()); // late: its place has another question by now
            }
            let version = version_of(answer)
                .ok_or_else(|| format!("{} was never {:?}", dns_name(number), answer.addresses))?;
            let age = histories[number]
                .age(sent, |known| known == version)
                .ok_or("a version that was never written")?;
            oldest = oldest.max(age);
            match age <= bound {
                true => Ok(()),
                false => Err(format!("{} was out of date for {age:?}", dns_name(number)).into()),
            }
        },
    )?;
    Ok((answered, oldest))
}
