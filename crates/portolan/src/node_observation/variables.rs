//! Environment variables of Pods with the addresses of Services.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use explain::observation::ServiceVariable;

use super::pods::PodNamespace;
use super::processes::Process;

/// Maximum number of bytes of an environment that are read.
const ENVIRONMENT_BYTES_MAX: u64 = 256 << 10;
/// Maximum number of variables.
const VARIABLES_MAX: usize = 5_000;
/// Maximum number of processes of a Pod that are read: those of its containers come first.
const PROCESSES_MAX: usize = 16;
/// End of the names of variables with the cluster IP of a Service.
const HOST_VARIABLE: &str = "_SERVICE_HOST";

/// Reads the variables of the Pods. Returns true if there are more.
pub(super) fn read(processes: &[Process], pods: &[PodNamespace]) -> (Vec<ServiceVariable>, bool) {
    let mut variables = Vec::new();
    for pod in pods {
        let pod_processes = pod
            .processes
            .iter()
            .filter_map(|position| processes.get(*position));
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        for process in pod_processes.take(PROCESSES_MAX) {
            // The process may have ended, or belong to another user.
            let Ok(file) = File::open(process.directory("environ")) else {
                continue;
            };
            let mut bytes = Vec::new();
            if file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut bytes).is_ok() {
                found.extend(parse(&bytes));
            }
        }
        variables.extend(found.into_iter().map(|(name, value)| ServiceVariable {
            pod: pod.pod.clone(),
            name,
            value,
        }));
        if variables.len() > VARIABLES_MAX {
            variables.truncate(VARIABLES_MAX);
            return (variables, true);
        }
    }
    (variables, false)
}

/// Returns the variables with the addresses of Services. Others may contain secrets.
fn parse(bytes: &[u8]) -> Vec<(String, String)> {
    let entries = bytes.split(|byte| *byte == 0);
    entries
        .filter_map(|entry| {
            let (name, value) = std::str::from_utf8(entry).ok()?.split_once('=')?;
            let is_address = value.parse::<std::net::IpAddr>().is_ok();
            (name.ends_with(HOST_VARIABLE) && is_address).then(|| (name.to_owned(), value.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests;
