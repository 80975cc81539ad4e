//! What reading everything back costs when nothing is wrong.

use std::time::Duration;

use netlink::nftables::{Batch, Change, Field, Nftables, Set, SetValue};
use testbed::Member;

use crate::Failure;
use crate::process::Measured;

/// The proxy's table.
const TABLE: &str = "portolan";
/// Time for one resync, and for the pause that the proxy makes between two.
const REST: Duration = Duration::from_secs(1);

/// Puts a set that does no harm into the proxy's table and takes it away again, by turns. Whenever a set comes or goes,
/// the proxy reads back everything.
pub fn run(resyncs: u32, node: &Member, proxy: &Measured) -> Result<(), Failure> {
    if resyncs == 0 {
        return Ok(());
    }
    let cpu = proxy.cpu()?;
    node.enter(|| -> Result<(), Failure> {
        let mut nftables = Nftables::open()?;
        for resync in 0..resyncs {
            let change = if resync % 2 == 0 {
                Change::Add
            } else {
                Change::Delete
            };
            let mut batch = Batch::new(TABLE, None);
            batch.set(change, &harmless(), 0);
            nftables.commit(batch)?;
            std::thread::sleep(REST);
        }
        Ok(())
    })??;
    let used = proxy.cpu()? - cpu;
    println!(
        "{resyncs} resyncs with nothing to do: CPU {:.0} ms each",
        used.as_secs_f64() * 1e3 / f64::from(resyncs),
    );
    Ok(())
}

fn harmless() -> Set {
    Set {
        name: "not-the-proxys".to_owned(),
        key: vec![Field::Mark],
        value: SetValue::None,
        is_interval: false,
        dynamic_size: None,
        comment: String::new(),
    }
}
