//! Views of BGPPeers, BGPAdvertisements, Communities and BFDProfiles: MetalLB's and Portolan's have the same fields.

use api::object::{AddressPoolSpec, ObjectMeta, null_as_default};
use balancer::metallb::objects::IpAddressPoolSpec;
use serde::Deserialize;
use serde_json::Value;

/// `spec` of a BGPPeer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BgpPeerSpec {
    /// Autonomous system of the nodes.
    #[serde(rename = "myASN")]
    pub my_asn: u32,
    /// Autonomous system of the peer; 0 with `dynamic_asn`.
    #[serde(rename = "peerASN")]
    pub peer_asn: u32,
    /// `internal` or `external` instead of a number.
    #[serde(rename = "dynamicASN")]
    pub dynamic_asn: String,
    /// Autonomous system of the nodes for this peer; 0 for `my_asn`.
    #[serde(rename = "localASN")]
    pub local_asn: u32,
    /// Address of the peer.
    pub peer_address: String,
    /// Link of a peer without address.
    pub interface: String,
    /// TCP port of the peer; 0 for 179.
    pub peer_port: u16,
    /// Address of the node from which it connects.
    pub source_address: String,
    /// BGP identifier of the nodes.
    #[serde(rename = "routerID")]
    pub router_id: String,
    /// Hold time, such as `90s`.
    pub hold_time: Option<String>,
    /// Period of KEEPALIVEs.
    pub keepalive_time: Option<String>,
    /// Maximum delay between two attempts to connect.
    pub connect_time: Option<String>,
    /// Selectors of the nodes; empty for all.
    #[serde(deserialize_with = "null_as_default")]
    pub node_selectors: Vec<Value>,
    /// Password of the connections.
    pub password: String,
    /// Secret with the password.
    #[serde(deserialize_with = "null_as_default")]
    pub password_secret: SecretReference,
    /// Name of a BFDProfile.
    pub bfd_profile: String,
    /// Negotiate graceful restart.
    pub enable_graceful_restart: bool,
    /// An external peer is not on the same link.
    #[serde(rename = "ebgpMultiHop")]
    pub ebgp_multi_hop: bool,
    /// VRF of the node.
    pub vrf: String,
    /// Announce addresses of both families.
    pub dual_stack_address_family: bool,
    /// Wait for connections of the peer.
    pub passive: bool,
    /// Accept packets that no router has forwarded only.
    pub ttl_security: bool,
}

/// Reference to a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SecretReference {
    /// Name of the Secret.
    pub name: String,
    /// Namespace of the Secret.
    pub namespace: String,
}

/// `spec` of a BGPAdvertisement.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BgpAdvertisementSpec {
    /// Length of announced prefixes of IPv4; `None` for 32.
    pub aggregation_length: Option<u8>,
    /// Length of announced IPv6 prefixes; `None` for 128.
    #[serde(rename = "aggregationLengthV6")]
    pub aggregation_length_v6: Option<u8>,
    /// LOCAL_PREF of the routes.
    pub local_pref: Option<u32>,
    /// Communities, or aliases of Communities.
    #[serde(deserialize_with = "null_as_default")]
    pub communities: Vec<String>,
    /// Names of the announced pools.
    #[serde(rename = "ipAddressPools", deserialize_with = "null_as_default")]
    pub ip_address_pools: Vec<String>,
    /// Selectors of the announced pools.
    #[serde(rename = "ipAddressPoolSelectors", deserialize_with = "null_as_default")]
    pub ip_address_pool_selectors: Vec<Value>,
    /// Selectors of the nodes that announce; empty for all.
    #[serde(deserialize_with = "null_as_default")]
    pub node_selectors: Vec<Value>,
    /// Selectors of the Services whose addresses are announced; empty for all.
    #[serde(deserialize_with = "null_as_default")]
    pub service_selectors: Vec<Value>,
    /// Names of the peers; empty for all.
    #[serde(deserialize_with = "null_as_default")]
    pub peers: Vec<String>,
}

/// `spec` of a Community.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CommunitySpec {
    /// Aliases.
    #[serde(deserialize_with = "null_as_default")]
    pub communities: Vec<CommunityAlias>,
}

/// Name of a community.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CommunityAlias {
    /// Name.
    pub name: String,
    /// Community.
    pub value: String,
}

/// `spec` of a BFDProfile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BfdProfileSpec {
    /// Minimum period of received packets in milliseconds.
    pub receive_interval: Option<u32>,
    /// Minimum period of sent packets in milliseconds.
    pub transmit_interval: Option<u32>,
    /// Number of missed packets after which a session is down.
    pub detect_multiplier: Option<u8>,
    /// Send nothing before the peer does.
    pub passive_mode: bool,
    /// Use the echo function.
    pub echo_mode: bool,
    /// Minimum period of sent and returned echo packets in milliseconds.
    pub echo_interval: Option<u32>,
    /// Minimum TTL of packets of peers that are not on the same link.
    pub minimum_ttl: Option<u8>,
}

/// Object with metadata and a spec, of MetalLB or of Portolan.
macro_rules! object {
    ($name:ident, $spec:ty, $group:expr, $version:expr, $kind:expr, $plural:expr) => {
        #[doc = concat!("A ", $kind, ".")]
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(default)]
        pub struct $name {
            /// Standard object metadata.
            pub metadata: ObjectMeta,
            /// Desired state.
            #[serde(deserialize_with = "null_as_default")]
            pub spec: $spec,
        }

        api::resource!($name, $group, $version, $kind, $plural);

        impl From<$name> for (ObjectMeta, $spec) {
            fn from(object: $name) -> Self {
                (object.metadata, object.spec)
            }
        }
    };
}

const METALLB: &str = "metallb.io";
const PORTOLAN: &str = "portolan.dev";

object!(
    MetalLbPeer,
    BgpPeerSpec,
    METALLB,
    "v1beta2",
    "BGPPeer",
    "bgppeers"
);
object!(
    MetalLbAdvertisement,
    BgpAdvertisementSpec,
    METALLB,
    "v1beta1",
    "BGPAdvertisement",
    "bgpadvertisements"
);
object!(
    MetalLbCommunity,
    CommunitySpec,
    METALLB,
    "v1beta1",
    "Community",
    "communities"
);
object!(
    MetalLbBfdProfile,
    BfdProfileSpec,
    METALLB,
    "v1beta1",
    "BFDProfile",
    "bfdprofiles"
);
object!(
    MetalLbPool,
    IpAddressPoolSpec,
    METALLB,
    "v1beta1",
    "IPAddressPool",
    "ipaddresspools"
);
object!(
    Pool,
    AddressPoolSpec,
    PORTOLAN,
    "v1alpha1",
    "AddressPool",
    "addresspools"
);
object!(BgpPeer, BgpPeerSpec, PORTOLAN, "v1alpha1", "BGPPeer", "bgppeers");
object!(
    BgpAdvertisement,
    BgpAdvertisementSpec,
    PORTOLAN,
    "v1alpha1",
    "BGPAdvertisement",
    "bgpadvertisements"
);
object!(
    Community,
    CommunitySpec,
    PORTOLAN,
    "v1alpha1",
    "Community",
    "communities"
);
object!(
    BfdProfile,
    BfdProfileSpec,
    PORTOLAN,
    "v1alpha1",
    "BFDProfile",
    "bfdprofiles"
);
