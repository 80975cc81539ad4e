//! Handlers: the verbs on objects, discovery documents, reviews, health, and requests that are proxied to Pods.

pub(crate) mod call;
pub(crate) mod documents;
pub(crate) mod handler;
mod health;
pub(crate) mod page;
pub(crate) mod passing;
pub(crate) mod printing;
mod questions;
pub(crate) mod resource;
