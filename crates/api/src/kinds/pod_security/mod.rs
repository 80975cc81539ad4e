//! Pod Security Standards: levels, the checks of each level, and the policy in the labels of a Namespace.
//!
//! Rules, versions and messages are those of `k8s.io/pod-security-admission` in Kubernetes 1.36. All functions are
//! pure; admission in the API server applies them to requests.
//!
//! # Example
//!
//! ```
//! use api::pod_security::{Level, LevelVersion, PodView, Version, evaluate};
//! use serde_json::json;
//!
//! let policy = LevelVersion { level: Level::Baseline, version: Version::Latest };
//! let pod = json!({"spec": {"hostNetwork": true, "containers": [{"name": "a"}]}});
//! let evaluation = evaluate(policy, &PodView::new(&pod));
//! assert_eq!(evaluation.details(), "host namespaces (hostNetwork=true)");
//! ```

mod checks;
mod configuration;
mod evaluation;
mod level;
mod namespace;
mod pod;
mod policy;
mod update;

pub use configuration::{Configuration, ConfigurationError, Exemptions};
pub use evaluation::{Evaluation, Violation, evaluate};
pub use level::{Level, LevelVersion, Version};
pub use namespace::{EXISTING_PODS_MAX, existing_pod_warnings};
pub use pod::PodView;
pub use policy::{Policy, policy_of_labels};
pub use update::is_significant_update;

/// Prefix of Namespace labels and audit annotations.
pub const PREFIX: &str = "pod-security.kubernetes.io/";

#[cfg(test)]
mod tests;
