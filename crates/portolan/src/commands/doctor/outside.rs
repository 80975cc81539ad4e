//! Probes from the host on which the command runs, as from a client outside of the cluster.

use std::thread::{self, JoinHandle};

use api::object::ObjectKey;
use explain::NodeObservation;
use explain::observation::Probe;

use super::source::Source;
use crate::error::CommandError;
use crate::node_observation::{Cluster, own_addresses, probe_outside};

/// Name of the observation of this host. No Node has a name with spaces.
const OBSERVATION: &str = "a host outside of the cluster";

/// Probes that are sent while other observations are read.
#[derive(Debug)]
pub(super) struct OutsideProbes {
    /// Thread that sends the probes; `None` without probes.
    sending: Option<JoinHandle<(Vec<Probe>, bool)>>,
    problems: Vec<String>,
}

impl OutsideProbes {
    /// Returns probing that sends nothing.
    pub(super) fn none() -> Self {
        Self {
            sending: None,
            problems: Vec::new(),
        }
    }

    /// Starts to send probes to the addresses of a Service, or of all.
    ///
    /// # Errors
    ///
    /// An error if the addresses of this host cannot be read.
    pub(super) fn start(source: &Source, service: Option<&ObjectKey>) -> Result<Self, CommandError> {
        let cluster = Cluster::read(&source.builder, service);
        let own = own_addresses()?;
        let mut names = cluster.nodes.iter().map(|node| node.metadata.name.as_str());
        let node = names.find(|name| cluster.internal_ips(name).iter().any(|ip| own.contains(ip)));
        if let Some(node) = node {
            let problem = format!(
                "no probes are sent from outside: this host is Node {node}, which translates its connections itself. Use portolan doctor node"
            );
            return Ok(Self {
                sending: None,
                problems: vec![problem],
            });
        }
        Ok(Self {
            sending: Some(thread::spawn(move || probe_outside(&cluster, &own))),
            problems: Vec::new(),
        })
    }

    /// Waits for the probes, and adds their results to the objects. Returns the reasons why results are missing.
    ///
    /// # Errors
    ///
    /// An error if the observation cannot be encoded, or the thread has ended with a panic.
    pub(super) fn finish(self, source: &mut Source) -> Result<Vec<String>, CommandError> {
        let mut problems = self.problems;
        let Some(sending) = self.sending else {
            return Ok(problems);
        };
        let sent = sending.join();
        let (probes, is_truncated) = sent.map_err(|_| "the thread that sends the probes has ended")?;
        if probes.is_empty() {
            let problem = "no probe from outside has a result: expected a Service with a TCP port, a ready endpoint and an address for clients outside of the cluster";
            problems.push(problem.to_owned());
        }
        if is_truncated {
            problems.push("some probes from outside were not sent in time".to_owned());
        }
        let mut observation = NodeObservation::of_node(OBSERVATION);
        observation.probes = Some(probes);
        source.builder.add(serde_json::to_value(&observation)?);
        Ok(problems)
    }
}
