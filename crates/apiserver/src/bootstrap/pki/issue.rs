//! Issuing certificates, and checks of their fields.

use std::net::IpAddr;

use api::certificates::BACKDATE_SECONDS;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData,
};
use ring::hkdf::{HKDF_SHA256, Salt};
use x509_parser::prelude::{GeneralName, ParsedExtension, Pem, X509Certificate};
use x509_parser::x509::AttributeTypeAndValue;

use super::{CertificateAndKey, PkiError};
use crate::access::authentication::node_certificates::ISSUED_BY_ADMINISTRATOR;

/// Validity periods (kubeadm's).
const AUTHORITY_DAYS: i64 = 3650;
const SIGNED_DAYS: i64 = 365;

/// Purpose and subject of a certificate.
#[derive(Clone, Copy)]
pub(super) enum Purpose<'a> {
    /// Server certificate.
    Serving {
        /// Common name.
        common_name: &'a str,
        /// DNS names and addresses.
        names: &'a [String],
    },
    /// Client certificate.
    Client {
        /// Common name.
        user: &'a str,
        /// Organization; "" for no organization.
        group: &'a str,
    },
    /// Client certificate of a node component, issued by an administrator.
    NodeClient {
        /// Common name.
        user: &'a str,
        /// Organization, the group of the user.
        group: &'a str,
    },
}

/// Prefix of an Ed25519 key in PKCS 8 (RFC 8410), before its 32 bytes.
const ED25519_PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
const ED25519_SEED_BYTES: usize = 32;

/// Generates a random key.
pub(super) fn generate_key() -> Result<KeyPair, PkiError> {
    let subject = "CA";
    KeyPair::generate().map_err(|source| PkiError::Issue { subject, source })
}

/// Returns the Ed25519 key, derived from the key of a CA and a purpose by HKDF (RFC 5869).
pub(super) fn derive_key(authority: &CertificateAndKey, purpose: &[u8]) -> Result<KeyPair, PkiError> {
    let subject = "CA";
    let failed = |source| PkiError::Issue { subject, source };
    let secret = KeyPair::from_pem(&authority.key).map_err(failed)?.serialize_der();
    let mut seed = [0; ED25519_SEED_BYTES];
    let expanded = Salt::new(HKDF_SHA256, purpose).extract(&secret);
    let filled = expanded
        .expand(&[b"key"], HKDF_SHA256)
        .and_then(|output| output.fill(&mut seed));
    filled.map_err(|_| failed(rcgen::Error::RingUnspecified))?;
    let der: Vec<u8> = ED25519_PKCS8_PREFIX.into_iter().chain(seed).collect();
    KeyPair::try_from(der).map_err(failed)
}

/// Creates a CA with this name and key.
pub(super) fn create_ca(
    common_name: &str,
    key: KeyPair,
    now_seconds: i64,
) -> Result<CertificateAndKey, PkiError> {
    let subject = "CA";
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.distinguished_name = distinguished_name(common_name, None);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    set_validity(&mut params, now_seconds, AUTHORITY_DAYS);
    let certificate = params
        .self_signed(&key)
        .map_err(|source| PkiError::Issue { subject, source })?;
    Ok(CertificateAndKey {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

/// Creates a certificate, signed by a CA.
pub(super) fn sign(
    issuer: &Issuer<'_, KeyPair>,
    purpose: Purpose<'_>,
    now_seconds: i64,
) -> Result<CertificateAndKey, PkiError> {
    let subject = match purpose {
        Purpose::Serving { .. } => "serving",
        Purpose::Client { .. } | Purpose::NodeClient { .. } => "client",
    };
    let failed = |source| PkiError::Issue { subject, source };
    let key = KeyPair::generate().map_err(failed)?;
    let mut params = match purpose {
        Purpose::Serving { common_name, names } => {
            let mut params = CertificateParams::new(names).map_err(failed)?;
            params.distinguished_name = distinguished_name(common_name, None);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params
        }
        Purpose::Client { user, group } => {
            let mut params = CertificateParams::default();
            params.distinguished_name =
                distinguished_name(user, Some(group).filter(|group| !group.is_empty()));
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params
        }
        Purpose::NodeClient { user, group } => {
            let mut params = CertificateParams::default();
            params.distinguished_name = distinguished_name(user, Some(group));
            params
                .distinguished_name
                .push(DnType::OrganizationalUnitName, ISSUED_BY_ADMINISTRATOR);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params
        }
    };
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now_seconds, SIGNED_DAYS);
    if let Purpose::NodeClient { .. } = purpose {
        // The authenticator checks the time of issue to the second.
        let not_before = time::OffsetDateTime::from_unix_timestamp(now_seconds - BACKDATE_SECONDS);
        params.not_before = not_before.unwrap_or(params.not_before);
    }
    let certificate = params.signed_by(&key, issuer).map_err(failed)?;
    Ok(CertificateAndKey {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

/// Returns true if a certificate expires after a time.
pub(super) fn expires_after(certificate: &str, seconds: i64) -> bool {
    with_parsed(certificate, |parsed| {
        parsed.validity().not_after.timestamp() > seconds
    })
    .unwrap_or(false)
}

/// Returns true if an administrator issued the certificate after a time.
pub(super) fn is_issued_by_administrator_since(certificate: &str, seconds: i64) -> bool {
    with_parsed(certificate, |parsed| {
        let mut units = parsed.subject().iter_organizational_unit();
        let begin = parsed.validity().not_before.timestamp();
        units.any(|unit| unit.as_str() == Ok(ISSUED_BY_ADMINISTRATOR)) && begin + BACKDATE_SECONDS > seconds
    })
    .unwrap_or(false)
}

/// Returns true if the subject is this user as a member of this group, or of no group if that is "".
pub(super) fn has_subject(certificate: &str, user: &str, group: &str) -> bool {
    with_parsed(certificate, |parsed| {
        let subject = parsed.subject();
        let (mut names, mut groups) = (subject.iter_common_name(), subject.iter_organization());
        let text = |name: Option<&AttributeTypeAndValue<'_>>| {
            name.and_then(|name| name.as_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        text(names.next()) == user && text(groups.next()) == group
    })
    .unwrap_or(false)
}

/// Returns true if a CA signed a certificate, by the key identifiers of both.
pub(super) fn is_signed_by(certificate: &str, authority: &str) -> bool {
    let issuer = with_parsed(certificate, |parsed| {
        parsed
            .iter_extensions()
            .find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::AuthorityKeyIdentifier(key) => {
                    key.key_identifier.as_ref().map(|id| id.0.to_vec())
                }
                _ => None,
            })
    });
    let own = with_parsed(authority, |parsed| {
        parsed
            .iter_extensions()
            .find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(key) => Some(key.0.to_vec()),
                _ => None,
            })
    });
    matches!((issuer, own), (Some(Some(issuer)), Some(Some(own))) if issuer == own)
}

/// Returns true if a certificate is valid for all names and addresses.
pub(super) fn has_names(certificate: &str, names: &[String]) -> bool {
    let named = with_parsed(certificate, |parsed| {
        let Ok(Some(extension)) = parsed.subject_alternative_name() else {
            return Vec::new();
        };
        extension
            .value
            .general_names
            .iter()
            .filter_map(name_text)
            .collect()
    });
    named.is_some_and(|named: Vec<String>| names.iter().all(|name| named.contains(name)))
}

/// Returns true if a certificate belongs to a key.
pub(super) fn is_for_key(certificate: &str, key: &KeyPair) -> bool {
    with_parsed(certificate, |parsed| {
        parsed.public_key().subject_public_key.data == key.der_bytes()
    })
    .unwrap_or(false)
}

fn name_text(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let address = <[u8; 4]>::try_from(*bytes)
                .map(IpAddr::from)
                .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

fn with_parsed<T>(certificate: &str, read: impl FnOnce(&X509Certificate<'_>) -> T) -> Option<T> {
    let pem = Pem::iter_from_buffer(certificate.as_bytes()).next()?.ok()?;
    let parsed = pem.parse_x509().ok()?;
    Some(read(&parsed))
}

fn distinguished_name(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}

/// Sets the validity from yesterday on, for hosts whose clock is some hours slow.
fn set_validity(params: &mut CertificateParams, now_seconds: i64, days: i64) {
    let (year, month, day) = day_of(now_seconds - 86_400);
    params.not_before = rcgen::date_time_ymd(year, month, day);
    let (year, month, day) = day_of(now_seconds + days * 86_400);
    params.not_after = rcgen::date_time_ymd(year, month, day);
}

fn day_of(seconds: i64) -> (i32, u8, u8) {
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
    let date = time.to_zoned(TimeZone::UTC).date();
    (
        i32::from(date.year()),
        date.month().unsigned_abs(),
        date.day().unsigned_abs(),
    )
}
