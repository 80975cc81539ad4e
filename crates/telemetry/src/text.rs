//! The Prometheus text format, version 0.0.4.

use std::fmt::{Display, Write};

use crate::Histogram;

/// Content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How the values of a metric are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// They only grow.
    Counter,
    /// They go up and down.
    Gauge,
    /// They are in buckets.
    Histogram,
}

/// Metrics being written.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// Begins a metric: its samples follow.
    pub fn family(&mut self, name: &str, counted: Counted) {
        let counted = match counted {
            Counted::Counter => "counter",
            Counted::Gauge => "gauge",
            Counted::Histogram => "histogram",
        };
        self.line(format_args!("# TYPE {name} {counted}"));
    }

    /// Writes one value. Labels are written as the format has them, without braces; "" for none.
    pub fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
        } else {
            self.line(format_args!("{name}{{{labels}}} {value}"));
        }
    }

    /// Writes a histogram's buckets, sum and count. `counts` has one more than `bounds`: what is above all of
    /// them.
    pub fn histogram(&mut self, name: &str, labels: &str, bounds: &[f64], counts: &[u64], sum: f64) {
        let comma = if labels.is_empty() { "" } else { "," };
        let bounds = bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        let mut total = 0;
        for (bound, count) in bounds.zip(counts) {
            total += count;
            self.line(format_args!(
                "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {total}"
            ));
        }
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, total);
    }

    /// Writes a histogram.
    pub fn observations(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let (bounds, counts) = (histogram.bounds(), histogram.counts());
        self.histogram(name, labels, bounds, counts, histogram.sum());
    }

    /// All that was written.
    pub fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        self.0.write_fmt(arguments).unwrap_or_default();
        self.0.push('\n');
    }
}

#[cfg(test)]
mod tests;
