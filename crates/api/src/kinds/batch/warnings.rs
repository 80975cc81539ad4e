//! Warnings about Jobs (upstream's `pkg/api/job/warnings.go`).

use serde_json::Value;

use crate::kinds::apps;
use crate::machinery::tree::{child, number, text};

/// Completions of an Indexed Job above which `parallelism` has a soft limit.
const COMPLETIONS_SOFT_MAX: i64 = 100_000;
/// Soft limit of `parallelism` of an Indexed Job with more than [`COMPLETIONS_SOFT_MAX`] completions.
const PARALLELISM_SOFT_MAX: i64 = 10_000;

/// Returns the warnings about a new Job.
pub fn job_creation_warnings(job: &Value) -> Vec<String> {
    let mut warnings = apps::workload_creation_warnings(job);
    warnings.extend(size_warning(job));
    warnings
}

/// Returns the warnings about a changed Job. As upstream, only a change of the desired state causes them.
pub fn job_update_warnings(new: &Value, old: &Value) -> Vec<String> {
    let mut warnings = apps::workload_update_warnings(new, old);
    let generation = |job| number(child(job, "metadata"), "generation");
    if generation(new) != generation(old) {
        warnings.extend(size_warning(new));
    }
    warnings
}

fn size_warning(job: &Value) -> Option<String> {
    let spec = child(job, "spec");
    let is_large = text(spec, "completionMode") == "Indexed"
        && number(spec, "completions") > COMPLETIONS_SOFT_MAX
        && number(spec, "parallelism") > PARALLELISM_SOFT_MAX;
    is_large.then(|| {
        "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes \
         might not be able to track completedIndexes when a big number of indexes fail"
            .to_owned()
    })
}
