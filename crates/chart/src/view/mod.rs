//! The view of a cluster: rows of Services and nodes, their changes, and the past hour. The module performs no I/O and
//! has no clock.
//!
//! - [`rows`], [`detail`], [`traffic`]: results, as the page reads them
//! - [`objects`]: Services, EndpointSlices, Nodes and Pods with their indexes
//! - `service_row`, `node_row`, [`frontends`], [`endpoints`], [`findings`]: computation of one row
//! - [`model`]: rows at a revision; a change of an object computes the rows of the Services that it concerns
//! - [`history`]: earlier states as differences
//! - [`offline`]: a model of objects that do not change

pub mod detail;
pub mod endpoints;
pub mod findings;
pub mod frontends;
pub mod history;
pub mod model;
mod node_row;
pub mod objects;
pub mod offline;
pub mod rows;
mod service_row;
pub mod traffic;

/// Returns the beginning of a text with at most `bytes` bytes.
pub(crate) fn truncate(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests;
