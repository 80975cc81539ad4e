//! The load balancer for clusters without a cloud: addresses for Services of type LoadBalancer, announced on the
//! local network.
//!
//! - [`wish`]: what a Service asks for, read from its fields and annotations
//! - [`pools`]: AddressPools, and which Services may use them
//! - [`core`]: what is to be done about each Service; a state machine without clock and I/O
//! - [`run()`]: the loop around it, which watches and writes
//! - [`announce`]: which node answers for which address on the local network
//! - [`crd`]: the definition of AddressPools for clusters that do not have the kind built in
//!
//! The book of addresses itself is [`ipam::pools`].

pub mod announce;
pub mod core;
pub mod crd;
pub mod pools;
mod run;
pub mod wish;
mod write;

pub use self::core::Options;
pub use run::run;
