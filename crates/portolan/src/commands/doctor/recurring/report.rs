//! Metrics of repeated examinations.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use explain::{Code, Finding, Severity};
use telemetry::{MetricType, MetricsText};

/// Examinations since the start, and the findings of the latest one.
#[derive(Debug, Default)]
pub(super) struct Examinations {
    succeeded: u64,
    failed: u64,
    latest: Option<LatestExamination>,
}

/// Latest examination that succeeded.
#[derive(Debug)]
struct LatestExamination {
    findings: BTreeMap<(Code, Severity), u64>,
    duration: Duration,
    unix_seconds: u64,
}

impl Examinations {
    /// Records an examination with its findings, or a failed one.
    pub(super) fn record(&mut self, findings: Option<&[Finding]>, duration: Duration) {
        let Some(findings) = findings else {
            self.failed += 1;
            return;
        };
        self.succeeded += 1;
        let mut counts = BTreeMap::new();
        for finding in findings {
            *counts.entry((finding.code, finding.severity)).or_default() += 1;
        }
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.latest = Some(LatestExamination {
            findings: counts,
            duration,
            unix_seconds: since_epoch.as_secs(),
        });
    }

    /// Returns the metrics in the Prometheus text format.
    pub(super) fn render(&self) -> String {
        let mut text = MetricsText::default();
        let name = "portolan_doctor_examinations_total";
        text.family(
            name,
            MetricType::Counter,
            "Number of examinations of the cluster by result.",
        );
        text.sample(name, "result=\"success\"", self.succeeded);
        text.sample(name, "result=\"error\"", self.failed);
        if let Some(latest) = &self.latest {
            let name = "portolan_doctor_findings";
            text.family(
                name,
                MetricType::Gauge,
                "Number of findings of the latest examination by code and severity.",
            );
            for ((code, severity), count) in &latest.findings {
                let labels = format!("code=\"{code}\",severity=\"{}\"", severity.as_str());
                text.sample(name, &labels, count);
            }
            text.single(
                "portolan_doctor_last_examination_timestamp_seconds",
                MetricType::Gauge,
                "End of the latest examination in seconds since the Unix epoch.",
                latest.unix_seconds,
            );
            text.single(
                "portolan_doctor_last_examination_duration_seconds",
                MetricType::Gauge,
                "Duration of the latest examination in seconds, including the reads from the API server.",
                latest.duration.as_secs_f64(),
            );
        }
        telemetry::write_process(&mut text);
        text.finish()
    }
}

#[cfg(test)]
mod tests;
