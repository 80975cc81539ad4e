//! Findings: causes of Services that do not respond, derived from API objects and observations of nodes. The crate
//! performs no I/O.
//!
//! A [`World`] holds the objects of a cluster, or a part of them. [`examine`] applies the rules and returns the
//! [`Finding`]s, ordered by severity, then by code. Each rule has a stable [`Code`], a file in `rules`, and a Markdown
//! file with its documentation. A rule reports nothing if it depends on a kind of object that is absent from the world.
//!
//! - `views`: objects as the rules read them; invalid fields read as absent
//! - [`observation`]: the state of nodes, alongside the objects
//! - [`World`]: the objects with their indexes
//! - `rule`, `rules`: one file for each finding; `facts`: facts that several rules derive
//! - `examination`: order of the findings, and suppression of consequences
//! - [`trace`]: the path of a connection to its endpoints
//! - [`traffic`]: connections, rates, bytes and failures of Services
//!
//! ```
//! use explain::{Options, Scope, World, examine};
//! use serde_json::json;
//!
//! let mut world = World::builder();
//! world.add(json!({"apiVersion": "v1", "kind": "List", "items": [
//!     {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "default", "name": "web"},
//!      "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
//!     {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "web-1",
//!      "labels": {"run": "web"}}}]}));
//! let findings = examine(&world.build(), &Scope::All, &Options::default());
//! assert_eq!(findings[0].code.to_string(), "PTL-0002");
//! ```

mod documentation;
mod examination;
mod facts;
mod finding;
mod kind;
mod kubectl;
mod object;
pub mod observation;
mod rule;
mod rules;
mod subject;
pub mod trace;
pub mod traffic;
mod views;
mod world;

pub use documentation::{Documentation, documentation, documentation_of, page};
pub use examination::{
    ClusterFindings, Options, Scope, ServiceFindings, examine, examine_cluster, examine_services,
};
pub use finding::{Code, Finding, InvalidCode, ObjectName, Severity};
pub use kind::Kind;
pub use observation::NodeObservation;
pub use world::{World, WorldBuilder};
