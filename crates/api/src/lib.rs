//! The pure core of the Kubernetes API: kinds, defaults, validation, patches, selectors and printing. No sockets, clock
//! or runtime.
//!
//! The crate has two modules. `machinery` holds formats and operations that are the same for all kinds. `kinds` holds the
//! list of kinds, the rules of each, and the views that components read. The root re-exports the modules of both.
//!
//! An object is stored as its JSON tree ([`serde_json::Value`]). [`decode`] shapes the text of a client by the
//! [`schema`]; later steps keep every field. The structs in [`object`] are views that read only the fields in use.
//!
//! ```
//! use api::service::{default_on_write, validate};
//! use serde_json::json;
//!
//! let mut service = json!({
//!     "apiVersion": "v1",
//!     "kind": "Service",
//!     "metadata": {"namespace": "default", "name": "search"},
//!     "spec": {"type": "ExternalName", "externalName": "search.example.com"},
//! });
//! default_on_write(&mut service);
//! assert_eq!(service["spec"]["sessionAffinity"], "None");
//! assert!(validate(&service).is_empty());
//!
//! service["spec"]["externalName"] = json!("-");
//! assert_eq!(validate(&service)[0].path.as_str(), "spec.externalName");
//! ```

mod kinds;
mod machinery;

pub use kinds::{
    address_pool, announcers, apps, batch, bootstrap_token, certificates, configuration, edge_secret,
    endpoints, event, ingress, kind, lease, multicluster, network, object, pod, pod_security, rbac,
    resource_metrics, scale, service,
};
pub use machinery::{
    apply, decode, discovery, encode, field, hash, ip, metadata, names, openapi, patch, protobuf,
    resource_amount, schema, selector, table, tree,
};
