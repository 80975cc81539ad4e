//! Whether answers stay right while the API server is killed, is away, and comes back.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use super::asking::{A_CODE_OK, Answer, Window, connect, question, wire};
use super::{Place, cluster_names, wait_for_answer};
use crate::Failure;
use crate::percentiles::Percentiles;
use crate::world;

/// How long questions go on once everything is over.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// Flags of `bench dns restart`.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// How often the API server is killed
    #[arg(long, default_value_t = 3)]
    times: u32,
    /// Seconds for which it is away
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    away: u64,
}

/// Runs the case: what each name has does not change, so every answer is compared with the first one.
pub fn run(flags: &Flags, place: &mut Place<'_>) -> Result<(), Failure> {
    let names = cluster_names(place)?;
    let known = first_answers(place, &names)?;
    let window = Window::new(place.node()?.enter(|| connect(place.listen))??);
    let memory_before = place.server.resident_mib()?;
    let is_over = AtomicBool::new(false);
    let (restarted, asked) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(window, &names, &known, &is_over));
        let restarted = restart_all(flags, place);
        is_over.store(true, Ordering::Release);
        (restarted, asking.join())
    });
    let (memory_max, visible) = restarted?;
    let (answered, wrong) = asked.map_err(|_| "asking failed")??;
    let visible = Percentiles::of(visible).ok_or("--times=0 leaves nothing to measure")?;
    println!(
        "{} restarts, {} s away each: {answered} answers, {wrong} wrong; a Service written once the API answers is \
         known after {:.0} ms at most",
        flags.times,
        flags.away,
        visible.milliseconds(100),
    );
    println!("resident memory: {memory_before:.1} MiB before, {memory_max:.1} MiB at most");
    match wrong {
        0 => Ok(()),
        _ => Err("answers were wrong".into()),
    }
}

/// What every name has before anything happens.
fn first_answers(place: &Place<'_>, names: &[String]) -> Result<Vec<Ipv4Addr>, Failure> {
    let socket = place.node()?.enter(|| connect(place.listen))??;
    let mut buffer = [0; 4_096];
    let mut known = Vec::with_capacity(names.len());
    for name in names {
        socket.send(&question(0, name))?;
        let length = socket.recv(&mut buffer)?;
        let answer = Answer::read(&buffer[..length]).ok_or("a malformed answer")?;
        known.push(*answer.addresses.first().ok_or("a name without an address")?);
    }
    Ok(known)
}

/// Kills the API server and brings it back, again and again; the largest memory of the DNS server, and how long it
/// took each time until it knew a Service that was written afterwards.
fn restart_all(flags: &Flags, place: &mut Place<'_>) -> Result<(f64, Vec<Duration>), Failure> {
    let mut memory_max = 0.0_f64;
    let mut visible = Vec::new();
    for time in 0..flags.times {
        place.setting.end_api()?;
        let back = Instant::now() + Duration::from_secs(flags.away);
        while Instant::now() < back {
            memory_max = memory_max.max(place.server.resident_mib()?);
            std::thread::sleep(Duration::from_millis(100));
        }
        place.setting.resume_api()?;
        let name = format!("after-{time}");
        let written = Instant::now();
        place.setting.with_api(async || {
            world::post(&place.setting.client()?, &world::service(&name)).await?;
            Ok(())
        })?;
        let name = format!("{name}.default.svc.cluster.local");
        place.node()?.enter(|| wait_for_answer(place.listen, &name))??;
        visible.push(written.elapsed());
        memory_max = memory_max.max(place.server.resident_mib()?);
    }
    std::thread::sleep(AFTERWARDS);
    Ok((memory_max.max(place.server.resident_mib()?), visible))
}

/// Asks for all names by turns until it is over; the number of answers, and of wrong ones.
fn ask(
    mut window: Window,
    names: &[String],
    known: &[Ipv4Addr],
    is_over: &AtomicBool,
) -> Result<(u64, u64), Failure> {
    const PART: Duration = Duration::from_millis(100);
    let (mut answered, mut wrong, mut next) = (0, 0, 0);
    let mut asked = vec![0; usize::from(u16::MAX) + 1];
    let asked = std::cell::RefCell::new(&mut asked);
    while !is_over.load(Ordering::Acquire) {
        answered += window.run(
            Instant::now() + PART,
            |place, id| {
                next = (next + 1) % names.len();
                asked.borrow_mut()[place] = next;
                question(id, &names[next])
            },
            |place, _, answer| {
                let number = asked.borrow()[place];
                let is_late = answer.name != wire(&names[number]);
                let is_right = answer.code == A_CODE_OK && answer.addresses == [known[number]];
                wrong += u64::from(!is_late && !is_right);
                Ok(())
            },
        )?;
    }
    Ok((answered, wrong))
}
