//! Rounds in which proxies are measured alternately. The speed of a host changes within seconds. Therefore
//! measurements are short and many, their order changes from round to round, and figures compare measurements
//! of the same round.

use std::thread::sleep;
use std::time::Duration;

use super::Proxy;
use crate::Failure;

/// Pause between two measurements, in which the first one's sockets close.
const PAUSE: Duration = Duration::from_millis(10);

/// Number of rounds and duration of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    pub count: usize,
    pub duration: Duration,
}

/// Results of a proxy, in the order of the rounds.
struct Outcome {
    name: &'static str,
    rates: Vec<f64>,
    cpu: Duration,
    /// Operations in all rounds.
    amount: f64,
}

impl Outcome {
    /// Mean rate of all rounds.
    fn rate(&self) -> f64 {
        self.rates.iter().sum::<f64>() / self.rates.len().max(1) as f64
    }

    /// CPU time of an operation in microseconds.
    fn cpu_per_operation(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.amount.max(1.0)
    }
}

/// Measures `work`, which returns a rate per second, with each proxy in each round. The order rotates and turns around, so
/// that no proxy always follows the same one. The others are compared with the first, haproxy. A third one, another
/// build, is compared with the second, too.
pub(super) fn alternate(
    rounds: Rounds,
    proxies: &[Proxy],
    (subject, unit): (&str, &str),
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
    // A round that does not count warms caches and lets buffers grow.
    for proxy in proxies {
        work(proxy, rounds.duration)?;
    }
    for round in 0..rounds.count {
        for offset in 0..proxies.len() {
            let position = match round % 2 {
                0 => offset,
                _ => proxies.len() - 1 - offset,
            };
            let number = (round / 2 + position) % proxies.len();
            let (Some(proxy), Some(outcome)) = (proxies.get(number), outcomes.get_mut(number)) else {
                continue;
            };
            sleep(PAUSE);
            let cpu = proxy.process.cpu()?;
            let rate = work(proxy, rounds.duration)?;
            outcome.cpu += proxy.process.cpu()? - cpu;
            outcome.rates.push(rate);
            outcome.amount += rate * rounds.duration.as_secs_f64();
        }
    }
    let (haproxy, others) = outcomes.split_first().ok_or("no proxy")?;
    for other in others {
        compare((subject, unit), other, haproxy);
    }
    if let [this, former] = others {
        compare((subject, unit), this, former);
    }
    Ok(())
}

/// Prints the figures of two proxies.
fn compare((subject, unit): (&str, &str), one: &Outcome, other: &Outcome) {
    let ratios: Vec<f64> = one
        .rates
        .iter()
        .zip(&other.rates)
        .map(|(one, other)| one / other)
        .collect();
    let less = ratios.iter().filter(|ratio| **ratio < 1.0).count();
    println!(
        "{subject}: {} {:.2} {unit}, {} {:.2} {unit}: {:.2} x; per round median {:.2} x, p10 {:.2} x, below 1 x in {less} of {}; CPU of the proxy per operation: {:.2} us and {:.2} us, \
         {:.2} x",
        one.name,
        one.rate(),
        other.name,
        other.rate(),
        one.rate() / other.rate(),
        quantile(&ratios, 0.5),
        quantile(&ratios, 0.1),
        ratios.len(),
        one.cpu_per_operation(),
        other.cpu_per_operation(),
        one.cpu_per_operation() / other.cpu_per_operation(),
    );
}

/// Quantile of values.
fn quantile(values: &[f64], quantile: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let index = (sorted.len() as f64 * quantile) as usize;
    sorted.get(index).copied().unwrap_or_default()
}
