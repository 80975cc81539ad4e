//! Validation of BGPPeers (LBM-13), BGPAdvertisements (LBM-12) and BFDProfiles (LBM-14), with MetalLB's defaults.

use std::net::Ipv4Addr;
use std::time::Duration;

use api::field::Path;
use api::object::{ObjectKey, Resource as _};
use api::selector::LabelSelector;
use bgp::bfd;
use bgp::community::AnyCommunity;
use bgp::session::PeerSystem;
use netlink::route::LinkName;
use serde_json::Value;

use super::objects::{
    BgpAdvertisementSpec, BgpPeer, BgpPeerSpec, MetalLbAdvertisement, MetalLbPeer, SecretReference,
};
use super::{Advertisement, BfdProfile, Group, Location, Name, Objects, Password, Peer};

/// Default port of a peer.
const PORT: u16 = 179;
/// Default hold time.
const HOLD_SECONDS_DEFAULT: u16 = 90;
/// Minimum period of KEEPALIVEs (RFC 4271, section 4.4).
const KEEPALIVE_MIN: Duration = Duration::from_secs(1);
/// Default of the maximum delay between two attempts to connect.
const CONNECT_RETRY_DEFAULT: Duration = Duration::from_secs(120);
/// Default period of BFD control packets.
const BFD_MILLISECONDS_DEFAULT: u32 = 300;
/// Default period of echo packets, for profiles with the echo function.
const BFD_ECHO_MILLISECONDS_DEFAULT: u32 = 50;
/// Range of the periods of BFD, as MetalLB has it.
const BFD_MILLISECONDS_RANGE: std::ops::RangeInclusive<u32> = 10..=60_000;
/// Default number of missed packets after which a BFD session fails.
const DETECT_MULTIPLIER_DEFAULT: u8 = 3;
/// Default of the minimum TTL of BFD packets from peers on other links. RFC 5883 leaves it to the operator; MetalLB has
/// the same default.
const MINIMUM_TTL_DEFAULT: u8 = 254;
/// Maximum length of a TCP MD5 key in the kernel.
pub(crate) const PASSWORD_BYTES_MAX: usize = 80;
/// Namespace of the Secrets of Portolan's BGPPeers.
const SECRETS_NAMESPACE: &str = "kube-system";
/// Maximum length of the name of a link in the kernel.
const LINK_NAME_BYTES_MAX: usize = 15;

/// An object that is ignored until it is corrected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name} of {group} is ignored: {reason}", name = name.1, group = name.0)]
pub struct InvalidObject {
    /// Kind of the object.
    pub kind: &'static str,
    /// Group and name of the object.
    pub name: Name,
    /// UID of the object.
    pub uid: String,
    /// Description of the fault.
    pub reason: String,
}

impl InvalidObject {
    /// Returns the version of the API in which the object was read.
    pub(crate) fn version(&self) -> &'static str {
        match (self.name.0, self.kind) {
            (Group::Portolan, _) => BgpPeer::VERSION,
            (Group::MetalLb, MetalLbPeer::KIND) => MetalLbPeer::VERSION,
            (Group::MetalLb, _) => MetalLbAdvertisement::VERSION,
        }
    }
}

/// Parses a peer. `metallb_namespace` is the namespace of its Secrets.
pub(super) fn peer(
    group: Group,
    spec: &BgpPeerSpec,
    objects: &Objects,
    metallb_namespace: &str,
) -> Result<Peer, String> {
    if spec.my_asn == 0 {
        return Err("spec.myASN must be between 1 and 4294967295".to_owned());
    }
    let local_as = if spec.local_asn == 0 {
        spec.my_asn
    } else {
        spec.local_asn
    };
    if spec.vrf.len() > LINK_NAME_BYTES_MAX {
        return Err(format!(
            "spec.vrf must be the name of a link, found {:?}",
            spec.vrf
        ));
    }
    let hold_seconds = hold_seconds(spec.hold_time.as_deref())?;
    let keepalive = optional_duration("keepaliveTime", spec.keepalive_time.as_deref())?;
    if keepalive.is_some_and(|keepalive| keepalive > Duration::from_secs(hold_seconds.into())) {
        return Err("spec.keepaliveTime must not exceed spec.holdTime".to_owned());
    }
    if hold_seconds != 0 && keepalive.is_some_and(|keepalive| keepalive < KEEPALIVE_MIN) {
        return Err("spec.keepaliveTime must be at least 1s".to_owned());
    }
    let connect_retry = optional_duration("connectTime", spec.connect_time.as_deref())?;
    Ok(Peer {
        local_as,
        peer_as: peer_as(spec, local_as)?,
        location: location(spec)?,
        port: if spec.peer_port == 0 { PORT } else { spec.peer_port },
        source: optional_address("sourceAddress", &spec.source_address)?,
        router_id: router_id(&spec.router_id)?,
        hold_seconds,
        keepalive,
        connect_retry: connect_retry
            .unwrap_or(CONNECT_RETRY_DEFAULT)
            .max(Duration::from_secs(1)),
        nodes: selectors("nodeSelectors", &spec.node_selectors)?,
        password: password(group, spec, metallb_namespace)?,
        bfd: match spec.bfd_profile.as_str() {
            "" => None,
            name => Some(profile(group, name, objects)?),
        },
        has_graceful_restart: spec.enable_graceful_restart,
        is_multi_hop: spec.ebgp_multi_hop,
        is_passive: spec.passive,
        has_ttl_security: spec.ttl_security,
        vrf: Some(spec.vrf.clone()).filter(|vrf| !vrf.is_empty()),
        is_dual_stack: spec.dual_stack_address_family,
    })
}

fn router_id(text: &str) -> Result<Option<Ipv4Addr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = text.parse();
    let parsed = parsed.map_err(|_| format!("spec.routerID must be an IPv4 address, found {text:?}"))?;
    Ok(Some(parsed))
}

fn peer_as(spec: &BgpPeerSpec, local_as: u32) -> Result<PeerSystem, String> {
    match (spec.peer_asn, spec.dynamic_asn.as_str()) {
        (0, "internal") => Ok(PeerSystem::Internal),
        (0, "external") => Ok(PeerSystem::External),
        (0, "") => Err("either spec.peerASN or spec.dynamicASN must be set".to_owned()),
        (number, "") => {
            if spec.ebgp_multi_hop && number == local_as {
                return Err(
                    "spec.ebgpMultiHop must not be set for a peer of the same autonomous system".to_owned(),
                );
            }
            Ok(PeerSystem::Number(number))
        }
        (0, other) => Err(format!(
            "spec.dynamicASN must be internal or external, found {other:?}"
        )),
        _ => Err("only one of spec.peerASN and spec.dynamicASN may be set".to_owned()),
    }
}

fn location(spec: &BgpPeerSpec) -> Result<Location, String> {
    let link = &spec.interface;
    match (link.is_empty(), spec.peer_address.is_empty()) {
        (true, true) => Err("either spec.peerAddress or spec.interface must be set".to_owned()),
        (true, false) => address("peerAddress", &spec.peer_address).map(Location::Address),
        (false, false) => Err("only one of spec.peerAddress and spec.interface may be set".to_owned()),
        (false, true) if link.parse::<LinkName>().is_err() => {
            Err(format!("spec.interface must be the name of a link, found {link:?}"))
        }
        (false, true) if spec.ebgp_multi_hop || !spec.source_address.is_empty() => Err(
            "spec.ebgpMultiHop and spec.sourceAddress must not be set with spec.interface: the router is on the link"
                .to_owned(),
        ),
        (false, true) => Ok(Location::Link(link.clone())),
    }
}

fn address(field: &str, text: &str) -> Result<std::net::IpAddr, String> {
    text.parse()
        .map_err(|_| format!("spec.{field} must be an IP address, found {text:?}"))
}

fn optional_address(field: &str, text: &str) -> Result<Option<std::net::IpAddr>, String> {
    (!text.is_empty()).then(|| address(field, text)).transpose()
}

fn hold_seconds(text: Option<&str>) -> Result<u16, String> {
    let Some(hold) = optional_duration("holdTime", text)? else {
        return Ok(HOLD_SECONDS_DEFAULT);
    };
    let seconds = u16::try_from(hold.as_secs()).ok();
    let valid = seconds.filter(|seconds| *seconds >= 3 || hold.is_zero());
    valid.ok_or_else(|| "spec.holdTime must be 0s, or between 3s and 65535s".to_owned())
}

fn optional_duration(field: &str, text: Option<&str>) -> Result<Option<Duration>, String> {
    let parse = |text: &str| {
        duration(text)
            .ok_or_else(|| format!("spec.{field} must be a duration such as 90s or 1m30s, found {text:?}"))
    };
    text.filter(|text| !text.is_empty()).map(parse).transpose()
}

/// Parses a duration as Go writes it, of hours, minutes, seconds and milliseconds.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    if rest == "0" {
        return Some(sum);
    }
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after
            .find(|character: char| character.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let seconds = match unit {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        sum = sum.checked_add(part)?;
        rest = after;
    }
    (!text.is_empty()).then_some(sum)
}

fn password(group: Group, spec: &BgpPeerSpec, metallb_namespace: &str) -> Result<Option<Password>, String> {
    let SecretReference { name, namespace } = &spec.password_secret;
    match (spec.password.as_str(), name.as_str()) {
        ("", "") => Ok(None),
        (given, "") if given.len() > PASSWORD_BYTES_MAX => {
            Err(format!("spec.password is longer than {PASSWORD_BYTES_MAX} bytes"))
        }
        (given, "") => Ok(Some(Password::Given(given.to_owned()))),
        ("", name) => {
            let expected = match group {
                Group::Portolan => SECRETS_NAMESPACE,
                Group::MetalLb => metallb_namespace,
            };
            if !namespace.is_empty() && namespace != expected {
                return Err(format!(
                    "spec.passwordSecret.namespace must be {expected}, found {namespace:?}"
                ));
            }
            Ok(Some(Password::Secret(ObjectKey::new(expected, name))))
        }
        _ => Err("only one of spec.password and spec.passwordSecret may be set".to_owned()),
    }
}

fn profile(group: Group, name: &str, objects: &Objects) -> Result<BfdProfile, String> {
    let object = objects.profiles.get(&(group, name.to_owned()));
    let spec = &object
        .ok_or_else(|| format!("spec.bfdProfile: there is no BFDProfile {name:?}"))?
        .spec;
    let interval = |field: &str, value: Option<u32>| {
        let milliseconds = value.unwrap_or(BFD_MILLISECONDS_DEFAULT);
        if BFD_MILLISECONDS_RANGE.contains(&milliseconds) {
            Ok(Duration::from_millis(u64::from(milliseconds)))
        } else {
            Err(format!(
                "BFDProfile {name:?}: spec.{field} must be between 10 and 60000, found {milliseconds}"
            ))
        }
    };
    let detect_multiplier = spec.detect_multiplier.unwrap_or(DETECT_MULTIPLIER_DEFAULT);
    if detect_multiplier < 2 {
        return Err(format!(
            "BFDProfile {name:?}: spec.detectMultiplier must be at least 2"
        ));
    }
    let echo = if spec.echo_mode {
        let period = spec.echo_interval.unwrap_or(BFD_ECHO_MILLISECONDS_DEFAULT);
        let period = interval("echoInterval", Some(period))?;
        Some(bfd::EchoSettings {
            transmit_interval: period,
            receive_interval: period,
        })
    } else {
        None
    };
    Ok(BfdProfile {
        settings: bfd::Settings {
            receive_interval: interval("receiveInterval", spec.receive_interval)?,
            transmit_interval: interval("transmitInterval", spec.transmit_interval)?,
            detect_multiplier,
            is_passive: spec.passive_mode,
            echo,
        },
        minimum_ttl: spec.minimum_ttl.unwrap_or(MINIMUM_TTL_DEFAULT),
    })
}

/// Parses an advertisement.
pub(super) fn advertisement(
    group: Group,
    spec: &BgpAdvertisementSpec,
    objects: &Objects,
) -> Result<Advertisement, String> {
    let length = |field: &str, value: Option<u8>, longest: u8| match value {
        Some(length) if length > longest => {
            Err(format!("spec.{field} must be at most {longest}, found {length}"))
        }
        length => Ok(length.unwrap_or(longest)),
    };
    let communities = spec
        .communities
        .iter()
        .map(|text| community(group, text, objects));
    Ok(Advertisement {
        length4: length("aggregationLength", spec.aggregation_length, 32)?,
        length6: length("aggregationLengthV6", spec.aggregation_length_v6, 128)?,
        // With 0, the default of the field, MetalLB's FRR mode sets no preference, and its native mode sets 0.
        local_preference: spec
            .local_pref
            .filter(|preference| *preference != 0 || group == Group::Portolan),
        communities: communities.collect::<Result<_, _>>()?,
        pool_names: spec.ip_address_pools.clone(),
        pools: selectors("ipAddressPoolSelectors", &spec.ip_address_pool_selectors)?,
        nodes: selectors("nodeSelectors", &spec.node_selectors)?,
        services: selectors("serviceSelectors", &spec.service_selectors)?,
        peers: spec.peers.clone(),
    })
}

/// Returns the community of a text, or of the alias with that name.
fn community(group: Group, text: &str, objects: &Objects) -> Result<AnyCommunity, String> {
    let communities = objects.communities.iter().filter(|((of, _), _)| *of == group);
    let mut aliases = communities.flat_map(|(_, object)| &object.spec.communities);
    let alias = aliases.find(|alias| alias.name == text);
    let value = alias.map_or(text, |alias| &alias.value);
    value
        .parse()
        .map_err(|error| format!("spec.communities: {error}; no Community has an alias of that name"))
}

fn selectors(field: &str, values: &[Value]) -> Result<Vec<LabelSelector>, String> {
    let path = Path::new("spec").child(field);
    let parsed = values.iter().map(|value| {
        LabelSelector::from_object(&path, value).map_err(|errors| {
            let messages: Vec<String> = errors.into_iter().map(|error| error.message).collect();
            format!("spec.{field}: {}", messages.join("; "))
        })
    });
    parsed.collect()
}
