//! Proxies that do the same by turns. The speed of a machine changes within seconds; so turns are short and many, the order
//! changes from round to round, and what is compared is mostly what was done next to each other.

use std::thread::sleep;
use std::time::Duration;

use super::Proxy;
use crate::Failure;

/// Between two turns: what one leaves to be done, such as sockets to be closed, is over before the next one begins.
const PAUSE: Duration = Duration::from_millis(10);

/// How often all have their turn, and how long each.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    pub count: usize,
    pub turn: Duration,
}

/// What a proxy reached in its turns, in the order of the rounds, and the processor time that it took.
struct Outcome {
    name: &'static str,
    rates: Vec<f64>,
    cpu: Duration,
    /// How much was done in all of them.
    amount: f64,
}

impl Outcome {
    /// How much was done a second, of all turns.
    fn rate(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len().max(1) as f64
    }

    /// Microseconds of processor time for one of what was done.
    fn cpu_each(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.amount.max(1.0)
    }
}

/// All have their turn at `work`, again and again; it returns how much was done a second. The first is haproxy, which the others
/// are compared with; a third one, another build, is compared with the second too.
pub fn by_turns(
    rounds: Rounds,
    proxies: &[Proxy],
    (what, unit): (&str, &str),
    work: impl Fn(&Proxy, Duration) -> Result<f64, Failure>,
) -> Result<(), Failure> {
    let mut outcomes: Vec<Outcome> = proxies
        .iter()
        .map(|proxy| Outcome {
            name: proxy.name,
            rates: Vec::new(),
            cpu: Duration::ZERO,
            amount: 0.0,
        })
        .collect();
    // A turn that does not count: caches are warm then, and buffers have their sizes.
    for proxy in proxies {
        work(proxy, rounds.turn)?;
    }
    for round in 0..rounds.count {
        for place in 0..proxies.len() {
            let number = (round + place) % proxies.len();
            let (Some(proxy), Some(outcome)) = (proxies.get(number), outcomes.get_mut(number)) else {
                continue;
            };
            sleep(PAUSE);
            let cpu = proxy.process.cpu()?;
            let rate = work(proxy, rounds.turn)?;
            outcome.cpu += proxy.process.cpu()? - cpu;
            outcome.rates.push(rate);
            outcome.amount += rate * rounds.turn.as_secs_f64();
        }
    }
    let (haproxy, others) = outcomes.split_first().ok_or("there is no proxy")?;
    for other in others {
        compare((what, unit), other, haproxy);
    }
    if let [this, former] = others {
        compare((what, unit), this, former);
    }
    Ok(())
}

/// Prints how two went on beside each other.
fn compare((what, unit): (&str, &str), one: &Outcome, other: &Outcome) {
    let ratios: Vec<f64> = one
        .rates
        .iter()
        .zip(&other.rates)
        .map(|(one, other)| one / other)
        .collect();
    let less = ratios.iter().filter(|ratio| **ratio < 1.0).count();
    println!(
        "{what}: {} {:.2} {unit}, {} {:.2} {unit}: {:.2} x; round by round {:.2} x in the middle, a tenth below {:.2} x, \
         less than 1 x in {less} of {}; CPU of the proxy for one: {:.2} us and {:.2} us, {:.2} x",
        one.name,
        one.rate(),
        other.name,
        other.rate(),
        one.rate() / other.rate(),
        part_below(&ratios, 0.5),
        part_below(&ratios, 0.1),
        ratios.len(),
        one.cpu_each(),
        other.cpu_each(),
        one.cpu_each() / other.cpu_each(),
    );
}

/// The value that this part of them is below.
fn part_below(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = (sorted.len() as f64 * part) as usize;
    sorted.get(place).copied().unwrap_or_default()
}
