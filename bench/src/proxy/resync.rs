//! What it costs the proxy that somebody else writes to nftables, when nothing is wrong.

use std::time::Duration;

use netlink::nftables::{Batch, Change, Element, Field, Nftables, Set, SetValue};
use testbed::Member;

use crate::Failure;
use crate::process::Measured;

/// The proxy's table.
const TABLE: &str = "portolan";
/// Time for one resync, and for the pause that the proxy makes between two.
const REST: Duration = Duration::from_secs(1);
/// Elements in one transaction: more than the kernel keeps for a proxy that does not listen.
const FLOOD_ELEMENTS: u32 = 120_000;

/// Has somebody else write `resyncs` times in each of two ways. First a set that does no harm comes into the proxy's table,
/// or goes again: the kernel tells the proxy. Then so much comes and goes in that table, in a set that does no harm, while
/// the proxy is stopped, that the kernel cannot tell it: everything is read back.
pub fn run(resyncs: u32, node: &Member, proxy: &Measured) -> Result<(), Failure> {
    if resyncs == 0 {
        return Ok(());
    }
    let told = node.enter(|| cpu_each(resyncs, proxy, touch))??;
    let untold = node.enter(|| cpu_each(resyncs, proxy, |_, nftables| flood(nftables, proxy)))??;
    println!(
        "{resyncs} times others wrote and nothing was to do: CPU {told:.1} ms each where the proxy was told what, \
         {untold:.0} ms each where it was not and read everything back",
    );
    Ok(())
}

/// Milliseconds of the proxy's CPU for each of `times` things that somebody else does.
fn cpu_each(
    times: u32,
    proxy: &Measured,
    mut act: impl FnMut(u32, &mut Nftables) -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let mut nftables = Nftables::open()?;
    let before = proxy.cpu()?;
    for time in 0..times {
        act(time, &mut nftables)?;
        std::thread::sleep(REST);
    }
    let used = proxy.cpu()? - before;
    Ok(used.as_secs_f64() * 1e3 / f64::from(times))
}

/// Puts a set into the proxy's table and takes it away again, by turns.
fn touch(time: u32, nftables: &mut Nftables) -> Result<(), Failure> {
    let change = if time.is_multiple_of(2) {
        Change::Add
    } else {
        Change::Delete
    };
    let mut batch = Batch::new(TABLE, None);
    batch.set(change, &harmless(), 0);
    nftables.commit(batch)?;
    Ok(())
}

/// Fills a set and takes it away, while the proxy is stopped.
fn flood(nftables: &mut Nftables, proxy: &Measured) -> Result<(), Failure> {
    let set = Set {
        name: "flood".to_owned(),
        ..harmless()
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
    proxy.stopped(|| {
        nftables.commit(filling)?;
        nftables.commit(clearing)?;
        Ok(())
    })
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
