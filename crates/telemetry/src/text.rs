//! The Prometheus text format, version 0.0.4.

use std::fmt::{Display, Write};

use crate::Histogram;

/// Content type of the format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Type of a metric family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// A value that only grows.
    Counter,
    /// A value that grows and shrinks.
    Gauge,
    /// Counts of observations in buckets, and their sum.
    Histogram,
}

impl MetricType {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A text in the Prometheus format that is being written.
///
/// Labels are passed as the format has them, without braces: `a="b",c="d"`; an empty string for no labels.
#[derive(Debug, Default)]
pub struct MetricsText(String);

impl MetricsText {
    /// Begins a family; its samples follow. `help` is one line without backslashes.
    ///
    /// For a metric of upstream, `help` is upstream's text without its stability level: upstream's promise of stability
    /// is not ours to repeat.
    pub fn family(&mut self, name: &str, metric_type: MetricType, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {}", metric_type.name()));
    }

    /// Writes one sample of the current family.
    pub fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
        } else {
            self.line(format_args!("{name}{{{labels}}} {value}"));
        }
    }

    /// Writes a family with one sample without labels.
    pub fn single(&mut self, name: &str, metric_type: MetricType, help: &str, value: impl Display) {
        self.family(name, metric_type, help);
        self.sample(name, "", value);
    }

    /// Writes the buckets, sum and count of a histogram.
    pub fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        self.buckets(
            name,
            labels,
            histogram.bounds(),
            &histogram.counts(),
            histogram.sum(),
        );
    }

    /// Writes a histogram from its parts. `counts` holds observations per bucket, not cumulative, with one
    /// more entry than `bounds` for the bucket without an upper bound.
    pub fn buckets(&mut self, name: &str, labels: &str, bounds: &[f64], counts: &[u64], sum: f64) {
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

    /// Returns the text.
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
