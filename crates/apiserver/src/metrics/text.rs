//! The text format.

use std::fmt::{Display, Write as _};

/// A text that grows.
#[derive(Default)]
pub(crate) struct Text {
    out: String,
}

impl Text {
    /// The lines above the values of a metric; `kind` is its type.
    pub(crate) fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail, here and below; the results say nothing.
        write!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}\n").ok();
    }

    /// One value; `labels` without braces, "" for none.
    pub(crate) fn value(&mut self, name: &str, labels: &str, value: impl Display) {
        match labels {
            "" => writeln!(self.out, "{name} {value}").ok(),
            labels => writeln!(self.out, "{name}{{{labels}}} {value}").ok(),
        };
    }

    /// A histogram: how many values are at most as large as each bound, all of them, and their sum.
    pub(crate) fn histogram(
        &mut self,
        name: &str,
        labels: &str,
        buckets: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut so_far = 0;
        for (bound, in_bucket) in buckets {
            so_far += in_bucket;
            self.value(
                &format!("{name}_bucket"),
                &format!("{labels}{comma}le=\"{bound}\""),
                so_far,
            );
        }
        self.value(
            &format!("{name}_bucket"),
            &format!("{labels}{comma}le=\"+Inf\""),
            count,
        );
        self.value(&format!("{name}_sum"), labels, sum);
        self.value(&format!("{name}_count"), labels, count);
    }

    /// The whole text.
    pub(crate) fn finish(self) -> String {
        self.out
    }
}
