//! Comparison of two builds, or of two sets of flags: every figure of a benchmark as ratio of medians, with the spread
//! over the rounds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;

use crate::Failure;

#[cfg(test)]
mod tests;

/// Flags of `bench compare`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Path of `bench` of the other build, with `portolan` in the same directory; this build by default
    #[arg(long, value_name = "FILE")]
    other_build: Option<PathBuf>,
    /// Flag of the benchmark in runs of this build only, such as --this-flag=--endpoints=1; repeatable
    #[arg(long = "this-flag", value_name = "FLAG")]
    this_flags: Vec<String>,
    /// Flag of the benchmark in runs of the other build only; repeatable
    #[arg(long = "other-flag", value_name = "FLAG")]
    other_flags: Vec<String>,
    /// Number of rounds; each runs both builds, in alternating order
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Benchmark with its flags
    #[arg(last = true, required = true)]
    benchmark: Vec<String>,
}

/// A figure: the printed line without its numbers, and the position of a number in it.
type Figure = (String, usize);

/// Values of one figure, in the order of the rounds.
#[derive(Debug, Default, PartialEq)]
struct Values {
    this: Vec<f64>,
    other: Vec<f64>,
}

impl Flags {
    /// Arguments of a run: the benchmark, and the flags of one side.
    fn arguments(&self, is_other: bool) -> impl Iterator<Item = &String> {
        let own = if is_other {
            &self.other_flags
        } else {
            &self.this_flags
        };
        self.benchmark.iter().chain(own)
    }
}

/// Runs the benchmark with both builds alternately and prints the figures. Standard error gets the lines of each run.
///
/// # Errors
/// A build does not start, or a run fails.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let this = std::env::current_exe()?;
    let other = flags.other_build.as_ref().unwrap_or(&this);
    let mut figures = BTreeMap::<Figure, Values>::new();
    for round in 0..flags.rounds.max(1) {
        let is_other_first = round % 2 == 1;
        for is_other in [is_other_first, !is_other_first] {
            let program = if is_other { other } else { &this };
            let output = output_of(program, flags.arguments(is_other))?;
            eprint!("{}:\n{output}", if is_other { "other" } else { "this" });
            for (figure, value) in output.lines().flat_map(figures_of) {
                let values = figures.entry(figure).or_default();
                let series = if is_other {
                    &mut values.other
                } else {
                    &mut values.this
                };
                series.push(value);
            }
        }
        eprintln!("round {} of {}", round + 1, flags.rounds.max(1));
    }
    println!("this / other: ratio of medians (lowest - highest ratio of a round)");
    for ((line, position), values) in &figures {
        if let Some(row) = row(values) {
            println!("{row} | {}", mark(line, *position));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn output_of<'a>(program: &Path, arguments: impl Iterator<Item = &'a String>) -> Result<String, Failure> {
    let output = Command::new(program)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{} exited: {}", program.display(), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Numbers of a line. A number is a word of its own, optionally followed by a unit.
fn figures_of(line: &str) -> Vec<(Figure, f64)> {
    let mut label = String::new();
    let mut values = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find(|character: char| character.is_ascii_digit()) {
        let is_word_start = rest[..start]
            .chars()
            .next_back()
            .is_none_or(|before| !before.is_alphanumeric());
        let length = rest[start..]
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len() - start);
        let number = rest[start..start + length].trim_end_matches('.');
        label.push_str(&rest[..start]);
        match number.parse() {
            Ok(value) if is_word_start => {
                values.push(value);
                label.push('#');
            }
            _ => label.push_str(number),
        }
        rest = &rest[start + number.len()..];
    }
    label.push_str(rest);
    let numbered = values.into_iter().enumerate();
    numbered
        .map(|(position, value)| ((label.clone(), position), value))
        .collect()
}

/// The line, with brackets around the number at a position.
fn mark(line: &str, position: usize) -> String {
    let mut number = 0;
    let marked = line.chars().map(|character| {
        if character != '#' {
            return character.to_string();
        }
        number += 1;
        if number == position + 1 { "[#]" } else { "#" }.to_owned()
    });
    marked.collect()
}

/// Row of a figure; `None` if it is the same in each run, such as a flag of the benchmark, or missing in one build.
fn row(values: &Values) -> Option<String> {
    let (this, other) = (median(&values.this)?, median(&values.other)?);
    let all = values.this.iter().chain(&values.other);
    let is_constant = all.clone().all(|value| Some(value) == all.clone().next());
    if is_constant || other == 0.0 {
        return None;
    }
    let ratios = values
        .this
        .iter()
        .zip(&values.other)
        .map(|(this, other)| this / other);
    let lowest = ratios.clone().fold(f64::INFINITY, f64::min);
    let highest = ratios.fold(f64::NEG_INFINITY, f64::max);
    Some(format!(
        "{this:10.2} / {other:10.2}: {:.3} ({lowest:.2} - {highest:.2})",
        this / other
    ))
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return sorted.get(middle).copied();
    }
    let lower = sorted.get(middle.checked_sub(1)?)?;
    Some((lower + sorted.get(middle)?) / 2.0)
}
