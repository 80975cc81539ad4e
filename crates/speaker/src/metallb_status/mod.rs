//! Status objects of MetalLB that the speaker of a node writes: a ServiceBGPStatus for each announced Service, and a
//! ConfigurationState. Names, labels and fields are MetalLB's (LBM-16).
//!
//! | Module | Contents |
//! |---|---|
//! | `objects` | desired objects, and differences to the present ones; no clock, no I/O |
//! | `writer` | task that writes them, if the API server has the kinds |

mod objects;
mod writer;

use std::collections::{BTreeMap, BTreeSet};

use api::object::ObjectKey;

pub(crate) use writer::StatusWriter;

/// State of a node that the objects report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedNode {
    /// Name of the Node.
    pub(crate) node: String,
    /// UID of the Node, which owns the objects; empty while it is unknown.
    pub(crate) node_uid: String,
    /// Announced Services, and the names of their peers.
    pub(crate) services: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// Reasons why objects of MetalLB are ignored.
    pub(crate) faults: Vec<String>,
}
