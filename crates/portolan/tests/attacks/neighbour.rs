//! Attacks of a host on the network of the nodes, without credentials.

mod announcers;
mod dns;
mod joining;
