//! Selectors of the `labelSelector` and `fieldSelector` query parameters.

mod fields;
mod labels;
mod object;

pub use fields::{FieldSelector, FieldTerm};
pub use labels::{LabelSelector, Operator, Requirement};

use thiserror::Error;

/// Why a selector is refused. The text is the client's; the answer is 400 `BadRequest`, and sending the same again
/// does not help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SelectorError(String);

#[cfg(test)]
mod tests;
