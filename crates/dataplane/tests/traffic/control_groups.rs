//! Control groups of the clients, for eBPF mode: each node has one, and the external client has another one.

use std::path::PathBuf;

use dataplane::ebpf::{EbpfDataplane, Options};
use testbed::ControlGroup;

use crate::Opened;

/// Moves the calling thread, with the threads that it starts, into a control group.
pub(crate) fn enter(name: &str) {
    match ControlGroup::create(&process(), name) {
        Ok(group) => group.enter().unwrap(),
        Err(error) => testbed::skip_inside(&format!("no control group for the test: {error}")),
    }
}

/// Removes the control groups of this process.
pub(crate) fn remove() {
    ControlGroup::remove_all(&process()).unwrap();
}

/// Opens the data plane for the control group of the calling thread. A thread outside of the test's control groups gets
/// a data plane without local clients.
pub(crate) fn open_ebpf() -> Opened {
    let control_group = match own() {
        Some(path) => path,
        None => match ControlGroup::create(&process(), "empty") {
            Ok(group) => group.path().to_owned(),
            Err(error) => testbed::skip_inside(&format!("no control group for the test: {error}")),
        },
    };
    let dataplane = EbpfDataplane::open(Options {
        control_group: Some(control_group),
        ..Options::default()
    })?;
    let dataplane: Box<dyn dataplane::Dataplane + Send> = Box::new(dataplane);
    if let Some(fault) = dataplane.fault()
        && (fault.contains("not permitted") || fault.contains("does not support"))
    {
        testbed::skip_inside(fault);
    }
    Ok(dataplane)
}

/// Returns the directory of the calling thread's control group, if it is one of this process.
fn own() -> Option<PathBuf> {
    let groups = std::fs::read_to_string("/proc/thread-self/cgroup").unwrap();
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    // The name of the parent has the start of the process after it.
    let (_, rest) = path.split_once(&format!("{}-", process()))?;
    let (_, name) = rest.split_once('/')?;
    Some(ControlGroup::create(&process(), name).unwrap().path().to_owned())
}

/// Returns the number of this process' network namespace, which no other test has.
fn process() -> String {
    let link = std::fs::read_link("/proc/self/ns/net").unwrap();
    let digits = link.to_str().unwrap().chars().filter(char::is_ascii_digit);
    digits.collect()
}
