//! Check of the baseline level: the Pod does not mount directories of the node.

use super::messages::{join_quoted, plural};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{is_set, items, text};

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let violating: Vec<&str> = items(pod.spec, "volumes")
        .iter()
        .filter(|volume| is_set(volume, "hostPath"))
        .map(|volume| text(volume, "name"))
        .collect();
    if violating.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {}",
        plural("volume", "volumes", violating.len()),
        join_quoted(&violating)
    );
    Violation::new("hostPath volumes", detail)
}
