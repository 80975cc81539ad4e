//! Restoring of rules that other programs delete, for example by `nft flush ruleset`.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use netlink::nftables::{ExternalChange, Monitor};

use super::{HostPortError, HostPorts};
use crate::network::source_validation;

/// Period in which the thread checks that it is still needed.
const PERIOD: Duration = Duration::from_secs(1);
/// Pause after a transaction of another program: a program that changes the tables continuously costs little.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts a thread that ends with `host_ports`. After changes of other programs, it restores the rules of host ports
/// and the table of source address validation.
///
/// # Errors
/// See [`HostPortError`].
pub fn watch(host_ports: &Arc<HostPorts>) -> Result<(), HostPortError> {
    let monitor = host_ports.monitor()?;
    let host_ports = Arc::downgrade(host_ports);
    thread::Builder::new()
        .name("host-ports".to_owned())
        .spawn(move || restore_as_needed(monitor, &host_ports))
        .map(drop)
        .map_err(HostPortError::Open)
}

fn restore_as_needed(mut monitor: Monitor, host_ports: &Weak<HostPorts>) {
    let mut is_validation_possible = true;
    while host_ports.strong_count() > 0 {
        match changes(&mut monitor) {
            Ok(changes) if changes.is_empty() => continue,
            Ok(changes) => {
                let Some(host_ports) = host_ports.upgrade() else {
                    return;
                };
                restore(&host_ports, &changes);
                restore_validation(&mut is_validation_possible);
            }
            Err(error) => {
                tracing::warn!(%error, "nftables changes not reported; host ports are not restored");
                return;
            }
        }
        thread::sleep(PAUSE);
    }
}

fn changes(monitor: &mut Monitor) -> io::Result<Vec<ExternalChange>> {
    if monitor.wait(PERIOD)? {
        monitor.read()
    } else {
        Ok(Vec::new())
    }
}

fn restore(host_ports: &HostPorts, changes: &[ExternalChange]) {
    // A transaction alone says nothing about its table.
    let is_of_table = |change: &ExternalChange| !matches!(change, ExternalChange::Transaction(_));
    if changes.iter().any(is_of_table) {
        match host_ports.rewrite() {
            Ok(()) => tracing::warn!("rules of host ports changed by another program; restored"),
            Err(error) => tracing::error!(%error, "rules of host ports not restored"),
        }
    }
}

/// Restores the table of source address validation. A kernel without support is reported once, not after each transaction.
fn restore_validation(is_possible: &mut bool) {
    match source_validation::restore() {
        Ok(false) => *is_possible = true,
        Ok(true) => {
            *is_possible = true;
            tracing::warn!("source address validation deleted by another program; restored");
        }
        Err(error) if *is_possible => {
            *is_possible = false;
            tracing::error!(%error, "source addresses of Pods not validated");
        }
        Err(_) => {}
    }
}
