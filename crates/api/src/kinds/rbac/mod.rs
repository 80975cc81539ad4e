//! Roles and bindings: defaults, validation, and evaluation of rules.
//!
//! # Example
//!
//! ```
//! use api::rbac::{Action, PolicyRule};
//!
//! let rule = PolicyRule {
//!     verbs: vec!["get".to_owned()],
//!     api_groups: vec![String::new()],
//!     resources: vec!["pods/log".to_owned()],
//!     ..PolicyRule::default()
//! };
//! let pod = |subresource| Action::Resource { verb: "get", group: "", resource: "pods", subresource, name: "web-1" };
//! assert!(rule.allows(&pod("log")));
//! assert!(!rule.allows(&pod("")));
//! ```

mod binding;
mod cover;
mod role;
mod rule;

pub use binding::{
    default_binding_on_write, validate_cluster_role_binding, validate_cluster_role_binding_update,
    validate_role_binding, validate_role_binding_update,
};
pub use cover::{compact, uncovered_rights};
pub use role::{
    default_role_on_write, validate_cluster_role, validate_cluster_role_update, validate_role,
    validate_role_update,
};
pub use rule::{Action, PolicyRule};

/// API group of the kinds of this module, and of roles and subjects in bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

#[cfg(test)]
mod tests;
