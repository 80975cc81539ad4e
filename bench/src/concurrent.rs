//! Rate of requests of concurrent clients.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use testbed::write_sysctl;

use crate::Failure;

/// Rate at which concurrent clients repeat `work`, per second.
pub(crate) fn rate_of(
    clients: usize,
    duration: Duration,
    work: impl Fn() -> io::Result<()> + Sync,
) -> Result<f64, Failure> {
    let count = AtomicUsize::new(0);
    let started = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| -> io::Result<()> {
                    while started.elapsed() < duration {
                        work()?;
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a client panicked")??;
        }
        Ok::<(), Failure>(())
    })?;
    Ok(count.into_inner() as f64 / started.elapsed().as_secs_f64())
}

/// Allows the reuse of ports in TIME-WAIT. Thousands of connections per second to one address would use up
/// all ports within seconds.
pub(crate) fn reuse_ports() -> std::io::Result<()> {
    write_sysctl("net.ipv4.ip_local_port_range", "4096 65000")?;
    write_sysctl("net.ipv4.tcp_tw_reuse", "1")
}
