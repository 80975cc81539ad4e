//! Columns of `kubectl get jobs`.

use jiff::Timestamp;
use serde_json::Value;

use super::apps::wide_cells;
use super::{AGE, Layout, NAME, age, column, human_duration, name, wide};
use crate::machinery::tree::{child, is_set, items, number, text};

pub(super) static JOB: Layout = Layout {
    columns: &[
        NAME,
        column("Status", "State of the Job."),
        column("Completions", "Number of succeeded Pods and desired completions."),
        column("Duration", "Time from the start to the completion."),
        AGE,
        wide("Containers", "Container names."),
        wide("Images", "Container images."),
        wide("Selector", "Label selector of the Pods."),
    ],
    cells: |job, now| {
        let (spec, status) = (child(job, "spec"), child(job, "status"));
        let mut cells = vec![
            name(job),
            state(job).into(),
            completions(spec, status).into(),
            duration(status, now).into(),
            age::of(job, now),
        ];
        cells.extend(wide_cells(spec));
        cells
    },
};

fn state(job: &Value) -> &'static str {
    let conditions = items(child(job, "status"), "conditions");
    let has = |kind: &str| {
        let mut conditions = conditions.iter();
        conditions.any(|condition| text(condition, "type") == kind && text(condition, "status") == "True")
    };
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if is_set(child(job, "metadata"), "deletionTimestamp") {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(spec: &Value, status: &Value) -> String {
    let succeeded = number(status, "succeeded");
    if is_set(spec, "completions") {
        return format!("{succeeded}/{}", number(spec, "completions"));
    }
    match number(spec, "parallelism") {
        parallelism @ 2.. => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    }
}

fn duration(status: &Value, now: Timestamp) -> String {
    let time = |field| text(status, field).parse::<Timestamp>().ok();
    let Some(start) = time("startTime") else {
        return String::new();
    };
    human_duration(time("completionTime").unwrap_or(now).duration_since(start))
}
