//! Messages between the announcers of a cluster, and their authentication.

pub mod keys;
pub mod message;
