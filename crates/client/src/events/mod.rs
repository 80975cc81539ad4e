//! Kubernetes Events (core/v1): a recorder that aggregates and limits them as client-go's, and their contents.
//!
//! A component that reconciles waits for [`EventRecorder::record`]. A component that must not wait uses an
//! [`EventQueue`].

mod contents;
mod correlator;
mod recorder;

pub use contents::{EventBatch, EventText, ObjectReference, api_version};
pub use recorder::{EventQueue, EventRecorder};
