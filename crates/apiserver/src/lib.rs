//! apiserver

pub mod service;
