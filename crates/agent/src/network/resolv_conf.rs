//! resolv.conf of Pods (kubelet's `network/dns/dns.go`; KDN-01 to KDN-05). Pure.

use std::net::IpAddr;

use crate::object::{DnsPolicy, Pod};

#[cfg(test)]
mod tests;

/// Maximum number of name servers that resolvers use (KDN-04).
const NAMESERVERS_MAX: usize = 3;
/// Maximum number of search domains of a Pod (KDN-04, KEP-2595).
const SEARCHES_MAX: usize = 32;
/// Maximum number of characters of the search list, including blanks (KDN-04, KEP-2595).
const SEARCH_CHARACTERS_MAX: usize = 2048;

/// Cluster DNS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterDns {
    /// Addresses of the DNS Service. Without any, Pods get the resolv.conf of the node.
    pub servers: Vec<IpAddr>,
    /// Cluster domain, usually `cluster.local`.
    pub domain: String,
}

/// Content of a resolv.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvConf {
    /// Addresses of name servers, in the order of their use.
    pub nameservers: Vec<String>,
    /// Search list.
    pub searches: Vec<String>,
    /// Options, `name` or `name:value`.
    pub options: Vec<String>,
}

impl ResolvConf {
    /// Parses a resolv.conf(5). Of several `search` lines the last counts; unknown lines are skipped.
    ///
    /// ```
    /// use agent::network::resolv_conf::ResolvConf;
    ///
    /// let conf = ResolvConf::parse("search example.com\nnameserver 192.0.2.1\n# a comment\n");
    /// assert_eq!(conf.searches, ["example.com"]);
    /// assert_eq!(conf.nameservers, ["192.0.2.1"]);
    /// ```
    pub fn parse(text: &str) -> Self {
        let mut conf = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => conf.nameservers.extend(words.next().map(str::to_owned)),
                Some("search" | "domain") => conf.searches = words.map(without_trailing_dot).collect(),
                Some("options") => conf.options = words.map(str::to_owned).collect(),
                _ => {}
            }
        }
        conf
    }

    /// Returns the text of the file.
    pub fn render(&self) -> String {
        let mut text = String::new();
        if !self.searches.is_empty() {
            text.push_str(&format!("search {}\n", self.searches.join(" ")));
        }
        for server in &self.nameservers {
            text.push_str(&format!("nameserver {server}\n"));
        }
        if !self.options.is_empty() {
            text.push_str(&format!("options {}\n", self.options.join(" ")));
        }
        text
    }
}

/// Returns the resolv.conf of a Pod, with warnings about omitted lines for Events of reason `DNSConfigForming`.
pub fn for_pod(pod: &Pod, cluster: &ClusterDns, host: &ResolvConf) -> (ResolvConf, Vec<String>) {
    let mut conf = match pod.spec.dns_policy {
        DnsPolicy::None => ResolvConf::default(),
        DnsPolicy::Default => host.clone(),
        DnsPolicy::ClusterFirst if pod.spec.host_network => host.clone(),
        DnsPolicy::ClusterFirst | DnsPolicy::ClusterFirstWithHostNet => {
            cluster_first(&pod.metadata.namespace, cluster, host)
        }
    };
    if let Some(own) = &pod.spec.dns_config {
        append_unique(&mut conf.nameservers, own.nameservers.iter().cloned());
        append_unique(
            &mut conf.searches,
            own.searches.iter().map(|domain| without_trailing_dot(domain)),
        );
        for option in &own.options {
            let text = match &option.value {
                Some(value) => format!("{}:{value}", option.name),
                None => option.name.clone(),
            };
            match conf
                .options
                .iter_mut()
                .find(|present| option_name(present) == option.name)
            {
                Some(present) => *present = text,
                None => conf.options.push(text),
            }
        }
    }
    let warnings = fit_limits(&mut conf);
    (conf, warnings)
}

/// Returns the host name of the Pod's UTS namespace (KDN-05), fully qualified with `setHostnameAsFQDN`.
/// `hostnameOverride` is complete.
pub fn kernel_hostname(pod: &Pod, cluster: &ClusterDns) -> String {
    let qualified = fully_qualified(pod, cluster).filter(|_| pod.spec.set_hostname_as_fqdn);
    qualified.unwrap_or_else(|| pod.hostname().to_owned())
}

/// Returns the fully qualified name of a Pod with `subdomain` (KDN-05). `hostnameOverride` is complete.
pub(crate) fn fully_qualified(pod: &Pod, cluster: &ClusterDns) -> Option<String> {
    if pod.spec.hostname_override.is_some() || pod.spec.subdomain.is_empty() {
        return None;
    }
    let (hostname, subdomain, namespace) = (pod.hostname(), &pod.spec.subdomain, &pod.metadata.namespace);
    Some(format!(
        "{hostname}.{subdomain}.{namespace}.svc.{}",
        cluster.domain
    ))
}

fn cluster_first(namespace: &str, cluster: &ClusterDns, host: &ResolvConf) -> ResolvConf {
    if cluster.servers.is_empty() {
        return host.clone();
    }
    let domain = &cluster.domain;
    let mut searches = Vec::new();
    if !domain.is_empty() {
        let own = [
            format!("{namespace}.svc.{domain}"),
            format!("svc.{domain}"),
            domain.clone(),
        ];
        append_unique(&mut searches, own);
    }
    append_unique(&mut searches, host.searches.iter().cloned());
    ResolvConf {
        nameservers: cluster.servers.iter().map(ToString::to_string).collect(),
        searches,
        options: vec!["ndots:5".to_owned()],
    }
}

/// Removes lines beyond the limits of resolvers (KDN-04) and returns warnings.
fn fit_limits(conf: &mut ResolvConf) -> Vec<String> {
    let mut warnings = Vec::new();
    if conf.nameservers.len() > NAMESERVERS_MAX {
        conf.nameservers.truncate(NAMESERVERS_MAX);
        warnings.push(format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
            conf.nameservers.join(" ")
        ));
    }
    let before = conf.searches.len();
    conf.searches.truncate(SEARCHES_MAX);
    while conf.searches.join(" ").len() > SEARCH_CHARACTERS_MAX {
        conf.searches.pop();
    }
    if conf.searches.len() < before {
        warnings.push(format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            conf.searches.join(" ")
        ));
    }
    warnings
}

fn append_unique(list: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for entry in more {
        if !list.contains(&entry) {
            list.push(entry);
        }
    }
}

fn option_name(option: &str) -> &str {
    option.split_once(':').map_or(option, |(name, _)| name)
}

/// Returns the search domain without a trailing dot, which has no meaning there. A lone dot is the root.
fn without_trailing_dot(search: &str) -> String {
    match search.strip_suffix('.') {
        Some(shorter) if !shorter.is_empty() => shorter.to_owned(),
        _ => search.to_owned(),
    }
}
