//! Selection of the Pod updates that are checked.

use std::collections::HashMap;

use serde_json::Value;

use super::pod::PodView;
use crate::machinery::tree::{items, text};

const SECCOMP_POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// Returns true if an update changes anything that a check depends on (upstream's `isSignificantPodUpdate`):
/// containers, their images, and seccomp annotations. Other relevant fields are immutable. Pods that violate
/// a policy that was set later can therefore still receive labels or a deadline.
pub fn is_significant_update(new: &Value, old: &Value) -> bool {
    let (new, old) = (PodView::new(new), PodView::new(old));
    let (after, before) = (new.annotations(), old.annotations());
    let differs = |key: &str| text(after, key) != text(before, key);
    let changes = |now: &Value, then: &Value| {
        text(now, "image") != text(then, "image")
            || differs(&format!("{SECCOMP_CONTAINER_PREFIX}{}", text(now, "name")))
    };
    if differs(SECCOMP_POD_ANNOTATION) {
        return true;
    }
    for list in ["containers", "initContainers"] {
        let (now, then) = (items(new.spec, list), items(old.spec, list));
        if now.len() != then.len() || now.iter().zip(then).any(|(now, then)| changes(now, then)) {
            return true;
        }
    }
    let earlier = items(old.spec, "ephemeralContainers").iter();
    let earlier: HashMap<&str, &Value> = earlier
        .map(|container| (text(container, "name"), container))
        .collect();
    items(new.spec, "ephemeralContainers").iter().any(|now| {
        let same = earlier.get(text(now, "name")).copied();
        same.is_none_or(|then| changes(now, then))
    })
}
