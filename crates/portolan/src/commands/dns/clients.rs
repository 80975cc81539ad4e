//! Flags that say which clients are answered, and how much they get; shared with `portolan up` and `portolan join`.

use clap::Args;
use ipnet::IpNet;

use crate::flags::cidr;

/// Flags that say which clients are answered, and how much they get.
#[derive(Clone, Debug, Args)]
pub struct ClientsFlags {
    /// Networks whose clients DNS answers. `up` and `join` answer Pods and Nodes besides; `dns` answers
    /// everybody if the flag is not given. This machine is always answered, all others get REFUSED
    #[arg(long, value_delimiter = ',', value_name = "CIDRs", value_parser = cidr)]
    allow_from: Vec<IpNet>,
    /// Answers over UDP a second for each /24 or /56 of clients; 0 for any number
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    responses_per_second: u32,
    /// Refusals over UDP a second for each /24 or /56 of clients that are not answered; 0 for any number
    #[arg(long, default_value_t = 10, value_name = "NUMBER")]
    refusals_per_second: u32,
    /// Octets of an answer over UDP at most
    #[arg(long, default_value_t = 1232, value_name = "OCTETS", value_parser = clap::value_parser!(u16).range(512..=4096))]
    udp_size_max: u16,
}

impl ClientsFlags {
    /// Has a server answer the clients of the flags, or everybody if none are given.
    pub fn apply(&self, config: &mut dns::Config) {
        if !self.allow_from.is_empty() {
            config.allow_from = Some(dns::AllowFrom {
                networks: self.allow_from.clone(),
                nodes: false,
            });
        }
        self.apply_limits(config);
    }

    /// Has a server of a cluster's machine answer Nodes, these networks of the cluster, and the clients of the flags.
    pub fn apply_in_cluster(&self, config: &mut dns::Config, cluster: impl IntoIterator<Item = IpNet>) {
        config.allow_from = Some(dns::AllowFrom {
            networks: cluster
                .into_iter()
                .chain(self.allow_from.iter().copied())
                .collect(),
            nodes: true,
        });
        self.apply_limits(config);
    }

    fn apply_limits(&self, config: &mut dns::Config) {
        config.responses_per_second_max = self.responses_per_second;
        config.refusals_per_second_max = self.refusals_per_second;
        config.udp_octets_max = usize::from(self.udp_size_max);
    }
}
