//! Label and field selectors of lists and watches.
//!
//! # Example
//!
//! ```
//! use api::selector::LabelSelector;
//! use serde_json::json;
//!
//! let selector = LabelSelector::parse("app=web,env in (prod, staging),!legacy")?;
//! let pod = json!({"metadata": {"labels": {"app": "web", "env": "prod"}}});
//! assert!(selector.matches_object(&pod));
//! assert_eq!(selector.to_string(), "app=web,env in (prod,staging),!legacy");
//! # Ok::<(), api::selector::SelectorError>(())
//! ```

mod fields;
mod labels;
mod object;
mod parser;

pub use fields::{FieldSelector, FieldTerm};
pub use labels::{LabelSelector, Operator, Requirement};
pub use object::format_object;

use thiserror::Error;

/// Failure to parse a selector, with upstream's message. The response is 400 `BadRequest`; a retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SelectorError(String);

#[cfg(test)]
mod tests;
