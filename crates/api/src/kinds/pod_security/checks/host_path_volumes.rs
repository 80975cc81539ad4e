//! No directories of the node are mounted.

use super::wording::{join_quoted, plural};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{is_set, items, text};

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let bad: Vec<&str> = items(pod.spec, "volumes")
        .iter()
        .filter(|volume| is_set(volume, "hostPath"))
        .map(|volume| text(volume, "name"))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let detail = format!("{} {}", plural("volume", "volumes", bad.len()), join_quoted(&bad));
    Violation::new("hostPath volumes", detail)
}
