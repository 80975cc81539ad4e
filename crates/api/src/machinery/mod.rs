//! Formats and operations that are the same for all kinds. Two tables determine their work: [`schema`], the OpenAPI
//! definitions of the kinds, and [`crate::kinds::kind`], the list of the served kinds.
//!
//! - Input: [`decode`] reads JSON, YAML and [`protobuf`] into a tree; [`patch`] and [`apply`] change a stored tree.
//! - Output: [`encode`] writes the stored form, [`table`] the columns of kubectl, [`discovery`] and [`openapi`] the
//!   documents that describe the API.
//! - Selection: [`selector`] matches labels and fields.
//! - Parts of all rules: [`tree`] reads and changes fields, `empty_values` omits empty ones, and [`field`] has the errors.
//!   [`metadata`], [`names`], [`ip`] and [`resource_amount`] check common values, and [`hash`] computes the hashes in derived names.

pub mod apply;
pub mod decode;
pub mod discovery;
pub(crate) mod empty_values;
pub mod encode;
pub mod field;
pub mod hash;
pub mod ip;
pub mod metadata;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod resource_amount;
pub mod schema;
pub mod selector;
pub mod table;
pub mod tree;
