//! What reading everything back costs when nothing is wrong.

use std::time::{Duration, Instant};

use netlink::nftables::{Batch, Change, Field, Nftables, Set, SetValue};
use testbed::Member;

use crate::Failure;
use crate::process::Measured;
use crate::setting::PATIENCE;

/// The proxy's table.
const TABLE: &str = "portolan";
/// Pause between two looks, and between two resyncs.
const PAUSE: Duration = Duration::from_millis(20);
const REST: Duration = Duration::from_millis(500);

/// Puts a set into the proxy's table, which makes it read back everything and take that set away; again and again.
pub fn run(resyncs: u32, node: &Member, proxy: &Measured) -> Result<(), Failure> {
    if resyncs == 0 {
        return Ok(());
    }
    let cpu = proxy.cpu()?;
    let mut elapsed = Duration::ZERO;
    node.enter(|| -> Result<(), Failure> {
        let mut nftables = Nftables::open()?;
        for _ in 0..resyncs {
            std::thread::sleep(REST);
            let began = Instant::now();
            provoke(&mut nftables)?;
            elapsed += began.elapsed();
        }
        Ok(())
    })??;
    let used = proxy.cpu()? - cpu;
    println!(
        "{resyncs} resyncs with nothing to do but one set: CPU {:.0} ms each, over within {:.0} ms",
        used.as_secs_f64() * 1e3 / f64::from(resyncs),
        elapsed.as_secs_f64() * 1e3 / f64::from(resyncs),
    );
    Ok(())
}

fn provoke(nftables: &mut Nftables) -> Result<(), Failure> {
    let set = Set {
        name: "not-the-proxys".to_owned(),
        key: vec![Field::Mark],
        value: SetValue::None,
        is_interval: false,
        dynamic_size: None,
        comment: String::new(),
    };
    let mut batch = Batch::new(TABLE, None);
    batch.set(Change::Add, &set, 0);
    nftables.commit(batch)?;
    let deadline = Instant::now() + PATIENCE;
    while nftables.sets(TABLE)?.iter().any(|found| found.name == set.name) {
        if Instant::now() > deadline {
            return Err("the proxy does not mend its table".into());
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
