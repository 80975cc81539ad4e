//! Domain of the cluster, from the resolver configuration of Pods.

use super::pods::PodNamespace;
use super::processes::Process;
use super::sysctls::text_of;

/// Domain by default.
const DEFAULT: &str = "cluster.local";
/// Maximum number of processes that are read.
const PROCESSES_MAX: usize = 32;

/// Returns the domain that the search list of a Pod has, or the default.
pub(super) fn find(processes: &[Process], pods: &[PodNamespace]) -> String {
    let positions = pods.iter().flat_map(|pod| &pod.processes).take(PROCESSES_MAX);
    let mut texts = positions.filter_map(|position| {
        let process = processes.get(*position)?;
        text_of(process.open("etc/resolv.conf").ok()?)
    });
    texts
        .find_map(|text| parse(&text))
        .unwrap_or_else(|| DEFAULT.to_owned())
}

/// Returns the domain behind `svc.` in a search list.
fn parse(text: &str) -> Option<String> {
    let mut lists = text.lines().filter_map(|line| line.trim().strip_prefix("search"));
    lists.find_map(|list| {
        let mut domains = list.split_ascii_whitespace();
        let domain = domains.find_map(|domain| domain.strip_prefix("svc."))?;
        (!domain.is_empty()).then(|| domain.trim_end_matches('.').to_owned())
    })
}

#[cfg(test)]
mod tests;
