//! The map of a cluster: Services, endpoints, nodes, traffic and findings, as a web page and as drawings.
//!
//! - [`view`]: rows, changes and the past hour; pure
//! - [`drawing`]: SVG, DOT and Mermaid of the same rows; pure
//! - [`reduction`]: removal of the parts of objects that no reader of the map may see; pure
//! - [`feed`]: caches of the API, repeated examinations, the log of changes
//! - [`server`]: the web server, its sessions and the embedded page
//!
//! ```
//! use api::object::Service;
//! use chart::view::model::Model;
//! use jiff::Timestamp;
//! use serde_json::json;
//!
//! let mut model = Model::new("production", 0);
//! model.put_service(serde_json::from_value::<Service>(json!({
//!     "metadata": {"namespace": "shop", "name": "web"},
//!     "spec": {"clusterIP": "10.96.0.5", "selector": {"app": "web"}, "ports": [{"port": 80}]}}))?);
//! let change = model.change(Timestamp::UNIX_EPOCH).expect("a change");
//! assert_eq!(change.services[0].shape.frontends[0].address, "10.96.0.5");
//! # Ok::<(), serde_json::Error>(())
//! ```

pub mod drawing;
pub mod feed;
pub mod reduction;
pub mod server;
pub mod view;
