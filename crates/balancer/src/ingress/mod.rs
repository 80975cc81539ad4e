//! Ingresses: their hosts, paths and certificates at the edge, and the objects of a class.
//!
//! | Module | Contents |
//! |---|---|
//! | [`class_plan`] | hosts of a class with their owners, routes and Secrets, as a pure function of its Ingresses |
//! | [`class_service`] | Service of a class, which has the addresses |
//! | `controller` | state machine: the Service of each class, and the status of Ingresses |
//! | `run` | watches and writes of the controller |

pub mod class_plan;
pub mod class_service;
mod controller;
mod run;

pub use run::run;

/// Annotation of an Ingress: `"false"` serves its hosts with TLS without TLS, too.
pub const SSL_REDIRECT_ANNOTATION: &str = "ingress.portolan.dev/ssl-redirect";
