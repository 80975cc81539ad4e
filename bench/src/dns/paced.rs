//! Latency at a rate that does not fill the server.

use std::time::{Duration, Instant};

use clap::Args;

use super::asking::{A_CODE_OK, Answer, connect, question};
use super::{Place, cluster_names};
use crate::Failure;
use crate::percentiles::Percentiles;

/// Flags of `bench dns paced`.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Questions a second
    #[arg(long, default_value_t = 20_000)]
    rate: u32,
}

/// Runs the case. Each question is sent when it is due; its time counts from then, so that a server that stands still
/// is not spared the questions which waited.
pub fn run(flags: &Flags, place: &Place<'_>) -> Result<(), Failure> {
    let names = cluster_names(place)?;
    let socket = place.node()?.enter(|| connect(place.listen))??;
    socket.set_nonblocking(true)?;
    let interval = Duration::from_secs(1) / flags.rate.max(1);
    let started = Instant::now();
    let mut due = vec![None; usize::from(u16::MAX) + 1];
    let (mut sent, mut latencies) = (0_u32, Vec::new());
    let mut buffer = [0; 4_096];
    let last_answers = place.duration + Duration::from_millis(500);
    while started.elapsed() < last_answers {
        let next = interval * sent;
        if next < place.duration && started.elapsed() >= next {
            let id = (sent & 0xFFFF) as u16;
            match socket.send(&question(id, &names[sent as usize % names.len()])) {
                Ok(_) => {
                    due[usize::from(id)] = Some(next);
                    sent += 1;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        while let Ok(length) = socket.recv(&mut buffer) {
            let answer = Answer::read(&buffer[..length]).ok_or("a malformed answer")?;
            if answer.code != A_CODE_OK || answer.addresses.len() != 1 {
                return Err("a wrong answer".into());
            }
            if let Some(due) = due[usize::from(answer.id)].take() {
                latencies.push(started.elapsed() - due);
            }
        }
    }
    let answered = latencies.len();
    let latencies = Percentiles::of(latencies).ok_or("nothing was answered")?;
    println!(
        "{} questions a second, {sent} asked, {answered} answered: p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms",
        flags.rate,
        latencies.milliseconds(50),
        latencies.milliseconds(99),
        latencies.milliseconds(100),
    );
    Ok(())
}
