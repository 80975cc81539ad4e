//! Edge over loopback, with real clients, backends and listeners.

mod bandwidth;
mod draining;
mod faults;
mod fixture;
mod handover;
mod health;
mod limits;
mod proxy_protocol;
mod tcp;
mod tls;
mod udp;
