//! CPU cost of nftables changes by another program that need no repair.

use std::time::Duration;

use netlink::nftables::{Batch, Change, Element, Field, Nftables, Set, SetValue};
use testbed::Member;

use crate::Failure;
use crate::process::Measured;

/// Table of the proxy.
const TABLE: &str = "portolan";
/// Time for a resync, and for the pause of the proxy between two.
const RESYNC_PAUSE: Duration = Duration::from_secs(1);
/// Number of elements in a transaction: more than the notification buffer of the kernel holds.
const FLOOD_ELEMENTS: u32 = 120_000;

/// Changes the table of the proxy `resyncs` times in each of two ways. First an unused set is added or
/// removed, and the kernel notifies the proxy. Then so many elements are added and removed while the proxy is
/// stopped that notifications are lost, and the proxy reads everything back.
pub(super) fn run(resyncs: u32, node: &Member, proxy: &Measured) -> Result<(), Failure> {
    if resyncs == 0 {
        return Ok(());
    }
    let notified = node.enter(|| cpu_per_action(resyncs, proxy, touch))??;
    let unnotified =
        node.enter(|| cpu_per_action(resyncs, proxy, |_, nftables| flood(nftables, proxy)))??;
    println!(
        "{resyncs} foreign writes without need for repair: CPU {notified:.1} ms each with notification, {unnotified:.0} ms each with lost \
         notifications and full read-back",
    );
    Ok(())
}

/// CPU time of the proxy for each of `times` actions, in milliseconds.
fn cpu_per_action(
    times: u32,
    proxy: &Measured,
    mut action: impl FnMut(u32, &mut Nftables) -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let mut nftables = Nftables::open()?;
    let before = proxy.cpu()?;
    for time in 0..times {
        action(time, &mut nftables)?;
        std::thread::sleep(RESYNC_PAUSE);
    }
    let used = proxy.cpu()? - before;
    Ok(used.as_secs_f64() * 1e3 / f64::from(times))
}

/// Adds a set to the table of the proxy, or removes it.
fn touch(time: u32, nftables: &mut Nftables) -> Result<(), Failure> {
    let change = if time.is_multiple_of(2) {
        Change::Add
    } else {
        Change::Delete
    };
    let mut batch = Batch::new(TABLE, None);
    batch.set(change, &unused_set(), 0);
    nftables.commit(batch)?;
    Ok(())
}

/// Fills a set and removes it while the proxy is stopped.
fn flood(nftables: &mut Nftables, proxy: &Measured) -> Result<(), Failure> {
    let set = Set {
        name: "flood".to_owned(),
        ..unused_set()
    };
    let mut filling = Batch::new(TABLE, None);
    filling.set(Change::Add, &set, 0);
    let mut list = filling.elements(Change::Add, &set.name, 0);
    for number in 0..FLOOD_ELEMENTS {
        list.push(&Element::key(&number.to_ne_bytes()));
    }
    drop(list);
    let mut clearing = Batch::new(TABLE, None);
    clearing.set(Change::Delete, &set, 0);
    proxy.while_stopped(|| {
        nftables.commit(filling)?;
        nftables.commit(clearing)?;
        Ok(())
    })
}

fn unused_set() -> Set {
    Set {
        name: "foreign".to_owned(),
        key: vec![Field::Mark],
        value: SetValue::None,
        is_interval: false,
        dynamic_size: None,
        comment: String::new(),
    }
}
