//! Flags of IPVS mode, with the names and defaults of kube-proxy (KPF-21 to KPF-25).

use std::time::Duration;

use clap::Args;
use dataplane::ipvs::{Options, Timeouts};
use ipnet::IpNet;
use proxy::configuration::{GoDuration, Ipvs};

use super::values::cidr;

/// Flags of IPVS mode.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "IPVS mode")]
pub(crate) struct IpvsFlags {
    /// Scheduler of Services without an annotation: rr, wrr, lc, wlc, lblc, lblcr, sh, dh, sed, nq or mh [default: rr]
    #[arg(long, default_value = "", value_name = "NAME", hide_default_value = true)]
    ipvs_scheduler: String,
    /// Period of comparisons between the kernel and the plan, and of the removal of endpoints without connections
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    ipvs_sync_period: GoDuration,
    /// Minimum time between two changes of rules and virtual servers
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    ipvs_min_sync_period: GoDuration,
    /// Addresses of virtual servers that belong to other programs; all others are removed
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    ipvs_exclude_cidrs: Vec<IpNet>,
    /// Answer ARP requests only for addresses of the receiving interface (arp_ignore 1, arp_announce 2)
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = clap::ArgAction::Set, value_name = "BOOL")]
    ipvs_strict_arp: bool,
    /// Timeout of idle TCP connections; 0 keeps the kernel's value
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    ipvs_tcp_timeout: GoDuration,
    /// Timeout of TCP connections after a FIN; 0 keeps the kernel's value
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    ipvs_tcpfin_timeout: GoDuration,
    /// Timeout of UDP flows; 0 keeps the kernel's value
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    ipvs_udp_timeout: GoDuration,
}

impl IpvsFlags {
    /// Returns the section of the configuration.
    pub(crate) fn section(&self) -> Ipvs {
        Ipvs {
            sync_period: self.ipvs_sync_period,
            min_sync_period: self.ipvs_min_sync_period,
            scheduler: self.ipvs_scheduler.clone(),
            exclude_cidrs: self.ipvs_exclude_cidrs.iter().map(ToString::to_string).collect(),
            strict_arp: self.ipvs_strict_arp,
            tcp_timeout: self.ipvs_tcp_timeout,
            tcp_fin_timeout: self.ipvs_tcpfin_timeout,
            udp_timeout: self.ipvs_udp_timeout,
        }
    }

    /// Returns true if a flag is given that has an effect in IPVS mode only.
    pub(crate) fn is_given(&self) -> bool {
        self.section() != Ipvs::default()
    }
}

/// Returns the options of the data plane for a valid section.
pub(crate) fn options(section: &Ipvs) -> Options {
    let seconds = |timeout: GoDuration| {
        // The kernel counts whole seconds, and 0 means no change.
        let timeout: Option<Duration> = timeout.non_zero();
        timeout.map_or(0, |timeout| {
            u32::try_from(timeout.as_secs().max(1)).unwrap_or(u32::MAX)
        })
    };
    Options {
        excluded: section
            .exclude_cidrs
            .iter()
            .filter_map(|text| text.parse().ok())
            .collect(),
        strict_arp: section.strict_arp,
        timeouts: Timeouts {
            tcp_seconds: seconds(section.tcp_timeout),
            tcp_fin_seconds: seconds(section.tcp_fin_timeout),
            udp_seconds: seconds(section.udp_timeout),
        },
        ..Options::default()
    }
}
