//! Handlers: the verbs on objects, discovery documents, reviews, health, and requests that are proxied to Pods.

pub(crate) mod call;
pub(crate) mod discovery;
pub(crate) mod handler;
mod health;
pub(crate) mod page;
pub(crate) mod printing;
pub(crate) mod proxy;
pub(crate) mod resource;
mod reviews;
