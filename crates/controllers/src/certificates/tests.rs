use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use api::certificates::{
    CLIENT_SIGNER, INCARNATION, INCARNATION_UNIT_PREFIX, Incarnation, JOINED_BY_REQUEST, NODE_CLIENT_SIGNER,
    NODE_PART_SIGNER, NODE_SERVING_SIGNER, NodePart, REPLACES_NODE, condition,
};
use api::object::{CertificateSigningRequest, CertificateSigningRequestCondition, Node};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, SanType};
use serde_json::json;
use x509_parser::pem::Pem;

use super::node_ownership::{NodeOwnership, incarnation_for, node_ownership};
use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Returns a request for a user with groups and names, sent by the user `by`.
fn object(signer: &str, user: &str, groups: &[&str], names: &[&str], by: &str) -> CertificateSigningRequest {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    params.subject_alt_names = names
        .iter()
        .map(|name| match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName((*name).try_into().unwrap()),
        })
        .collect();
    let pem = params
        .serialize_request(&KeyPair::generate().unwrap())
        .unwrap()
        .pem()
        .unwrap();
    let mut object = CertificateSigningRequest::default();
    object.spec.request = STANDARD.encode(pem);
    object.spec.signer_name = signer.to_owned();
    let usage = if signer == NODE_SERVING_SIGNER {
        "server auth"
    } else {
        "client auth"
    };
    object.spec.usages = vec!["digital signature".to_owned(), usage.to_owned()];
    object.spec.username = by.to_owned();
    if by.starts_with("system:node:") {
        object.spec.groups = vec!["system:nodes".to_owned()];
    }
    object
}

fn authority(directory: &std::path::Path) -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let certificate = params.self_signed(&key).unwrap();
    let (crt, pem) = (directory.join("ca.crt"), directory.join("ca.key"));
    std::fs::write(&crt, certificate.pem()).unwrap();
    std::fs::write(&pem, key.serialize_pem()).unwrap();
    Authority::open(&crt, &pem, Duration::from_secs(86_400)).unwrap()
}

const NODES: &[&str] = &["system:nodes"];
const TOKEN: &str = "system:bootstrap:abcdef";

#[test]
fn node_requests_are_recognized_by_names_usages_and_groups() {
    let purpose = |object: &CertificateSigningRequest| recognize(object).map(|found| found.purpose);
    let joining = object(NODE_CLIENT_SIGNER, "system:node:n1", NODES, &[], TOKEN);
    assert_eq!(purpose(&joining), Some(Purpose::Joining));
    let renewing = object(NODE_CLIENT_SIGNER, "system:node:n1", NODES, &[], "system:node:n1");
    assert_eq!(purpose(&renewing), Some(Purpose::Renewing));
    let serving = object(
        NODE_SERVING_SIGNER,
        "system:node:n1",
        NODES,
        &["n1", "192.0.2.1"],
        "system:node:n1",
    );
    assert_eq!(purpose(&serving), Some(Purpose::Serving(vec![ip("192.0.2.1")])));
    for part in NodePart::ALL {
        let object = object(
            NODE_PART_SIGNER,
            &part.user("n1"),
            &[part.group()],
            &[],
            "system:node:n1",
        );
        assert_eq!(purpose(&object), Some(Purpose::Part(part)));
    }
}

#[test]
fn other_requests_of_nodes_need_manual_approval() {
    let others = [
        // Name of another Node.
        object(NODE_CLIENT_SIGNER, "system:node:n1", NODES, &[], "system:node:n2"),
        object(
            NODE_SERVING_SIGNER,
            "system:node:n1",
            NODES,
            &["n1"],
            "system:node:n2",
        ),
        // No group, and a wrong one.
        object(NODE_CLIENT_SIGNER, "system:node:n1", &[], &[], TOKEN),
        object(
            NODE_CLIENT_SIGNER,
            "system:node:n1",
            &["system:masters"],
            &[],
            TOKEN,
        ),
        object(NODE_CLIENT_SIGNER, "system:node:", NODES, &[], TOKEN),
        // Unneeded names of a client, missing names of a server, and foreign names.
        object(NODE_CLIENT_SIGNER, "system:node:n1", NODES, &["n1"], TOKEN),
        object(
            NODE_SERVING_SIGNER,
            "system:node:n1",
            NODES,
            &[],
            "system:node:n1",
        ),
        object(
            NODE_SERVING_SIGNER,
            "system:node:n1",
            NODES,
            &["kubernetes"],
            "system:node:n1",
        ),
        object(CLIENT_SIGNER, "system:node:n1", NODES, &[], "system:node:n1"),
    ];
    for other in others {
        assert_eq!(recognize(&other), None, "{:?}", other.spec);
    }
    let mut usages = object(NODE_CLIENT_SIGNER, "system:node:n1", NODES, &[], TOKEN);
    usages.spec.usages.push("server auth".to_owned());
    assert_eq!(recognize(&usages), None);
}

#[test]
fn other_requests_of_components_need_manual_approval() {
    let others = [
        // A privileged user.
        object(
            NODE_PART_SIGNER,
            "system:kube-controller-manager",
            &[],
            &[],
            "system:node:n1",
        ),
        // The former shared user, another node's, another component's group, an extra group, a
        // sender that is not an agent.
        object(
            NODE_PART_SIGNER,
            "system:portolan-edge",
            &[],
            &[],
            "system:node:n1",
        ),
        object(
            NODE_PART_SIGNER,
            "system:portolan-edge",
            &["system:portolan:edges"],
            &[],
            "system:node:n1",
        ),
        object(
            NODE_PART_SIGNER,
            "system:portolan-edge:n2",
            &["system:portolan:edges"],
            &[],
            "system:node:n1",
        ),
        object(
            NODE_PART_SIGNER,
            "system:kube-proxy:n1",
            &["system:portolan:edges"],
            &[],
            "system:node:n1",
        ),
        object(
            NODE_PART_SIGNER,
            "system:kube-proxy:n1",
            &["system:portolan:proxies", "system:masters"],
            &[],
            "system:node:n1",
        ),
        object(
            NODE_PART_SIGNER,
            "system:kube-proxy:n1",
            &["system:portolan:proxies"],
            &[],
            TOKEN,
        ),
    ];
    for other in others {
        assert_eq!(recognize(&other), None, "{:?}", other.spec);
    }
}

fn node(name: &str, addresses: &[&str]) -> Node {
    let addresses: Vec<_> = addresses
        .iter()
        .map(|address| json!({"type": "InternalIP", "address": address}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "7"},
        "status": {"addresses": addresses},
    }))
    .unwrap()
}

#[test]
fn rejects_the_name_of_an_existing_node() {
    let mut joining = object(NODE_CLIENT_SIGNER, "system:node:n1", NODES, &[], TOKEN);
    let present = node("n1", &[]);
    let taken = Some(DenialReason::NameTaken("n1".to_owned()));
    assert_eq!(joining_denial(&joining, &present), taken);
    let replaces = |name: &str, incarnation: &str| {
        let words = vec![name.to_owned(), incarnation.to_owned()];
        std::collections::BTreeMap::from([(REPLACES_NODE.to_owned(), words)])
    };
    let own = Incarnation::new("uid-n1", "").to_string();
    joining.spec.extra = replaces("n1", &own);
    assert_eq!(joining_denial(&joining, &present), None);
    let another = Incarnation::new("uid-n1", "request-1").to_string();
    for (name, incarnation) in [("n2", &own), ("n1", &another)] {
        joining.spec.extra = replaces(name, incarnation);
        assert_eq!(joining_denial(&joining, &present), taken, "{name} {incarnation}");
    }
}

#[test]
fn reserves_a_node_name_for_one_request() {
    let mut first = object(NODE_CLIENT_SIGNER, "system:node:n1", NODES, &[], TOKEN);
    first.metadata.uid = "request-1".to_owned();
    let mut second = first.clone();
    second.metadata.uid = "request-2".to_owned();
    assert_eq!(node_ownership(&first, None), NodeOwnership::Create);
    let mut present = node("n1", &[]);
    let annotations = &mut present.metadata.annotations;
    annotations.insert(JOINED_BY_REQUEST.to_owned(), "request-1".to_owned());
    assert_eq!(
        node_ownership(&first, Some(&present)),
        NodeOwnership::Mark("7".to_owned())
    );
    assert!(matches!(
        node_ownership(&second, Some(&present)),
        NodeOwnership::Refused(_)
    ));
    let annotations = &mut present.metadata.annotations;
    annotations.insert(INCARNATION.to_owned(), "request-1".to_owned());
    assert_eq!(node_ownership(&first, Some(&present)), NodeOwnership::Owned);
    assert!(matches!(
        node_ownership(&second, Some(&present)),
        NodeOwnership::Refused(_)
    ));
    second.status.conditions.push(CertificateSigningRequestCondition {
        kind: condition::APPROVED.to_owned(),
        status: "True".to_owned(),
        reason: "KubectlApprove".to_owned(),
        ..CertificateSigningRequestCondition::default()
    });
    assert_eq!(
        node_ownership(&second, Some(&present)),
        NodeOwnership::Mark("7".to_owned())
    );
}

#[test]
fn binds_a_certificate_to_the_incarnation_of_its_requester() {
    let mut present = node("n1", &[]);
    let mut request = object(NODE_CLIENT_SIGNER, "system:node:n1", NODES, &[], TOKEN);
    request.metadata.uid = "request-1".to_owned();
    let bound =
        |request: &CertificateSigningRequest, present: &Node| incarnation_for(request, "n1", Some(present));
    let taken = Err(DenialReason::NameTaken("n1".to_owned()));
    assert_eq!(bound(&request, &present), taken);
    let annotations = &mut present.metadata.annotations;
    annotations.insert(INCARNATION.to_owned(), "request-1".to_owned());
    let current = Incarnation::new("uid-n1", "request-1");
    assert_eq!(bound(&request, &present), Ok(Some(current.clone())));
    // Another host replaced the Node before the certificate was signed.
    let mut replaced = present.clone();
    let annotations = &mut replaced.metadata.annotations;
    annotations.insert(INCARNATION.to_owned(), "request-2".to_owned());
    assert_eq!(bound(&request, &replaced), taken);

    let mut renewing = object(NODE_CLIENT_SIGNER, "system:node:n1", NODES, &[], "system:node:n1");
    let stale = Err(DenialReason::AnotherIncarnation("n1".to_owned()));
    assert_eq!(bound(&renewing, &present), stale);
    let proved = vec![current.to_string()];
    renewing.spec.extra.insert(INCARNATION.to_owned(), proved);
    assert_eq!(bound(&renewing, &present), Ok(Some(current)));
    assert_eq!(bound(&renewing, &replaced), stale);
    assert_eq!(incarnation_for(&renewing, "n1", None), stale);
    // The host joined with an earlier version.
    renewing.spec.extra.clear();
    let of_earlier_version = Ok(Some(Incarnation::new("uid-n1", "")));
    assert_eq!(bound(&renewing, &node("n1", &[])), of_earlier_version);
    assert_eq!(incarnation_for(&renewing, "n1", None), Ok(None));
}

#[test]
fn client_certificates_carry_the_incarnation() {
    let directory = tempfile::tempdir().unwrap();
    let authority = authority(directory.path());
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let incarnation = Incarnation::new("uid-n1", "request-1");
    let units = |object: &CertificateSigningRequest| -> Vec<String> {
        let signed = authority.sign(object, Some(&incarnation), now).unwrap();
        let block = Pem::iter_from_buffer(signed.as_bytes()).next().unwrap().unwrap();
        let certificate = block.parse_x509().unwrap();
        let units = certificate.subject().iter_organizational_unit();
        units.map(|unit| unit.as_str().unwrap().to_owned()).collect()
    };
    let client = object(NODE_CLIENT_SIGNER, "system:node:n1", NODES, &[], TOKEN);
    let unit = format!("{INCARNATION_UNIT_PREFIX}{incarnation}");
    assert!(unit.len() <= 64, "{unit}");
    assert_eq!(units(&client), [unit]);
    let by = "system:node:n1";
    let server = object(NODE_SERVING_SIGNER, by, NODES, &["n1"], by);
    assert!(units(&server).is_empty());
}

#[test]
fn rejects_names_of_api_servers_and_of_the_cluster_domain() {
    let names = ["lb.example.com", "192.0.2.4"].map(str::to_owned);
    let reserved = ReservedNames::new(&names, "cluster.example");
    assert_eq!(reserved.name_denial("n1"), None);
    assert_eq!(reserved.name_denial("n1.example.com"), None);
    for name in [
        "kubernetes",
        "localhost",
        "kubernetes.default.svc",
        "Kubernetes.default.svc",
        "*.default.svc",
        "a.b.svc",
        "a.cluster.example",
        "*.svc.cluster.example",
        "kubernetes.default.svc.cluster.local",
        "lb.example.com",
        "LB.example.com",
        "192.0.2.4",
        "n1/x",
        "",
    ] {
        assert!(
            matches!(reserved.name_denial(name), Some(DenialReason::Name(_))),
            "{name}"
        );
    }
}

/// A compromised node reports as many addresses as fit into its Node, and requests as many. With quadratic time, the check
/// would take minutes.
#[test]
fn many_addresses_of_a_node_are_compared_in_linear_time() {
    let texts: Vec<String> = (0..40_000)
        .map(|number| format!("203.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255))
        .collect();
    let own: Vec<&str> = texts.iter().map(String::as_str).collect();
    let requested: Vec<IpAddr> = texts.iter().map(|text| ip(text)).collect();
    let foreign = ForeignAddresses {
        nodes: vec![node("n1", &own), node("n2", &["192.0.2.2"])],
        ..ForeignAddresses::default()
    };
    let denial = serving_denial("n1", &requested, &foreign, &ReservedNames::default());
    assert_eq!(denial, None);
}

#[test]
fn serving_certificates_are_limited_to_the_nodes_own_addresses() {
    let foreign = ForeignAddresses {
        nodes: vec![
            node(
                "n1",
                &["192.0.2.1", "10.96.0.1", "127.0.0.1", "fe80::1", "192.0.2.5"],
            ),
            node("n2", &["192.0.2.2"]),
            node("n3", &["192.0.2.2"]),
            node("n4", &["192.0.2.4"]),
        ],
        api_servers: BTreeSet::from([ip("192.0.2.4")]),
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
    };
    let reserved = ReservedNames::new(&["192.0.2.5".to_owned()], "cluster.local");
    let denial_of = |name: &str, address: &str| serving_denial(name, &[ip(address)], &foreign, &reserved);
    assert_eq!(denial_of("n1", "192.0.2.1"), None);
    assert!(denial_of("n1", "192.0.2.9").is_some_and(|denial| denial.is_temporary()));
    assert_eq!(
        serving_denial("n9", &[], &foreign, &reserved),
        Some(DenialReason::NoNode("n9".to_owned()))
    );
    for (name, address) in [
        ("n2", "192.0.2.2"),
        ("n4", "192.0.2.4"),
        ("n1", "192.0.2.5"),
        ("n1", "::ffff:192.0.2.2"),
    ] {
        let denial = denial_of(name, address);
        assert!(
            matches!(denial, Some(DenialReason::AddressTaken { .. })),
            "{denial:?}"
        );
    }
    for address in [
        "10.96.0.1",
        "127.0.0.1",
        "::1",
        "fe80::1",
        "169.254.1.1",
        "0.0.0.0",
        "224.0.0.1",
    ] {
        let denial = denial_of("n1", address);
        assert!(
            matches!(denial, Some(DenialReason::UnusableAddress { .. })),
            "{denial:?}"
        );
    }
}

#[test]
fn certificates_match_their_request_and_its_validity() {
    let directory = tempfile::tempdir().unwrap();
    let authority = authority(directory.path());
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut requested = object(
        NODE_SERVING_SIGNER,
        "system:node:n1",
        NODES,
        &["n1", "192.0.2.1"],
        "system:node:n1",
    );
    let signed = authority.sign(&requested, None, now).unwrap();
    let block = Pem::iter_from_buffer(signed.as_bytes()).next().unwrap().unwrap();
    let certificate = block.parse_x509().unwrap();
    assert_eq!(
        certificate
            .subject()
            .iter_common_name()
            .next()
            .unwrap()
            .as_str()
            .unwrap(),
        "system:node:n1"
    );
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    assert_eq!(names.value.general_names.len(), 2);
    let uses = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(uses.server_auth && !uses.client_auth && !certificate.is_ca());
    assert_eq!(
        certificate.validity().not_after.timestamp(),
        now.as_second() + 86_400
    );
    requested.spec.expiration_seconds = Some(600);
    let short = authority.sign(&requested, None, now).unwrap();
    let block = Pem::iter_from_buffer(short.as_bytes()).next().unwrap().unwrap();
    let end = block.parse_x509().unwrap().validity().not_after.timestamp();
    assert_eq!(end, now.as_second() + 600);
    requested.status.certificate = STANDARD.encode(&short);
    requested.metadata.creation_timestamp = Some(now.to_string());
    let over = |seconds| retention(&requested, now + SignedDuration::from_secs(seconds));
    assert_eq!(
        (over(599), over(600)),
        (
            Retention::Remaining(SignedDuration::from_secs(1)),
            Retention::Expired
        )
    );
}

/// A Node may have a name such as `192.0.2.9`. Its certificate is valid for this name, and not for the address of another
/// node.
#[test]
fn names_of_the_form_of_an_address_are_no_addresses() {
    let (name, by) = ("192.0.2.9", "system:node:192.0.2.9");
    let mut request = object(NODE_SERVING_SIGNER, by, NODES, &[], by);
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, by);
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:nodes");
    params.subject_alt_names = vec![SanType::DnsName(name.try_into().unwrap())];
    let signing = params.serialize_request(&KeyPair::generate().unwrap()).unwrap();
    request.spec.request = STANDARD.encode(signing.pem().unwrap());
    assert_eq!(
        recognize(&request).map(|found| found.purpose),
        Some(Purpose::Serving(Vec::new()))
    );
    let directory = tempfile::tempdir().unwrap();
    let pem = authority(directory.path())
        .sign(&request, None, Timestamp::now())
        .unwrap();
    let block = Pem::iter_from_buffer(pem.as_bytes()).next().unwrap().unwrap();
    let certificate = block.parse_x509().unwrap();
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    assert_eq!(
        names.value.general_names,
        [x509_parser::extensions::GeneralName::DNSName(name)]
    );
}

#[test]
fn signers_reject_approved_requests_that_violate_their_rules() {
    let directory = tempfile::tempdir().unwrap();
    let authority = authority(directory.path());
    let now = Timestamp::UNIX_EPOCH;
    for requested in [
        object(
            NODE_CLIENT_SIGNER,
            "kubernetes-admin",
            &["system:masters"],
            &[],
            "ann",
        ),
        object(NODE_PART_SIGNER, "system:node:n1", NODES, &[], "ann"),
        object(CLIENT_SIGNER, "ann", &["one"], &["kubernetes"], "ann"),
    ] {
        let refused = authority.sign(&requested, None, now).unwrap_err();
        assert!(matches!(refused, SignError::NotPermitted { .. }), "{refused}");
    }
    assert!(
        authority
            .sign(&object(CLIENT_SIGNER, "ann", &["one"], &[], "ann"), None, now)
            .is_ok()
    );
    assert!(!Authority::signs(&object(
        "example.com/other",
        "ann",
        &[],
        &[],
        "ann"
    )));
}

#[test]
fn requests_expire_after_their_retention() {
    let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut object = CertificateSigningRequest::default();
    object.metadata.creation_timestamp = Some(created.to_string());
    let hours = |object: &CertificateSigningRequest, hours| {
        retention(object, created + SignedDuration::from_hours(hours))
    };
    assert!(matches!(hours(&object, 23), Retention::Remaining(_)));
    assert_eq!(hours(&object, 24), Retention::Expired);
    object.status.conditions.push(CertificateSigningRequestCondition {
        kind: condition::DENIED.to_owned(),
        status: "True".to_owned(),
        last_update_time: Some("2026-01-01T01:00:00Z".to_owned()),
        ..CertificateSigningRequestCondition::default()
    });
    assert_eq!(
        hours(&object, 1),
        Retention::Remaining(SignedDuration::from_hours(1))
    );
    assert_eq!(hours(&object, 2), Retention::Expired);
    // Approved and not signed.
    object.status.conditions[0].kind = condition::APPROVED.to_owned();
    assert!(matches!(hours(&object, 2), Retention::Remaining(_)));
}

#[test]
fn request_with_a_decision_at_the_end_of_time_is_retained() {
    let mut object = CertificateSigningRequest::default();
    object.status.conditions.push(CertificateSigningRequestCondition {
        kind: condition::DENIED.to_owned(),
        status: "True".to_owned(),
        last_update_time: Some(Timestamp::MAX.to_string()),
        ..CertificateSigningRequestCondition::default()
    });
    let left = retention(&object, Timestamp::UNIX_EPOCH);
    assert!(matches!(left, Retention::Remaining(_)), "{left:?}");
}
