//! Several clients at the same time.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use testbed::write_sysctl;

use crate::Failure;

/// How often a second so many clients do something, each again and again.
pub fn at_once(
    clients: usize,
    time: Duration,
    work: impl Fn() -> io::Result<()> + Sync,
) -> Result<f64, Failure> {
    let count = AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| -> io::Result<()> {
                    while began.elapsed() < time {
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
    Ok(count.into_inner() as f64 / began.elapsed().as_secs_f64())
}

/// Lets ports of connections that were closed a second ago be used again: some thousand connections a second to one
/// address would use all of them up within seconds, and what is measured then is the want of ports.
pub fn lend_ports_again() -> std::io::Result<()> {
    write_sysctl("net.ipv4.ip_local_port_range", "4096 65000")?;
    write_sysctl("net.ipv4.tcp_tw_reuse", "1")
}
