//! Scenarios: their steps, each of which is measured by itself.

use clap::ValueEnum;

use super::parts::{DnsServers, Mode, Part, Parts, Version};
use crate::Failure;

/// Scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Scenario {
    /// kube-proxy in nftables mode, `portolan proxy`, kube-proxy
    ProxyNftables,
    /// kube-proxy in iptables mode, `portolan proxy`, kube-proxy
    ProxyIptables,
    /// CoreDNS, `portolan dns`, CoreDNS
    Dns,
    /// Endpoint controllers of kube-controller-manager, `portolan controllers`, and back
    Controllers,
    /// Rolling restart of each part of Portolan
    Restarts,
    /// Rolling update of each part from the build of --old-binary to this one, and back
    Versions,
}

/// Measured step: a name for the table, and the work.
pub(super) struct Step<'a> {
    /// Name.
    pub name: String,
    /// Work during which requests are counted.
    pub work: Box<dyn Fn(&Parts<'_>) -> Result<(), Failure> + 'a>,
}

fn step<'a>(name: impl Into<String>, work: impl Fn(&Parts<'_>) -> Result<(), Failure> + 'a) -> Step<'a> {
    Step {
        name: name.into(),
        work: Box::new(work),
    }
}

impl Scenario {
    /// Name as in the flag.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Prepares the initial state, in which all parts are upstream's unless the scenario needs others.
    pub(super) fn prepare(self, parts: &Parts<'_>) -> Result<(), Failure> {
        match self {
            Self::ProxyNftables | Self::Dns | Self::Controllers => Ok(()),
            Self::ProxyIptables => parts.install_kube_proxy(Mode::Iptables),
            Self::Restarts | Self::Versions => {
                let version = if self == Self::Versions {
                    Version::Old
                } else {
                    Version::Current
                };
                take_over_proxy(parts, Mode::Nftables, version)?;
                take_over_dns(parts, version)?;
                take_over_controllers(parts, version)
            }
        }
    }

    /// Steps that are measured.
    pub(super) fn steps(self) -> Vec<Step<'static>> {
        match self {
            Self::ProxyNftables => proxy(Mode::Nftables),
            Self::ProxyIptables => proxy(Mode::Iptables),
            Self::Dns => vec![
                step("CoreDNS to portolan dns", |parts| {
                    take_over_dns(parts, Version::Current)
                }),
                step("portolan dns to CoreDNS", go_back_to_coredns),
            ],
            Self::Controllers => vec![
                step("kube-controller-manager to portolan controllers", |parts| {
                    take_over_controllers(parts, Version::Current)
                }),
                step(
                    "portolan controllers to kube-controller-manager",
                    go_back_to_upstream_controllers,
                ),
            ],
            Self::Restarts => Part::ALL
                .into_iter()
                .map(|part| {
                    step(format!("restart of {}", part.name()), move |parts| {
                        parts.restart(part)
                    })
                })
                .collect(),
            Self::Versions => Part::ALL.into_iter().flat_map(update).collect(),
        }
    }

    /// Restores upstream's parts.
    pub(super) fn restore(self, parts: &Parts<'_>) -> Result<(), Failure> {
        match self {
            Self::ProxyNftables | Self::Dns | Self::Controllers => Ok(()),
            Self::ProxyIptables => parts.install_kube_proxy(Mode::Nftables),
            Self::Restarts | Self::Versions => {
                go_back_to_upstream_controllers(parts)?;
                go_back_to_coredns(parts)?;
                go_back_to_kube_proxy(parts, Mode::Nftables)
            }
        }
    }
}

fn proxy(mode: Mode) -> Vec<Step<'static>> {
    let name = mode.name();
    vec![
        step(format!("kube-proxy to portolan proxy, {name}"), move |parts| {
            take_over_proxy(parts, mode, Version::Current)
        }),
        step(format!("portolan proxy to kube-proxy, {name}"), move |parts| {
            go_back_to_kube_proxy(parts, mode)
        }),
    ]
}

fn update(part: Part) -> [Step<'static>; 2] {
    [
        step(format!("update of {}", part.name()), move |parts| {
            parts.install(part, Version::Current)
        }),
        step(format!("{} back to the older build", part.name()), move |parts| {
            parts.install(part, Version::Old)
        }),
    ]
}

/// In nftables mode both run for a moment, each with its own rules. In iptables mode they would write the same chains.
fn take_over_proxy(parts: &Parts<'_>, mode: Mode, version: Version) -> Result<(), Failure> {
    match mode {
        Mode::Nftables => {
            parts.install(Part::Proxy, version)?;
            parts.stop_kube_proxy()?;
        }
        Mode::Iptables => {
            parts.stop_kube_proxy()?;
            parts.install(Part::Proxy, version)?;
        }
    }
    parts.wait_for_syncs()
}

fn go_back_to_kube_proxy(parts: &Parts<'_>, mode: Mode) -> Result<(), Failure> {
    match mode {
        Mode::Nftables => {
            parts.resume_kube_proxy()?;
            parts.remove(Part::Proxy)?;
            parts.wait_for_syncs()?;
            parts.remove_tables()
        }
        Mode::Iptables => {
            parts.remove(Part::Proxy)?;
            parts.resume_kube_proxy()?;
            parts.wait_for_syncs()
        }
    }
}

fn take_over_dns(parts: &Parts<'_>, version: Version) -> Result<(), Failure> {
    parts.install(Part::Dns, version)?;
    parts.select_dns_servers(DnsServers::Portolan)?;
    parts.scale_coredns(0)?;
    parts.select_dns_servers(DnsServers::All)
}

fn go_back_to_coredns(parts: &Parts<'_>) -> Result<(), Failure> {
    parts.scale_coredns(2)?;
    parts.remove_from_dns_service()?;
    parts.remove(Part::Dns)
}

/// Both sets of controllers run for a moment, so that no change of a Pod waits for the other one.
fn take_over_controllers(parts: &Parts<'_>, version: Version) -> Result<(), Failure> {
    parts.install(Part::Controllers, version)?;
    parts.wait_for_leader()?;
    parts.set_upstream_controllers(false)
}

fn go_back_to_upstream_controllers(parts: &Parts<'_>) -> Result<(), Failure> {
    parts.set_upstream_controllers(true)?;
    parts.remove(Part::Controllers)
}
