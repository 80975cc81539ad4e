//! Warnings about existing Pods that violate a stricter policy.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use super::evaluation::evaluate;
use super::level::LevelVersion;
use super::pod::PodView;
use crate::kinds::object::OwnerReference;

/// Maximum number of Pods that are checked after a policy change (upstream's `defaultNamespaceMaxPodsToCheck`).
pub const EXISTING_PODS_MAX: usize = 3_000;

/// View of a Pod for the selection of the Pods to check.
#[derive(Deserialize)]
struct Summary {
    metadata: SummaryMetadata,
    spec: SummarySpec,
}

/// Fields of the metadata of a Pod that the summary of a namespace depends on.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SummaryMetadata {
    name: String,
    #[serde(default)]
    owner_references: Vec<OwnerReference>,
}

/// Fields of the spec of a Pod that the summary of a namespace depends on.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SummarySpec {
    #[serde(default)]
    runtime_class_name: String,
}

/// Pods that violate a policy for the same reasons.
struct Violators {
    /// Name of the first Pod, alphabetically.
    name: String,
    count: usize,
}

/// Checks stored Pods (JSON) against the new enforce level of their Namespace. Returns upstream's warnings.
///
/// One Pod of each controller is checked first. The check ends after [`EXISTING_PODS_MAX`] Pods, or when
/// `is_out_of_time` returns true. The warnings contain the number of checked Pods in that case.
pub fn existing_pod_warnings<'a>(
    namespace: &str,
    enforce: LevelVersion,
    pods: impl Iterator<Item = &'a [u8]>,
    is_exempt: impl Fn(&str) -> bool,
    mut is_out_of_time: impl FnMut() -> bool,
) -> Vec<String> {
    let pods = prioritized_pods(pods, is_exempt);
    let mut violators: BTreeMap<String, Violators> = BTreeMap::new();
    let mut checked = 0;
    for (name, bytes) in pods.iter().take(EXISTING_PODS_MAX) {
        // Stored Pods are valid JSON. A malformed one is treated as an empty Pod.
        let pod: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let evaluation = evaluate(enforce, &PodView::new(&pod));
        checked += 1;
        if !evaluation.is_allowed() {
            violators
                .entry(evaluation.reasons())
                .and_modify(|violators| violators.add(name))
                .or_insert_with(|| Violators::first(name));
        }
        if is_out_of_time() {
            break;
        }
    }
    let mut warnings = Vec::new();
    if checked < pods.len() {
        let all = pods.len();
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {all} existing pods"
        ));
    }
    if !violators.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{enforce}\""
        ));
    }
    let mut texts: Vec<String> = violators
        .iter()
        .map(|(reasons, violators)| violators.warning(reasons))
        .collect();
    texts.sort();
    warnings.append(&mut texts);
    warnings
}

impl Violators {
    fn first(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            count: 1,
        }
    }

    fn add(&mut self, name: &str) {
        self.count += 1;
        if name < self.name.as_str() {
            name.clone_into(&mut self.name);
        }
    }

    fn warning(&self, reasons: &str) -> String {
        let name = &self.name;
        match self.count - 1 {
            0 => format!("{name}: {reasons}"),
            1 => format!("{name} (and 1 other pod): {reasons}"),
            others => format!("{name} (and {others} other pods): {reasons}"),
        }
    }
}

/// Returns the Pods whose RuntimeClass is not exempt: Pods without a controller and one Pod of each controller first.
fn prioritized_pods<'a>(
    pods: impl Iterator<Item = &'a [u8]>,
    is_exempt: impl Fn(&str) -> bool,
) -> Vec<(String, &'a [u8])> {
    let mut first = Vec::new();
    let mut duplicates = Vec::new();
    let mut controllers = HashSet::new();
    for bytes in pods {
        let Ok(pod) = serde_json::from_slice::<Summary>(bytes) else {
            continue;
        };
        if is_exempt(&pod.spec.runtime_class_name) {
            continue;
        }
        let owners = &pod.metadata.owner_references;
        let controller = owners.iter().find(|owner| owner.controller == Some(true));
        let is_new = controller.is_none_or(|controller| controllers.insert(controller.uid.clone()));
        if is_new {
            first.push((pod.metadata.name, bytes));
        } else {
            duplicates.push((pod.metadata.name, bytes));
        }
    }
    first.append(&mut duplicates);
    first
}
